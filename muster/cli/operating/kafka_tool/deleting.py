"""`muster-consumer-groups --delete` and `--delete-offsets`."""

from collections.abc import Mapping, Sequence
from typing import Final

from membership.topic_partition import TopicPartition
from muster.admin.asking import delete_groups
from muster.blocking.cluster import ClusterClient
from muster.cli.operating.kafka_tool.errors import exception, sentence
from muster.cli.operating.kafka_tool.scope import named_partitions
from muster.cli.operating.kafka_tool.table import print_table
from muster.errors import MusterError, Refused
from protocol.errors import ErrorCode
from protocol.messages.groups import DeletedGroup
from protocol.messages.offsets import OffsetDelete, OffsetDeleteReply, OffsetDeleteTopic

_OF_THE_GROUP: Final = (
    ErrorCode.INVALID_GROUP_ID,
    ErrorCode.GROUP_ID_NOT_FOUND,
    ErrorCode.GROUP_AUTHORIZATION_FAILED,
    ErrorCode.NON_EMPTY_GROUP,
)
_OF_A_PARTITION: Final = (
    ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC,
    ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
)


def delete(cluster: ClusterClient, group_ids: Sequence[str]) -> bool:
    """Delete groups, and print the outcome, also if an error ends it midway; return false if one was refused."""
    results: list[DeletedGroup] = []
    try:
        results.extend(delete_groups(cluster, dict.fromkeys(group_ids)))
    except MusterError:
        if results:
            _print_deleted(results)
        raise
    return _print_deleted(results)


def _print_deleted(results: Sequence[DeletedGroup]) -> bool:
    refused = [one for one in results if one.error_code]
    done = [one for one in results if not one.error_code]
    names = ", ".join(f"'{one.group_id}'" for one in done)
    if refused:
        print("\nError: Deletion of some consumer groups failed:")
        for one in refused:
            print(f"* Group '{one.group_id}' could not be deleted due to: {exception(one.error_code)}")
        if done:
            print(f"\nThese consumer groups were deleted successfully: {names}")
    else:
        print(f"Deletion of requested consumer groups ({names}) was successful.")
    return not refused


def delete_offsets(cluster: ClusterClient, group_id: str, topics: Sequence[str]) -> bool:
    """Delete a group's offsets, and print the outcome of each partition; return false if one was refused."""
    wanted, missing = named_partitions(cluster, topics)
    deleted = _ask(cluster, group_id, wanted)
    outcomes = {TopicPartition(topic, -1): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION for topic in missing} | deleted
    _say_outcome(group_id, deleted)
    rows = [
        (
            one.topic,
            "-" if one.partition < 0 else str(one.partition),
            f"{f'Error: {exception(outcome)}' if outcome else 'Successful':<15}",
        )
        for one, outcome in sorted(outcomes.items(), key=lambda item: f"{item[0].topic}{item[0].partition}")
    ]
    print_table(("TOPIC", "PARTITION", f"{'STATUS':<15}"), (15, 10, 0), rows)
    return not any(outcomes.values())


def _say_outcome(group_id: str, deleted: Mapping[TopicPartition, ErrorCode]) -> None:
    code = next((one for one in deleted.values() if one), ErrorCode.NONE)
    if not code:
        print(f"Request succeeded for deleting offsets from group {group_id}.")
    elif code in _OF_THE_GROUP:
        print(f"\nError: {sentence(code)}")
    elif code in _OF_A_PARTITION:
        print("\nError: Encountered some partition-level error, see the follow-up details.")
    else:
        print(f"\nError: Encountered some unknown error: {code.name}")


def _ask(cluster: ClusterClient, group_id: str, wanted: Sequence[TopicPartition]) -> dict[TopicPartition, ErrorCode]:
    """Delete the offsets; an error of the group is one of each partition."""
    if not wanted:
        return {}
    parts: dict[str, list[int]] = {}
    for one in wanted:
        parts.setdefault(one.topic, []).append(one.partition)
    message = OffsetDelete(group_id, tuple(OffsetDeleteTopic(name, tuple(some)) for name, some in parts.items()))
    try:
        reply = cluster.ask_coordinator(OffsetDeleteReply, group_id, message)
    except Refused as refused:
        return dict.fromkeys(wanted, refused.error_code)
    return {
        TopicPartition(topic.name, part.partition_index): part.error_code
        for topic in reply.topics
        for part in topic.partitions
    }
