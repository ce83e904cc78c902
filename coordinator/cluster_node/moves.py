"""Moves of shards from node to node: the previous owner, its end of service, and a note in each group with members."""

from collections.abc import Iterator
from typing import NamedTuple

from coordinator.clock import Moment
from coordinator.cluster_log.effects import ShardOwned
from coordinator.cluster_node.events import NodesFound
from coordinator.cluster_node.nodes import NOBODY, LetGo
from coordinator.facts.views import list_group
from coordinator.groups.classic.notes import Cause
from coordinator.records.records import Note
from coordinator.runtime.group import Group
from coordinator.runtime.shard import Shard

_GROUPS_A_PIECE, _WORK_A_GROUP = 100, 20
"""Number of groups that get the note in one piece of work, and microseconds for each."""


class _LostOwner(NamedTuple):
    """The owner of a shard in the last table of owners, and since when its groups have no coordinator. `has_ended`: its
    process is known to have ended then; otherwise it was silent from then on."""

    node_id: int
    since_boot_ms: int
    has_ended: bool


class ShardMoves:
    """Moves that this node learns of. `session_ms`: the session timeout of the nodes' group."""

    def __init__(self, session_ms: int) -> None:
        self._session_ms = session_ms
        self._owners: tuple[int, ...] = ()
        self._lost: dict[int, _LostOwner] = {}
        self._let_go: dict[int, LetGo] = {}
        self._ended_boot_ms: dict[int, int] = {}
        """Times at which this node learnt that the process of a member had ended."""

    def found(self, event: NodesFound) -> None:
        """Note the nodes that have left and whose shards have another owner now. A loss is over when the node has the
        shard again."""
        present = {node.node_id for node in event.nodes}
        owners = dict(enumerate(event.owners))
        self._lost = {shard: lost for shard, lost in self._lost.items() if owners.get(shard) != lost.node_id}
        for shard, (before, now) in enumerate(zip(self._owners, event.owners, strict=False)):
            if before in {now, NOBODY} or event.unsettled_boot_ms < 0:
                continue
            silent_ms = event.unsettled_boot_ms - self._session_ms
            ended_ms = self._ended_boot_ms.get(before, -1)
            if ended_ms >= max(silent_ms - self._session_ms, 0):  # the group knew a session later, at most
                self._lost[shard] = _LostOwner(before, ended_ms, has_ended=True)
            elif before not in present:
                self._lost[shard] = _LostOwner(before, silent_ms, has_ended=False)
        for lost in self._lost.values():
            self._ended_boot_ms.pop(lost.node_id, None)
        self._owners = event.owners

    def ended(self, node_id: int, boot_ms: int) -> None:
        """Note that the process of a node has ended."""
        self._ended_boot_ms[node_id] = boot_ms

    def let_go(self, news: LetGo) -> None:
        """Note that a node handed a shard over as planned."""
        self._let_go[news.shard] = news

    def append_notes(self, shard: Shard, owned: ShardOwned, node_id: int, moment: Moment) -> Iterator[int]:
        """Append the note of the move to each group with members. Yields the cost in microseconds."""
        detail, took_ms = self._detail(shard.index, owned, node_id, moment)
        if not detail:
            return
        for number, group in enumerate(list(shard.groups.values()), start=1):
            if group.member_count:
                shard.append_notes([_note(group, detail, took_ms, moment)], moment)
            if number % _GROUPS_A_PIECE == 0:
                yield _GROUPS_A_PIECE * _WORK_A_GROUP

    def _detail(self, shard: int, owned: ShardOwned, node_id: int, moment: Moment) -> tuple[str, int]:
        """Return the description of the move, and the time that the groups had no coordinator; -1 if it is unknown. For
        a shard without a previous owner the description is empty."""
        before = owned.before
        if before == NOBODY:
            return "", -1
        let_go, lost = self._let_go.pop(shard, None), self._lost.pop(shard, None)
        if let_go is not None and let_go.tag == owned.before_tag:
            took_ms, why = max(moment.wall_ms - let_go.wall_ms, 0), f"node {before} handed it over"
        elif lost is not None and lost.node_id == before != node_id:
            took_ms = moment.boot_ms - lost.since_boot_ms
            silent = f"was silent for the session of the nodes, {_seconds(self._session_ms)}"
            why = f"node {before} {'ended' if lost.has_ended else silent}"
        else:
            took_ms, why = -1, ""
        moved = f"back to node {node_id}" if before == node_id else f"from node {before} to node {node_id}"
        return ", ".join(part for part in (moved, _seconds(took_ms) if took_ms >= 0 else "", why) if part), took_ms


def _seconds(ms: int) -> str:
    return f"{ms / 1_000:.1f} s"


def _note(group: Group, detail: str, took_ms: int, moment: Moment) -> Note:
    consumer = group.serving_consumer
    return Note(
        group_id=group.group_id,
        kind="moved",
        cause=Cause.COORDINATOR_MOVED.value,
        initiator="",
        detail=detail,
        generation_id=group.classic.generation_id if consumer is None else consumer.epoch,
        members=group.member_count,
        group_state=list_group(group).group_state,
        wall_ms=moment.wall_ms,
        took_ms=took_ms,
    )
