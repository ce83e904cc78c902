"""`muster-consumer-groups --describe`: the columns of Kafka's tool, for offsets, members and states of a group."""

import sys
from argparse import Namespace
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from diagnosis.assignments import assigned_partitions
from diagnosis.assignments import partitions_of as partitions_of_assignment
from membership.topic_partition import TopicPartition
from muster.admin.asking import Complaint, NotFound, describe_group, partitions_of
from muster.admin.ends import ends_of
from muster.blocking.cluster import LATEST, ClusterClient
from protocol.messages.groups import DescribedGroup
from protocol.messages.offsets import OffsetFetch, OffsetFetchGroup, OffsetFetchReply

_MISSING: Final = "-"
JAVA: Final = "org.apache.kafka.common.errors."
"""Package of the exceptions that Kafka's tool names."""


class Committed(NamedTuple):
    """A committed offset."""

    offset: int
    leader_epoch: int


def describe(cluster: ClusterClient, parsed: Namespace, group_id: str) -> None:
    """Print the requested facts about the group."""
    try:
        group = describe_group(cluster, group_id)
    except NotFound:
        raise Complaint(f"{JAVA}GroupIdNotFoundException: Group {group_id} not found.") from None
    if group.group_state == "Empty":
        print(f"\nConsumer group '{group_id}' has no active members.", file=sys.stderr)
    elif group.group_state in ("PreparingRebalance", "CompletingRebalance"):
        print(f"\nWarning: Consumer group '{group_id}' is rebalancing.", file=sys.stderr)
    if parsed.state is not None:
        _describe_state(cluster, group)
    elif parsed.members:
        _describe_members(group, is_verbose=parsed.verbose)
    else:
        _describe_offsets(cluster, group, is_verbose=parsed.verbose)


def _describe_state(cluster: ClusterClient, group: DescribedGroup) -> None:
    node = cluster.coordinator(group.group_id)
    row = (
        group.group_id,
        f"{node.host}:{node.port}  ({node.node_id})",
        group.protocol_data or _MISSING,
        group.group_state,
        str(len(group.members)),
    )
    print_table(("GROUP", "COORDINATOR (ID)", "ASSIGNMENT-STRATEGY", "STATE", "#MEMBERS"), (15, 25, 20, 20, 0), [row])


def _describe_members(group: DescribedGroup, *, is_verbose: bool) -> None:
    has_instances = any(member.group_instance_id for member in group.members)
    instance_column = ["GROUP-INSTANCE-ID"] if has_instances else []
    columns = ["GROUP", "CONSUMER-ID", *instance_column, "HOST", "CLIENT-ID", "#PARTITIONS"]
    widths = [15, 15, *([17] if has_instances else []), 15, 15, 15 if is_verbose else 16]
    if is_verbose:
        columns += ["CURRENT-EPOCH", "CURRENT-ASSIGNMENT", "TARGET-EPOCH", "TARGET-ASSIGNMENT"]
        widths += [15, 20, 15, 20]
    rows = []
    for member in group.members:
        keys = assigned_partitions(group, member)
        row = [group.group_id, member.member_id, *([member.group_instance_id or _MISSING] if has_instances else [])]
        row += [member.client_host, member.client_id, str(len(keys))]
        if is_verbose:
            target = _assignment(partitions_of_assignment(group, member.target_assignment))
            epochs = [str(one) if one >= 0 else _MISSING for one in (member.member_epoch, group.target_epoch)]
            row += [epochs[0], _assignment(keys), epochs[1], target]
        rows.append(row)
    print_table(columns, widths, rows)


def _assignment(keys: Iterable[tuple[str, int]]) -> str:
    by_topic: dict[str, list[str]] = {}
    for topic, partition in keys:
        by_topic.setdefault(topic, []).append(str(partition))
    return ";".join(f"{topic}:{','.join(parts)}" for topic, parts in by_topic.items()) or _MISSING


def _describe_offsets(cluster: ClusterClient, group: DescribedGroup, *, is_verbose: bool) -> None:
    commits = committed(cluster, group.group_id)
    owners = {key: member for member in group.members for key in assigned_partitions(group, member)}
    keys = [*owners, *sorted(commits.keys() - owners.keys())]
    existing = partitions_of(cluster, {topic for topic, _partition in keys})
    wanted = [one for key in keys if (one := TopicPartition(*key)) in existing]
    ends = {(one.topic, one.partition): end.offset for one, end in ends_of(cluster, wanted, LATEST).items()}
    rows = []
    for key in keys:
        commit, end, member = commits.get(key), ends.get(key), owners.get(key)
        lag = None if commit is None or end is None else end - commit.offset
        epoch = [_number(commit.leader_epoch if commit and commit.leader_epoch >= 0 else None)] if is_verbose else []
        rows.append(
            [
                group.group_id,
                key[0],
                str(key[1]),
                *epoch,
                _number(None if commit is None else commit.offset),
                _number(end),
                _number(lag),
                _MISSING if member is None else member.member_id,
                _MISSING if member is None else member.client_host,
                _MISSING if member is None else member.client_id,
            ]
        )
    epoch_column = ["LEADER-EPOCH"] if is_verbose else []
    columns = ["GROUP", "TOPIC", "PARTITION", *epoch_column, "CURRENT-OFFSET", "LOG-END-OFFSET", "LAG"]
    widths = [15, 15, 10, *([15] if is_verbose else []), 15, 15, 15, 15, 15, 0]
    print_table([*columns, "CONSUMER-ID", "HOST", "CLIENT-ID"], widths, rows)


def committed(cluster: ClusterClient, group_id: str) -> dict[tuple[str, int], Committed]:
    """Return the committed offsets of the group, with their leader epochs."""
    wanted = OffsetFetch((OffsetFetchGroup(group_id),))
    reply = cluster.ask_coordinator(OffsetFetchReply, group_id, wanted).groups[0]
    return {
        (topic.name, part.partition_index): Committed(part.committed_offset, part.committed_leader_epoch)
        for topic in reply.topics
        for part in topic.partitions
        if not part.error_code and part.committed_offset >= 0
    }


def _number(value: int | None) -> str:
    return _MISSING if value is None else str(value)


def print_table(columns: Sequence[str], widths: Sequence[int], rows: Sequence[Sequence[str]]) -> None:
    """Print columns of at least these widths, after a blank line; longer identifiers widen their columns."""
    found = [max([width, *(len(row[number]) for row in rows)]) if width else 0 for number, width in enumerate(widths)]
    print()
    for row in (columns, *rows):
        print(" ".join(f"{cell:<{width}}" for cell, width in zip(row, found, strict=True)))
