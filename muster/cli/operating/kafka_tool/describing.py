"""`muster-consumer-groups --describe`: the columns of Kafka's tool, for offsets, members and states of a group."""

import sys
from argparse import Namespace
from collections.abc import Iterable
from typing import Final

from diagnosis.assignments import assigned_partitions
from diagnosis.assignments import partitions_of as partitions_of_assignment
from membership.topic_partition import TopicPartition
from muster.admin.asking import Complaint, NotFound, fetch_commits, not_served, partitions_of
from muster.admin.describing import ask_description
from muster.admin.ends import ends_of
from muster.blocking.cluster import LATEST, ClusterClient
from muster.cli.operating.kafka_tool.errors import JAVA, exception
from muster.cli.operating.kafka_tool.table import print_table
from protocol.consumer_protocol import PROTOCOL_TYPE
from protocol.errors import ErrorCode
from protocol.messages.groups import DescribedGroup

PROTOCOL_TYPES: Final = ("", PROTOCOL_TYPE)
"""Types of the groups that Kafka's tool is for; a group without members may have none."""
_MISSING: Final = "-"
_DEAD: Final = "Dead"
_NO_EPOCH: Final = -1
_REBALANCING: Final = ("PreparingRebalance", "CompletingRebalance", "Assigning", "Reconciling")


def describe(cluster: ClusterClient, parsed: Namespace, group_ids: Iterable[str]) -> bool:
    """Print the requested facts about the groups, by name; return false if one does not exist."""
    groups = [describe_consumer_group(cluster, group_id) for group_id in sorted(set(group_ids))]
    for group in groups:
        _say_state(group)
        if parsed.state is not None:
            _describe_state(cluster, group, is_verbose=parsed.verbose)
        elif parsed.members:
            _describe_members(cluster, group, is_verbose=parsed.verbose)
        else:
            _describe_offsets(cluster, group, is_verbose=parsed.verbose)
    return all(group.group_state != _DEAD for group in groups)


def describe_consumer_group(cluster: ClusterClient, group_id: str) -> DescribedGroup:
    """Return the description. Raises NotFound, and Complaint for a group of another protocol type."""
    group = ask_description(cluster, group_id)
    if group.error_code is ErrorCode.GROUP_ID_NOT_FOUND:
        said = group.error_message or f"Group {group_id} not found."
        raise NotFound(f"{JAVA}GroupIdNotFoundException: {said}")
    if unserved := not_served(group_id, group.error_code):
        raise Complaint(unserved)
    if group.error_code:
        raise Complaint(exception(group.error_code))
    if group.protocol_type not in PROTOCOL_TYPES:
        kind = f"GroupId {group_id} is not a consumer group ({group.protocol_type})."
        raise Complaint(f"java.lang.IllegalArgumentException: {kind}")
    return group


def _say_state(group: DescribedGroup) -> None:
    if group.group_state == _DEAD:
        print(f"\nError: Consumer group '{group.group_id}' does not exist.")
    elif group.group_state == "Empty":
        print(f"\nConsumer group '{group.group_id}' has no active members.", file=sys.stderr)
    elif group.group_state in _REBALANCING:
        print(f"\nWarning: Consumer group '{group.group_id}' is rebalancing.", file=sys.stderr)


def _describe_state(cluster: ClusterClient, group: DescribedGroup, *, is_verbose: bool) -> None:
    if group.group_state == _DEAD:
        return
    node = cluster.coordinator(group.group_id)
    row = [group.group_id, f"{node.host}:{node.port}  ({node.node_id})", group.protocol_data or _MISSING]
    row += [group.group_state, *(_epochs(group) if is_verbose else ()), str(len(group.members))]
    columns = ["GROUP", "COORDINATOR (ID)", "ASSIGNMENT-STRATEGY", "STATE"]
    columns += [*(("GROUP-EPOCH", "TARGET-ASSIGNMENT-EPOCH") if is_verbose else ()), "#MEMBERS"]
    print_table(columns, (15, 25, 20, 20, *((15, 25) if is_verbose else ()), 0), [row])


