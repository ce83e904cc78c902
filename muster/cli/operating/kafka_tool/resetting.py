"""`muster-consumer-groups --reset-offsets`: the new offsets of inactive groups, which are shown, exported or set."""

import sys
from argparse import Namespace
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Final

import typer

from diagnosis.offset_plan import NONE, PlannedOffset, changes
from membership.topic_partition import TopicPartition
from muster.admin.asking import Complaint, NotFound, fetch_commits
from muster.admin.ends import ends_of
from muster.blocking.cluster import EARLIEST, LATEST, ClusterClient
from muster.cli.operating.carrying_out import carry_out_at_kafka
from muster.cli.operating.kafka_tool.arguments import refuse
from muster.cli.operating.kafka_tool.describing import describe_consumer_group
from muster.cli.operating.kafka_tool.scope import check_existing, partitions_of_topics
from muster.cli.operating.kafka_tool.table import print_table
from muster.cli.operating.offset_targets import duration_of, groups_of_file, now_ms, time_of

Offsets = Mapping[TopicPartition, int]
InFile = Callable[[], Mapping[str, Mapping[tuple[str, int], int]]]
_SCENARIOS: Final = (
    "[to-offset], [shift-by], [to-datetime], [by-duration], [to-earliest], [to-latest], [to-current], [from-file]"
)
_QUOTED_LENGTH: Final = 24
"""Length above which Kafka's tool quotes a name in a file; it also quotes names with a character up to the comma."""


def reset(cluster: ClusterClient, parsed: Namespace, group_ids: Sequence[str]) -> bool:
    """Show, export or set new offsets; return false if a group was refused. What was set is shown even if an error ends
    it midway, except of a group that was refused in part."""
    planned: dict[str, list[PlannedOffset]] = {}

    @cache
    def in_file() -> dict[str, dict[tuple[str, int], int]]:
        own = parsed.group[0] if len(parsed.group) == 1 else None
        return groups_of_file(Path(parsed.from_file), own, may_name_groups=True)

    try:
        is_done = _reset_each(cluster, parsed, group_ids, planned, in_file)
    except BaseException:  # an option that is refused ends the process
        if parsed.execute and any(planned.values()):
            _show(planned)
        raise
    if parsed.export:
        _export(planned, has_groups=len(parsed.group) != 1)
    else:
        _show(planned)
    return is_done


def _reset_each(
    cluster: ClusterClient,
    parsed: Namespace,
    group_ids: Sequence[str],
    planned: dict[str, list[PlannedOffset]],
    in_file: InFile,
) -> bool:
    is_done = True
    for group_id in dict.fromkeys(group_ids):
        state = _state(cluster, group_id)
        if state in ("Empty", "Dead"):
            plan = _plan(cluster, parsed, group_id, in_file)
            if parsed.execute:
                carry_out_at_kafka(cluster, group_id, changes(plan or ()))
        else:
            plan = None
            print(
                f"\nError: Assignments can only be reset if the group '{group_id}' is inactive, "
                f"but the current state is {state}."
            )
        planned[group_id] = plan or []
        is_done = is_done and plan is not None
    return is_done


def _show(planned: Mapping[str, Sequence[PlannedOffset]]) -> None:
    rows = [(name, one.topic, str(one.partition), str(one.offset)) for name, plan in planned.items() for one in plan]
    width = max([15, *map(len, planned)])
    if planned:
        print_table(("GROUP", "TOPIC", "PARTITION", "NEW-OFFSET"), (width, 15, 10, 0), rows)
    else:
        print()


def _export(planned: Mapping[str, Sequence[PlannedOffset]], *, has_groups: bool) -> None:
    for group_id, plan in planned.items():
        for one in plan:
            names = [group_id, one.topic] if has_groups else [one.topic]
            print(",".join([*map(_in_file, names), str(one.partition), str(one.offset)]))
    print()


def _in_file(name: str) -> str:
    is_quoted = len(name) > _QUOTED_LENGTH or any(one <= "," for one in name)
    return '"' + name.replace('"', '""') + '"' if is_quoted else name


def _state(cluster: ClusterClient, group_id: str) -> str:
    try:
        return describe_consumer_group(cluster, group_id).group_state
    except NotFound:
        return "Dead"  # offsets may be set for a group that does not exist


