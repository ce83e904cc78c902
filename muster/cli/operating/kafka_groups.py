"""`muster-consumer-groups`: Kafka's `kafka-consumer-groups`, with its arguments and columns.

A failure ends with exit code 1; Kafka's tool prints it and ends with 0."""

import re
import sys
from argparse import Namespace
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Final

import typer

from diagnosis.offset_plan import PlannedOffset, Target, changes
from membership.topic_partition import TopicPartition
from muster.admin.asking import Complaint, NotFound, delete_groups, describe_group, partitions_of
from muster.admin.ends import ends_of
from muster.admin.nodes import list_groups
from muster.blocking.cluster import EARLIEST, LATEST, ClusterClient
from muster.cli.config import read_servers
from muster.cli.operating.carrying_out import carry_out_at_kafka
from muster.cli.operating.kafka_arguments import parse
from muster.cli.operating.kafka_describing import JAVA, committed, describe, print_table
from muster.cli.operating.offset_targets import at_time, duration_of, groups_of_file, now_ms, plan_offsets, time_of
from muster.cli.showing import INTERRUPTED, forget_stdout, say_left_out
from muster.errors import MusterError
from protocol.errors import ErrorCode
from protocol.messages.offsets import OffsetDelete, OffsetDeleteReply, OffsetDeleteTopic

_OF_JAVA: Final = {
    ErrorCode.NON_EMPTY_GROUP: "GroupNotEmptyException: The group is not empty.",
    ErrorCode.GROUP_ID_NOT_FOUND: "GroupIdNotFoundException: The group id does not exist.",
    ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC: "GroupSubscribedToTopicException: Deleting offsets of a topic is forbidden "
    "while the consumer group is actively subscribed to it.",
}
_WARNING: Final = "WARN: No action will be performed as the --execute option is missing."


def main(arguments: list[str] | None = None) -> None:
    """Run the command; the process ends with 0, or with 1 if something was refused."""
    try:
        ended = _carry_out(parse(arguments))
        sys.stdout.flush()
    except BrokenPipeError:
        forget_stdout()
        ended = 0
    except KeyboardInterrupt:
        ended = INTERRUPTED
    sys.exit(ended)


def _carry_out(parsed: Namespace) -> int:
    """Return 0, or 1 if something was refused."""
    if parsed.validate_regex is not None:
        return _validate(parsed.validate_regex)
    try:
        servers = read_servers(f"kafka://{parsed.bootstrap_server}", parsed.command_config)
        cluster = ClusterClient(servers.bootstrap, client_id="muster-consumer-groups", security=servers.security)
        with closing(cluster):
            return 0 if _run(cluster, parsed) else 1
    except (MusterError, Complaint, typer.BadParameter, ValueError) as error:
        print(f"\nError: Executing consumer group command failed due to {error}")
        return 1


def _validate(regex: str) -> int:
    """Check the syntax; Kafka's is RE2's, most of which Python knows."""
    try:
        re.compile(regex)
    except re.error as error:
        print(f"The regular expression `{regex}` is not valid: {error}")
        return 1
    print(f"The regular expression `{regex}` is valid.")
    return 0


def _run(cluster: ClusterClient, parsed: Namespace) -> bool:
    """Run the action; return true if nothing was refused."""
    if parsed.list:
        _list(cluster, parsed)
        return True
    group_ids = parsed.group or [group.group_id for group in list_groups(cluster, say_left_out)]
    if parsed.describe:
        for group_id in group_ids:
            describe(cluster, parsed, group_id)
        return True
    if parsed.delete:
        return _delete(cluster, group_ids)
    if parsed.delete_offsets:
        return _delete_offsets(cluster, group_ids[0], parsed.topic)
    return _reset(cluster, parsed, group_ids)


def _list(cluster: ClusterClient, parsed: Namespace) -> None:
    found = list_groups(cluster, say_left_out)
    columns = []
    for name, field, value in (("TYPE", "group_type", parsed.type), ("STATE", "group_state", parsed.state)):
        if value is not None:
            wanted = {one.strip().lower() for one in value.split(",") if one.strip()}
            found = [one for one in found if not wanted or getattr(one, field).lower() in wanted]
            columns.append((name, field))
    if not columns:
        print("".join(f"{one.group_id}\n" for one in found), end="")
        return
    width = max([25, *(len(one.group_id) for one in found)])
    print(f"{'GROUP':<{width}} " + " ".join(f"{name:<20}" for name, _field in columns))
    for one in found:
        values = (getattr(one, field) for _name, field in columns)
        print(f"{one.group_id:<{width}} " + " ".join(f"{value[:1].upper() + value[1:]:<20}" for value in values))


def _delete(cluster: ClusterClient, group_ids: Sequence[str]) -> bool:
    results = delete_groups(cluster, dict.fromkeys(group_ids))
    refused = [one for one in results if one.error_code]
    done = [one for one in results if not one.error_code]
    names = ", ".join(f"'{one.group_id}'" for one in done)
    if refused:
        print("\nError: Deletion of some consumer groups failed:")
        for one in refused:
            print(f"* Group '{one.group_id}' could not be deleted due to: {_java(one.error_code)}")
        if done:
            print(f"\nThese consumer groups were deleted successfully: {names}")
    else:
        print(f"Deletion of requested consumer groups ({names}) was successful.")
    return not refused


