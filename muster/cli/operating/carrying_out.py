"""Applies a plan of offsets, at a musterd in one step, at a Kafka broker in several; and prints it."""

from typing import Final

import msgspec
import typer

from diagnosis.commands import command
from diagnosis.offset_plan import PlannedOffset, changes
from diagnosis.people import client_of
from muster.admin.asking import NotFound, committed_offsets, describe_group
from muster.blocking.cluster import ClusterClient
from muster.cli.asking import ActRefused, servers
from muster.cli.showing import printable, show_json, show_table
from muster.errors import MusterError
from muster.net.bootstrap import parse_bootstrap
from muster.net.dialects import ClientDialect
from protocol.errors import ErrorCode
from protocol.messages.groups import ApplyOffsets, ApplyOffsetsReply, DescribedGroup, OffsetChange
from protocol.messages.offsets import (
    OffsetCommit,
    OffsetCommitPartition,
    OffsetCommitReply,
    OffsetCommitTopic,
    OffsetDelete,
    OffsetDeleteReply,
    OffsetDeleteTopic,
)
from protocol.words import counted

CHANGES_A_REQUEST: Final = 2_000


def carry_out(
    ctx: typer.Context,
    cluster: ClusterClient,
    bootstrap: str | None,
    group: str,
    planned: list[PlannedOffset],
    act: str,
) -> list[str]:
    """Apply the plan; return the ids by which it can be undone. A failure names those of the steps before it."""
    wanted = changes(planned)
    if parse_bootstrap(servers(ctx, bootstrap).bootstrap).dialect is not ClientDialect.NATIVE:
        carry_out_at_kafka(cluster, group, wanted)
        return []
    ids: list[str] = []
    for start in range(0, len(wanted), CHANGES_A_REQUEST):
        request = ApplyOffsets(group, wanted[start : start + CHANGES_A_REQUEST], act)
        undo = ", ".join(command("undo", one) for one in reversed(ids))
        before = undo and f"; {start} of {counted(len(wanted), 'partition')} were changed before: undo with {undo}"
        try:
            reply = cluster.ask_coordinator(ApplyOffsetsReply, group, request)
        except MusterError as error:
            error.args = (f"{error}{before}",)
            raise
        if reply.number < 0:
            raise ActRefused(_why_not(group, reply, is_first=not ids) + before)
        ids.append(f"{group}:{reply.number}")
    return ids


def _why_not(group: str, reply: ApplyOffsetsReply, *, is_first: bool) -> str:
    if reply.members:
        return f"group {group!r} has members: stop them first: {', '.join(reply.members)}"
    if reply.conflicts:
        first = reply.conflicts[0]
        now = "none" if first.previous_offset < 0 else first.previous_offset
        where = f"{first.topic}-{first.partition_index} is at {now} by now"
        stale = "the plan is stale, nothing was changed" if is_first else "the rest of the plan is stale"
        return f"{stale}: {where}; {counted(len(reply.conflicts), 'partition')} in all"
    return reply.error_message


def carry_out_at_kafka(cluster: ClusterClient, group: str, wanted: tuple[OffsetChange, ...]) -> None:
    """Compare, then set: a broker cannot do both atomically, but refuses commits while the group has members."""
    described = _described_or_none(cluster, group)
    if described is not None and described.members:
        raise ActRefused(
            f"group {group!r} has members: stop them first: {', '.join(map(client_of, described.members))}"
        )
    now = {(one.topic, one.partition): offset for one, offset in committed_offsets(cluster, group).items()}
    stale = [one for one in wanted if now.get((one.topic, one.partition_index), -1) != one.previous_offset]
    if stale:
        raise ActRefused(
            f"the plan is stale, nothing was changed: {stale[0].topic}-{stale[0].partition_index} has moved"
        )
    by_topic: dict[str, list[OffsetChange]] = {}
    for one in wanted:
        by_topic.setdefault(one.topic, []).append(one)
    sets, gone = [], []
    for topic, ones in by_topic.items():
        new = [OffsetCommitPartition(one.partition_index, one.offset) for one in ones if one.offset >= 0]
        old = [one.partition_index for one in ones if one.offset < 0]
        if new:
            sets.append(OffsetCommitTopic(topic, tuple(new)))
        if old:
            gone.append(OffsetDeleteTopic(topic, tuple(old)))
    if sets:
        committed = cluster.ask_coordinator(OffsetCommitReply, group, OffsetCommit(group, tuple(sets)))
        _check_all([(one.name, p.partition_index, p.error_code) for one in committed.topics for p in one.partitions])
    if gone:
        deleted = cluster.ask_coordinator(OffsetDeleteReply, group, OffsetDelete(group, tuple(gone)))
        _check_all([(one.name, p.partition_index, p.error_code) for one in deleted.topics for p in one.partitions])


def _check_all(results: list[tuple[str, int, ErrorCode]]) -> None:
    refused = [f"{topic}-{partition}: {code.name}" for topic, partition, code in results if code]
    if refused:
        raise ActRefused(
            f"refused for {len(refused)} of {counted(len(results), 'partition')}: {', '.join(refused[:5])}"
        )


def _described_or_none(cluster: ClusterClient, group: str) -> DescribedGroup | None:
    try:
        return describe_group(cluster, group)
    except NotFound:
        return None  # offsets may also be set for a group that does not exist


def show_plan(
    group: str,
    planned: list[PlannedOffset],
    done: list[str] | None,
    *,
    execute: bool,
    as_json: bool,
    left_out: int = 0,
) -> None:
    """Show old and new offsets, how many partitions are left out, and the ids with which applied changes can be
    undone."""
    if as_json:
        plan = msgspec.to_builtins(planned)
        show_json({"group_id": group, "is_done": execute, "undo_ids": done or [], "left_out": left_out, "plan": plan})
        return
    if not planned:
        print("There is nothing to change.")
        return
    show_table(
        ("TOPIC", "PARTITION", "OLD", "NEW", "LAG BEFORE", "LAG AFTER"),
        [
            (one.topic, one.partition, _offset(one.previous_offset), _offset(one.offset), one.lag_before, one.lag_after)
            for one in planned
        ],
    )
    if left_out:
        print(f"\nLeft out: {counted(left_out, 'partition')} no longer there, or shorter than the old offset.")
    if not execute:
        print("\nNothing was changed: add --execute to do it.")
    for one in done or ():
        print(f"\nDone. To undo it: {printable(command('undo', one))}")
    if execute and not done:
        print("\nDone.")


def _offset(offset: int) -> int | None:
    return None if offset < 0 else offset