def _plan(cluster: ClusterClient, parsed: Namespace, group_id: str, in_file: InFile) -> list[PlannedOffset] | None:
    """Return the new offsets of the group; None if the file has none of it."""
    commits = {one: part.committed_offset for one, part in fetch_commits(cluster, group_id).items()}
    if parsed.all_topics:
        scope = sorted(commits)
    elif parsed.topic:
        scope = partitions_of_topics(cluster, parsed.topic)
    elif parsed.from_file:
        scope = []
    else:
        refuse("One of the reset scopes should be defined: --all-topics, --topic.")
    check_existing(cluster, scope)
    wanted = (
        _from_file(cluster, group_id, in_file) if parsed.from_file else _new_offsets(cluster, parsed, scope, commits)
    )
    if wanted is None:
        return None
    return [PlannedOffset(*one, commits.get(one, NONE), offset) for one, offset in sorted(wanted.items())]


def _new_offsets(
    cluster: ClusterClient, parsed: Namespace, scope: Sequence[TopicPartition], commits: Offsets
) -> Offsets:
    if parsed.to_offset is not None:
        return _in_range(cluster, dict.fromkeys(scope, parsed.to_offset))
    if parsed.to_earliest:
        return _ends(cluster, scope, EARLIEST)
    if parsed.to_latest:
        return _ends(cluster, scope, LATEST)
    if parsed.shift_by is not None:
        return _in_range(cluster, _shifted(scope, commits, parsed.shift_by))
    if parsed.to_datetime is not None:
        return _at_time(cluster, scope, _time(parsed.to_datetime))
    if parsed.by_duration is not None:
        return _at_time(cluster, scope, now_ms() - _duration(parsed.by_duration))
    if not parsed.to_current:
        refuse(f"Option '[reset-offsets]' requires one of the following scenarios: [{_SCENARIOS}]")
    uncommitted = _ends(cluster, [one for one in scope if one not in commits], LATEST)
    return {**uncommitted, **{one: commits[one] for one in scope if one in commits}}


def _ends(cluster: ClusterClient, partitions: Sequence[TopicPartition], timestamp: int) -> Offsets:
    return {one: end.offset for one, end in ends_of(cluster, partitions, timestamp).items()}


def _shifted(scope: Iterable[TopicPartition], commits: Offsets, shift: int) -> Offsets:
    for one in scope:
        if one not in commits:
            name = f"{one.topic}-{one.partition}"
            refuse(f"Cannot shift offset for partition {name} since there is no current committed offset")
    return {one: commits[one] + shift for one in scope}


def _in_range(cluster: ClusterClient, wanted: Offsets) -> Offsets:
    """Return the offsets, those outside the log as its start or end, which is printed."""
    begins, ends = (_ends(cluster, [*wanted], timestamp) for timestamp in (EARLIEST, LATEST))
    found = {}
    for one, offset in wanted.items():
        begin, end = begins.get(one, offset), ends.get(one, offset)
        found[one] = end if offset > end else max(begin, offset)
        if found[one] != offset:
            bound = "higher than latest" if offset > end else "lower than earliest"
            print(
                f"WARN New offset ({offset}) is {bound} offset for topic partition {one.topic}-{one.partition}. "
                f"Value will be set to {found[one]}",
                file=sys.stderr,
            )
    return found


def _at_time(cluster: ClusterClient, scope: Sequence[TopicPartition], time_ms: int) -> Offsets:
    """Return the first offsets at or after the time; the end where no record is so late, which is printed."""
    found = dict(_ends(cluster, scope, time_ms))
    late = [one for one, offset in found.items() if offset < 0]
    for one in late:
        name = f"Partition {one.partition} from topic {one.topic}"
        print(f"\nWarn: {name} is empty. Falling back to latest known offset.")
    return found | dict(_ends(cluster, late, LATEST))


def _time(text: str) -> int:
    if "T" not in text:
        why = "Error parsing timestamp. It does not contain a 'T' according to ISO8601 format"
        raise Complaint(f"java.text.ParseException: {why}")
    try:
        return time_of(text)
    except typer.BadParameter:
        raise Complaint(f'java.text.ParseException: Unparseable date: "{text}"') from None


def _duration(text: str) -> int:
    try:
        return duration_of(text)
    except typer.BadParameter:
        raise Complaint("Text cannot be parsed to a Duration") from None


def _from_file(cluster: ClusterClient, group_id: str, in_file: InFile) -> Offsets | None:
    found = in_file().get(group_id)
    if found is None:
        print(f"\nError: No reset plan for group {group_id} found")
        return None
    return _in_range(cluster, {TopicPartition(*key): offset for key, offset in found.items()})
