"""Bounded memory, by counts: a node keeps only what its groups, members, offsets and connections account for."""

from collections.abc import Mapping

from coordinator.gateway.gateway import Gateway
from coordinator.groups.classic.state import ClassicGroup
from coordinator.node.node import AnyNode
from tests.simulation.errors import Broken
from tests.simulation.network import Link

_CHORES = 16
_TIMERS_A_MEMBER = 4
"""Timers of a server-driven group: its session, and times to revoke, to join again and to sync."""


def compare_sizes(node: AnyNode, links: Mapping[int, Link]) -> None:
    """Check that no connection, operation, held reply or note is kept that nothing accounts for."""
    core = node.core
    known = set(core.connections) - set(links)
    if known:
        raise Broken(f"connections {sorted(known)} are kept, and nobody has them")
    groups = [group.classic for group in core.directory.values()]
    asked = len(node.upstream_requests._delayed) if isinstance(node, Gateway) else 0
    driven = [group.consumer for group in core.directory.values() if group.consumer is not None]
    waits = sum(map(_waits, groups)) + core.fetches.watched + asked
    waits += _TIMERS_A_MEMBER * sum([len(group.members) for group in driven])
    balanced = [group.balanced for group in core.directory.values() if group.balanced is not None]
    waits += sum([len(group.members) for group in balanced])  # a lease of each
    waits += core.purgatory.by_kind.get("produce", 0)
    # A connection waits for one thing at most: the refusal of its login, or the end of its throttling.
    waits += min(sum([core.purgatory.by_kind.get(kind, 0) for kind in ("login", "throttle")]), len(core.connections))
    _at_most("watched operations", len(core.purgatory), waits + _CHORES)
    _at_most("groups in the directory", len(groups), sum(len(shard.groups) for shard in core.shards))
    requests = sum(connection.session.unanswered for connection in core.connections.values())
    _at_most("held replies", len(core.outbox.held), requests + _gone(node))
    notes: dict[str, int] = {}
    for note in core.journal.notes():
        notes[note.group_id] = notes.get(note.group_id, 0) + 1
    for group_id, count in notes.items():
        _at_most(f"notes of {group_id}", count, core.config.journal_notes_per_group)


FLUSHED_WITHIN_MS = 2_000
"""Time within which appends that no reply waits for, as those of log ends, are flushed: the node flushes each
second."""


def compare_at_rest(node: AnyNode, written: int) -> None:
    """Check a node at rest: nothing waits for the disk, and nothing waits to be sent. `written` is the position of the
    write-ahead log `FLUSHED_WITHIN_MS` ago."""
    core, store = node.core, node.core.store
    if written > store.flushed:
        raise Broken(f"{written - store.flushed} bytes are written and will never be flushed")
    for what, there in (
        ("replies are held", core.outbox.held),
        ("replies are ready", core.outbox.ready),
        ("pushes are ready", core.outbox.pushes),
        ("produces wait", core.waiting_produces.waiting),
        ("produces wait to be durable", core.purgatory.by_kind.get("produce", 0)),
    ):
        if there:
            raise Broken(f"{what} while the node is at rest")
    if store.disk_full:
        raise Broken("the disk has had room for long, and nothing is written")


def _waits(group: ClassicGroup) -> int:
    return len(group.members) + len(group.pending) + 1


def _gone(node: AnyNode) -> int:
    """Count held replies of closed connections, which are dropped at their release; internal requests have none."""
    return sum(ref.connection not in node.core.connections for _position, ref, _reply in node.core.outbox.held)


def _at_most(what: str, count: int, most: int) -> None:
    if count > most:
        raise Broken(f"{count} {what}, {most} are accounted for")
