"""`muster groups reset`, `delete-offsets`, `evict` and `muster undo`: changes that can be undone."""

import json
from pathlib import Path
from typing import Annotated

import msgspec
import typer

from diagnosis.offset_plan import (
    PlannedOffset,
    Target,
    act_of,
    existing_partitions,
    one_note,
    parse_act_id,
    possible_changes,
    reversed_changes,
)
from diagnosis.people import client_of
from membership.topic_partition import TopicPartition
from muster.admin.asking import Complaint, NotFound, committed_offsets, describe_group
from muster.admin.ends import ends_of
from muster.blocking.cluster import LATEST, ClusterClient, expect
from muster.cli.asking import ActRefused, AsJson, Bootstrap, reaching
from muster.cli.operating.carrying_out import carry_out, show_plan
from muster.cli.operating.naming import named_members
from muster.cli.operating.offset_targets import (
    at_time,
    check_all_planned,
    duration_of,
    now_ms,
    offsets_of_file,
    plan_of_file,
    plan_offsets,
    time_of,
)
from muster.cli.showing import printable, show_json
from muster.errors import Refused
from protocol.messages.groups import (
    LeaveGroup,
    LeaveGroupReply,
    LeavingMember,
    ListNotesReply,
    OffsetChange,
)
from protocol.messages.topics import Metadata, MetadataReply, MetadataTopic

Execute = Annotated[bool, typer.Option("--execute", help="Apply the plan; default: only show it.")]
Topics = Annotated[
    list[str] | None, typer.Option("--topic", metavar="TOPIC[:P,...]", help="May be repeated: orders, or orders:0,3.")
]
AllTopics = Annotated[bool, typer.Option("--all-topics", help="All partitions that the group has committed for.")]


def reset(
    ctx: typer.Context,
    group: Annotated[str, typer.Argument(metavar="GROUP")],
    to_earliest: Annotated[bool, typer.Option("--to-earliest", help="To the log's start.")] = False,
    to_latest: Annotated[bool, typer.Option("--to-latest", help="To the log's end.")] = False,
    to_current: Annotated[
        bool, typer.Option("--to-current", help="To the committed offset; to the end if none.")
    ] = False,
    to_offset: Annotated[int | None, typer.Option("--to-offset", min=0)] = None,
    shift_by: Annotated[int | None, typer.Option("--shift-by", help="Forward, or back if negative.")] = None,
    to_datetime: Annotated[
        str | None, typer.Option("--to-datetime", metavar="TIME", help="UTC unless it has a time zone.")
    ] = None,
    by_duration: Annotated[
        str | None, typer.Option("--by-duration", metavar="P1DT2H", help="To the time this long ago.")
    ] = None,
    from_file: Annotated[
        Path | None, typer.Option("--from-file", metavar="FILE", help="Lines of TOPIC,PARTITION,OFFSET.")
    ] = None,
    of_group: Annotated[
        str | None, typer.Option("--of-group", metavar="GROUP", help="To the offsets of that group.")
    ] = None,
    plan: Annotated[
        Path | None, typer.Option("--plan", metavar="FILE", help="Apply a plan printed by --json. Refused if stale.")
    ] = None,
    topics: Topics = None,
    all_topics: AllTopics = False,
    execute: Execute = False,
    bootstrap: Bootstrap = None,
    as_json: AsJson = False,
    as_csv: Annotated[bool, typer.Option("--export", help="The plan in the form of --from-file.")] = False,
) -> None:
    """Set the committed offsets of a group without members. Shows the plan: old, new and lag of each partition.

    --execute applies it, to all partitions or none, if the old offsets are still as planned. The id that it
    prints undoes it: muster undo ID. Exit code 4 if the group has members, or the plan is stale.
    """
    chosen = [to_earliest, to_latest, to_current, to_offset is not None, shift_by is not None, to_datetime, by_duration]
    if sum(map(bool, [*chosen, from_file, of_group, plan])) != 1:
        raise typer.BadParameter("say one of --to-..., --shift-by, --by-duration, --from-file, --of-group, --plan")
    with reaching(ctx, bootstrap) as cluster:
        if plan is not None:
            planned = _read_plan(plan, group)
        else:
            names = topics or sorted({one.topic for one in committed_offsets(cluster, group)})
            target = Target(to_earliest, to_latest, to_current, to_offset, shift_by)
            if to_datetime or by_duration:
                time_ms = time_of(to_datetime) if to_datetime else now_ms() - duration_of(by_duration or "")
                target = Target(at_time=at_time(cluster, time_ms, names))
            elif from_file is not None:
                target = Target(offsets=offsets_of_file(from_file))
            elif of_group is not None:
                target = Target(offsets=_offsets_of_group(cluster, of_group))
            planned = plan_offsets(cluster, group, target, topics or (), all_topics=all_topics)
            if from_file is not None:
                check_all_planned(planned, target.offsets or (), topics or ())
            if not planned:
                describe_group(cluster, group)  # refuses a group that does not exist
        if as_csv:
            print(plan_of_file(planned), end="")
            return
        done = carry_out(ctx, cluster, bootstrap, group, planned, "reset") if execute else None
    show_plan(group, planned, done, execute=execute, as_json=as_json)


def _offsets_of_group(cluster: ClusterClient, group: str) -> dict[tuple[str, int], int]:
    """Return the committed offsets of a group that another is to follow. Raises NotFound if there is no such group."""
    found = {(one.topic, one.partition): offset for one, offset in committed_offsets(cluster, group).items()}
    if not found:
        describe_group(cluster, group)
    return found