def _epochs(group: DescribedGroup) -> tuple[str, str]:
    """Return the group's epoch and that of its target; a classic group has none."""
    epoch = group.generation_id if group.target_epoch >= 0 else None
    return _number(epoch), _number(None if epoch is None else group.target_epoch)


def _describe_members(cluster: ClusterClient, group: DescribedGroup, *, is_verbose: bool) -> None:
    has_instances = any(member.group_instance_id for member in group.members)
    upgraded = _upgraded(group) if is_verbose else {}
    columns = ["GROUP", "CONSUMER-ID", *(["GROUP-INSTANCE-ID"] if has_instances else []), "HOST", "CLIENT-ID"]
    columns += ["#PARTITIONS"]
    widths = [15, 15, *([17] if has_instances else []), 15, 15, 15 if is_verbose else 16]
    if is_verbose:
        columns += ["CURRENT-EPOCH", "CURRENT-ASSIGNMENT", "TARGET-EPOCH", "TARGET-ASSIGNMENT"]
        widths += [15, 20, 15, 20]
    if upgraded:
        columns += ["UPGRADED"]
        widths += [0]
    rows = []
    for member in group.members:
        keys = assigned_partitions(group, member)
        row = [group.group_id, member.member_id, *([member.group_instance_id or ""] if has_instances else [])]
        row += [member.client_host, member.client_id, str(len(keys))]
        if is_verbose:
            target = _assignment(partitions_of_assignment(group, member.target_assignment))
            epochs = [str(one) if one >= 0 else _MISSING for one in (member.member_epoch, group.target_epoch)]
            row += [epochs[0], _assignment(keys), epochs[1], target]
        if upgraded:
            row += [upgraded.get(member.member_id, _MISSING)]
        rows.append(row)
    print_table(columns, widths, rows)


def _upgraded(group: DescribedGroup) -> dict[str, str]:
    """Return which members use the newer protocol, if others of the group use the older one; else nothing."""
    if group.target_epoch < 0:
        return {}
    words = {"consumer": "true", "classic": "false"}
    found = {one.member_id: words[one.group_protocol] for one in group.members if one.group_protocol in words}
    return found if len(set(found.values())) > 1 else {}


def _assignment(keys: Iterable[tuple[str, int]]) -> str:
    by_topic: dict[str, list[int]] = {}
    for topic, partition in keys:
        by_topic.setdefault(topic, []).append(partition)
    listed = [f"{topic}:{','.join(map(str, sorted(parts)))}" for topic, parts in sorted(by_topic.items())]
    return ";".join(sorted(listed)) or _MISSING


def _describe_offsets(cluster: ClusterClient, group: DescribedGroup, *, is_verbose: bool) -> None:
    commits = fetch_commits(cluster, group.group_id)
    assigned = [(member, assigned_partitions(group, member)) for member in group.members]
    assigned.sort(key=lambda one: len(one[1]), reverse=True)
    owners = {TopicPartition(*key): member for member, keys in assigned for key in sorted(keys)}
    keys = [*owners, *sorted(commits.keys() - owners.keys())]
    if not keys:
        return
    existing = partitions_of(cluster, {one.topic for one in keys})
    ends = {one: end.offset for one, end in ends_of(cluster, [one for one in keys if one in existing], LATEST).items()}
    rows = []
    for key in keys:
        commit, end, member = commits.get(key), ends.get(key), owners.get(key)
        offset = None if commit is None else commit.committed_offset
        lag = None if offset is None or end is None else end - offset
        leader_epoch = _NO_EPOCH if commit is None else commit.committed_leader_epoch
        epoch = [_number(None if leader_epoch == _NO_EPOCH else leader_epoch)] if is_verbose else []
        rows.append(
            [
                group.group_id,
                key.topic,
                str(key.partition),
                *epoch,
                _number(offset),
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


def _number(value: int | None) -> str:
    return _MISSING if value is None else str(value)