def _java(code: ErrorCode) -> str:
    known = _OF_JAVA.get(code)
    return code.name if known is None else JAVA + known


def _delete_offsets(cluster: ClusterClient, group_id: str, topics: Sequence[str]) -> bool:
    wanted: dict[str, list[int]] = {}
    for one in _named_partitions(cluster, topics):
        wanted.setdefault(one.topic, []).append(one.partition)
    message = OffsetDelete(group_id, tuple(OffsetDeleteTopic(name, tuple(parts)) for name, parts in wanted.items()))
    reply = cluster.ask_coordinator(OffsetDeleteReply, group_id, message)
    results = [(one.name, part.partition_index, part.error_code) for one in reply.topics for part in one.partitions]
    is_done = not any(code for _topic, _partition, code in results)
    if is_done:
        print(f"Request succeeded for deleting offsets from group {group_id}.")
    else:
        print("\nError: Encountered some partition-level error, see the follow-up details.")
    said = [f"Error: {_java(code)}" if code else "Successful" for _topic, _partition, code in results]
    rows = [(topic, str(part), f"{one:<15}") for (topic, part, _code), one in zip(results, said, strict=True)]
    print_table(("TOPIC", "PARTITION", f"{'STATUS':<15}"), (15, 10, 0), rows)
    return is_done


def _named_partitions(cluster: ClusterClient, topics: Sequence[str]) -> Iterator[TopicPartition]:
    for text in topics:
        topic, colon, numbers = text.partition(":")
        if colon:
            yield from (TopicPartition(topic, int(number)) for number in numbers.split(","))
        else:
            yield from sorted(partitions_of(cluster, {topic}))


def _reset(cluster: ClusterClient, parsed: Namespace, group_ids: Sequence[str]) -> bool:
    if not (parsed.execute or parsed.dry_run):
        print(_WARNING, file=sys.stderr)
    planned: dict[str, list[PlannedOffset]] = {}
    is_done = True
    for group_id in group_ids:
        state = _state(cluster, group_id)
        if state not in ("Empty", "Dead"):
            print(
                f"\nError: Assignments can only be reset if the group '{group_id}' is inactive, "
                f"but the current state is {state}."
            )
            is_done = False
            continue
        planned[group_id] = _plan(cluster, parsed, group_id, is_only=len(group_ids) == 1)
        if parsed.execute:
            carry_out_at_kafka(cluster, group_id, changes(planned[group_id]))
    if parsed.export:
        _export(planned, is_only=len(group_ids) == 1)
        return is_done
    rows = [(name, one.topic, str(one.partition), str(one.offset)) for name, plan in planned.items() for one in plan]
    print_table(("GROUP", "TOPIC", "PARTITION", "NEW-OFFSET"), (15, 15, 10, 0), rows)
    return is_done


def _state(cluster: ClusterClient, group_id: str) -> str:
    try:
        return describe_group(cluster, group_id).group_state
    except NotFound:
        return "Dead"  # offsets may be set for a group that does not exist


def _plan(cluster: ClusterClient, parsed: Namespace, group_id: str, *, is_only: bool) -> list[PlannedOffset]:
    topics: list[str] = parsed.topic
    names = topics or sorted({topic for topic, _partition in committed(cluster, group_id)})
    target = Target(parsed.to_earliest, parsed.to_latest, parsed.to_current, parsed.to_offset, parsed.shift_by)
    if parsed.to_datetime or parsed.by_duration:
        time_ms = time_of(parsed.to_datetime) if parsed.to_datetime else now_ms() - duration_of(parsed.by_duration)
        found = at_time(cluster, time_ms, names)
        _warn_of_empty(cluster, found)
        target = Target(at_time=found)
    elif parsed.from_file:
        target = Target(offsets=groups_of_file(Path(parsed.from_file), group_id if is_only else None).get(group_id, {}))
    elif target == Target():
        target = Target(to_current=True)
    return plan_offsets(cluster, group_id, target, topics, all_topics=True)


def _warn_of_empty(cluster: ClusterClient, found: dict[tuple[str, int], int]) -> None:
    """Print the partitions for which no record is so late, since they are empty."""
    late = [TopicPartition(*key) for key, offset in sorted(found.items()) if offset < 0]
    begins, ends = ends_of(cluster, late, EARLIEST), ends_of(cluster, late, LATEST)
    for one in late:
        if one in begins and one in ends and begins[one].offset == ends[one].offset:
            name = f"Partition {one.partition} from topic {one.topic}"
            print(f"\nWarn: {name} is empty. Falling back to latest known offset.")


def _export(planned: dict[str, list[PlannedOffset]], *, is_only: bool) -> None:
    for group_id, plan in planned.items():
        for one in plan:
            print(("" if is_only else f"{group_id},") + f"{one.topic},{one.partition},{one.offset}")
    print()