def delete_offsets(
    ctx: typer.Context,
    group: Annotated[str, typer.Argument(metavar="GROUP")],
    topics: Topics = None,
    all_topics: AllTopics = False,
    execute: Execute = False,
    bootstrap: Bootstrap = None,
    as_json: AsJson = False,
) -> None:
    """Delete committed offsets of a group without members; `muster undo ID` restores them."""
    with reaching(ctx, bootstrap) as cluster:
        planned = plan_offsets(cluster, group, Target(delete=True), topics or (), all_topics=all_topics)
        if not planned:
            describe_group(cluster, group)  # refuses a group that does not exist
        done = carry_out(ctx, cluster, bootstrap, group, planned, "delete offsets") if execute else None
    show_plan(group, planned, done, execute=execute, as_json=as_json)


def undo(
    ctx: typer.Context,
    act: Annotated[str, typer.Argument(metavar="ID", help="GROUP:NUMBER, as reset and audit print it.")],
    execute: Annotated[bool, typer.Option("--execute/--plan-only", help="Apply the plan, or only show it.")] = True,
    bootstrap: Bootstrap = None,
    as_json: AsJson = False,
) -> None:
    """Undo a change of offsets that have not changed since.

    Partitions that no longer exist, or end below their old offset, are left out.
    """
    found = parse_act_id(act)
    if found is None:
        raise typer.BadParameter(f"{act[:80]!r} is no id: it is GROUP:NUMBER", param_hint="ID")
    group, number = found
    with reaching(ctx, bootstrap) as cluster:
        wanted = reversed_changes(_changes_of(cluster, group, number))
        counts = _existing(cluster, {one.topic for one in wanted})
        places = [(one.topic, one.partition_index) for one in wanted]
        there = [TopicPartition(*place) for place in places if place[1] < counts.get(place[0], 0)]
        known = ends_of(cluster, there, LATEST).items()
        ends = {(one.topic, one.partition): end.offset for one, end in known if end.age_ms is None}
        possible = possible_changes(wanted, counts, ends)
        if not possible:
            raise NotFound(f"every partition of {act[:80]!r} is gone, or ends below its old offset")
        planned = [PlannedOffset(c.topic, c.partition_index, c.previous_offset, c.offset) for c in possible]
        done = carry_out(ctx, cluster, bootstrap, group, planned, "undo") if execute else None
    left_out = len(wanted) - len(possible)
    show_plan(group, planned, done, execute=execute, as_json=as_json, left_out=left_out)


def _existing(cluster: ClusterClient, topics: set[str]) -> dict[str, int]:
    """Return the numbers of partitions of those that exist. Raises Refused if that is not known of one."""
    found = expect(MetadataReply, cluster.ask(Metadata(tuple(MetadataTopic(name) for name in sorted(topics))))).topics
    return existing_partitions(found, lambda one: Refused(one.error_code, f"topic {one.name!r}: {one.error_code.name}"))


def _changes_of(cluster: ClusterClient, group: str, number: int) -> tuple[OffsetChange, ...]:
    notes = cluster.ask_coordinator(ListNotesReply, group, one_note(group, number)).notes
    if (act := act_of(notes, number)) is None:
        raise NotFound(f"group {group!r} has no act {number} that changed offsets: see `muster audit`")
    return act.changes


def evict(
    ctx: typer.Context,
    group: Annotated[str, typer.Argument(metavar="GROUP")],
    member: Annotated[list[str] | None, typer.Option("--member", metavar="ID")] = None,
    client: Annotated[list[str] | None, typer.Option("--client", metavar="CLIENT_ID", help="All its members.")] = None,
    instance: Annotated[list[str] | None, typer.Option("--instance", metavar="ID")] = None,
    reason: Annotated[str, typer.Option(help="For the group's journal.")] = "evicted by an operator",
    bootstrap: Bootstrap = None,
    as_json: AsJson = False,
) -> None:
    """Remove members from a group at once, as if they had left. One that is alive joins again."""
    if not (member or client or instance):
        raise typer.BadParameter("say which members: --member ID, --client CLIENT_ID or --instance ID")
    with reaching(ctx, bootstrap) as cluster:
        leaving = named_members(describe_group(cluster, group), member, client, instance)
        entries = tuple(LeavingMember(one.member_id, one.group_instance_id, reason) for one in leaving)
        left = cluster.ask_coordinator(LeaveGroupReply, group, LeaveGroup(group, entries)).members
    refused = [one for one in left if one.error_code]
    if as_json:
        show_json(
            [{"member_id": one.member_id, "error": one.error_code.name if one.error_code else None} for one in left]
        )
    else:
        gone = {one.member_id for one in left if not one.error_code}
        for one in leaving:
            if one.member_id in gone:
                print(printable(f"Evicted {client_of(one)}, {one.member_id}."))
    if refused:
        raise ActRefused("; ".join(f"{one.member_id} was not evicted: {one.error_code.name}" for one in refused))


def _read_plan(path: Path, group: str) -> list[PlannedOffset]:
    try:
        document = json.loads(path.read_text())
        planned = msgspec.convert(document["plan"], list[PlannedOffset])
    except (OSError, ValueError, KeyError, TypeError, msgspec.ValidationError) as error:
        raise Complaint(f"{path} is no plan of `muster groups reset --json`: {error}") from None
    if document.get("group_id") != group:
        raise Complaint(f"{path} is a plan for group {document.get('group_id')!r}, not for {group!r}")
    return planned
