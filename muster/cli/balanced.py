"""Client-balanced groups in `muster groups`."""

from collections.abc import Iterable
from typing import Annotated, Any

import msgspec
import typer

from muster.admin.asking import Complaint, NotFound, not_served
from muster.blocking.cluster import ClusterClient
from muster.cli.asking import ActRefused, AsJson, Bootstrap, reaching
from muster.cli.showing import printable, show_facts, show_json, show_table
from muster.errors import Refused
from protocol.errors import ErrorCode
from protocol.messages.balanced import (
    CLIENT_MODE,
    SERVER_MODE,
    BalancedGroupView,
    BalancedMemberView,
    BalancedPartition,
    ConsumeFromMax,
    ConsumeFromMaxReply,
    DescribeBalanced,
    DescribeBalancedReply,
)
from protocol.words import counted

_CHOOSER = {CLIENT_MODE: "its members choose what they read", SERVER_MODE: "the coordinator assigns what they read"}


def describe_balanced(cluster: ClusterClient, group_id: str) -> BalancedGroupView:
    """Return the group, with its members' numbers and every configured partition. Raises Complaint, or Refused."""
    (view,) = cluster.ask_coordinator(DescribeBalancedReply, group_id, DescribeBalanced((group_id,))).groups
    if view.error_code:
        sentence = not_served(group_id, view.error_code)
        if sentence is None:
            raise Refused(view.error_code, f"group {group_id!r}: {view.error_code.name}")
        raise Complaint(sentence)
    return view


def missing_nodes(view: BalancedGroupView) -> list[int]:
    """Return the expected numbers that no member has."""
    there = {member.node_id for member in view.members}
    return [number for number in range(view.source_count or 0) if number not in there]


def balanced_document(view: BalancedGroupView) -> dict[str, Any]:
    """Return the page as JSON, for scripts."""
    told: dict[str, Any] = msgspec.to_builtins(view)
    del told["error_code"]
    return {**told, "mode": f"{view.mode}-balanced", "missing_nodes": missing_nodes(view), "total_lag": _lag(view)}


def _lag(view: BalancedGroupView, *, unowned: bool = False) -> int:
    return sum(one.lag or 0 for one in view.partitions if one.owner is None or not unowned)


def _unknown(partitions: Iterable[BalancedPartition]) -> str:
    """Return a text with the number of partitions that a sum omits, since their ends are unknown."""
    count = sum(one.lag is None for one in partitions)
    return f" (not counted: {count} without an end)" if count else ""


def _number(member: BalancedMemberView) -> tuple[int, str]:
    return -1 if member.node_id is None else member.node_id, member.consumer_id


def show_balanced(view: BalancedGroupView) -> None:
    """Print the page for people, with the unread partitions."""
    source_count = "off" if view.source_count is None else counted(view.source_count, "node")
    filters = "; ".join(f"{topic}: {', '.join(ones)}" for topic, ones in view.filters.items())
    facts: list[tuple[str, object]] = [
        ("Group", view.group_id),
        ("State", view.state),
        ("Mode", f"{view.mode}-balanced, {_CHOOSER.get(view.mode, '')}"),
        ("Source count", source_count),
        ("Topics", ", ".join(view.topics)),
        ("Total lag", f"{_lag(view)}{_unknown(view.partitions)}"),
    ]
    show_facts(facts + ([("Filters", filters)] if filters else []))
    print()
    show_table(
        ("NODE", "MEMBER", "INSTANCE", "HOST", "HEARD OF", "PARTITIONS"),
        (
            (
                member.node_id,
                member.consumer_id,
                member.instance_id,
                member.host.lstrip("/"),
                f"{member.last_heartbeat_ms_ago // 1_000} s ago",
                len(member.keys),
            )
            for member in sorted(view.members, key=_number)
        ),
    )
    print()
    show_table(
        ("PARTITION", "NODE", "MEMBER", "EPOCH", "COMMITTED", "END", "LAG"),
        (
            (
                one.key if one.subscribable else f"{one.key} ({one.reason})",
                one.node_id,
                one.owner,
                _known(one.reg_epoch),
                _known(one.committed),
                _known(one.end),
                one.lag,
            )
            for one in view.partitions
        ),
    )
    for sentence in warnings(view):
        print(f"\nWARNING: {printable(sentence)}")


def warnings(view: BalancedGroupView) -> list[str]:
    """Return warnings. A group with a source count does not fail over: while a member is missing, its share is not
    read.
    """
    found = []
    unowned = [one for one in view.partitions if one.owner is None]
    behind = f"{counted(_lag(view, unowned=True), 'record')}{_unknown(unowned)}"
    waiting = f"{len(unowned)} of {counted(len(view.partitions), 'partition')} are nobody's, {behind}"
    missing = missing_nodes(view)
    if missing:
        names = ", ".join(map(str, missing))
        which = f"node {names} of {view.source_count} is" if len(missing) == 1 else f"nodes {names} are"
        found.append(f"{which} missing, and nobody reads that share: {waiting}")
    elif unowned:
        found.append(waiting)
    found += [
        f"{member.consumer_id} says that it reads {', '.join(member.claimed_mismatch)}, which it does not own"
        for member in view.members
        if member.claimed_mismatch
    ]
    return found


def _known(number: int) -> int | None:
    return None if number < 0 else number


def consume_from_max(
    ctx: typer.Context,
    groups: Annotated[list[str], typer.Argument(metavar="GROUP...")],
    bootstrap: Bootstrap = None,
    as_json: AsJson = False,
) -> None:
    """Make client-balanced groups that are online skip to the end of their partitions, once, without reading.

    The reply to its next heartbeat tells each member.
    """
    accepted: dict[str, int] = {}
    refused: dict[str, str] = {}
    codes: set[ErrorCode] = set()
    with reaching(ctx, bootstrap) as cluster:
        for group_id in dict.fromkeys(groups):
            reply = cluster.ask_coordinator(ConsumeFromMaxReply, group_id, ConsumeFromMax((group_id,), "muster"))
            accepted |= {one.group_id: one.from_max_id for one in reply.accepted}
            codes |= {one.error_code for one in reply.refused}
            refused |= {one.group_id: _why_not(group_id, one.error_code, one.error_message) for one in reply.refused}
    if as_json:
        show_json([{"group_id": one, "from_max_id": accepted.get(one), "error": refused.get(one)} for one in groups])
    else:
        for group_id in accepted:
            print(f"Members of {printable(group_id)} go to the end with their next heartbeats.")
    if refused:
        raise _kind_of(codes)("; ".join(refused.values()))


def _kind_of(codes: set[ErrorCode]) -> type[Complaint]:
    if codes & {ErrorCode.INCONSISTENT_MODE, ErrorCode.NO_NODE}:
        return ActRefused
    return NotFound if codes == {ErrorCode.GROUP_ID_NOT_FOUND} else Complaint


def _why_not(group_id: str, code: ErrorCode, text: str) -> str:
    if code is ErrorCode.GROUP_ID_NOT_FOUND:
        return f"there is no group {group_id!r}: see `muster groups list`"
    if code is ErrorCode.INCONSISTENT_MODE:
        return f"group {group_id!r} is not client-balanced: its members are not told where to read"
    if code is ErrorCode.NO_NODE:
        return f"no member of group {group_id!r} is online"
    return not_served(group_id, code) or text or f"group {group_id!r}: {code.name}"
