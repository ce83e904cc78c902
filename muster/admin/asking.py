"""Requests about groups, offsets and topics, sent to the node that can answer."""

from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager

from membership.events import NodeAddress
from membership.topic_partition import TopicPartition
from muster.admin.describing import ask_description
from muster.blocking.cluster import ClusterClient, expect
from muster.errors import Refused
from protocol.errors import ErrorCode
from protocol.messages.groups import (
    DeletedGroup,
    DeleteGroups,
    DeleteGroupsReply,
    DescribedGroup,
    ListedNote,
    ListNotes,
    ListNotesReply,
)
from protocol.messages.offsets import (
    DescribeExpiry,
    DescribeExpiryReply,
    EndSample,
    ExpiringOffset,
    ListEndSamples,
    ListEndSamplesReply,
    OffsetFetch,
    OffsetFetchGroup,
    OffsetFetchPartitionReply,
    OffsetFetchReply,
)
from protocol.messages.ownership import DescribeOwnership, DescribeOwnershipReply, OwnedPartition
from protocol.messages.topics import Metadata, MetadataReply, MetadataTopicReply


class Complaint(Exception):
    """Raised if a request cannot be carried out; the text is for people."""


class NotFound(Complaint):
    """Raised if something that was named does not exist."""


def not_served(group_id: str, code: ErrorCode) -> str | None:
    """Return advice for a coordinator that does not serve a group; None for any other code. A single node answers
    NOT_COORDINATOR for a shard that it could not load, one of several also for a shard that moves to another.
    """
    if code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
        return (
            f"the shard of group {group_id!r} is being loaded: GET /readyz (HTTP) says how far that is; then try again"
        )
    if code is ErrorCode.NOT_COORDINATOR:
        return (
            f"the shard of group {group_id!r} is not served ({code.name}): it is not loaded yet, or could not be: "
            "GET /readyz (HTTP, as `curl http://127.0.0.1:9391/readyz`) says which, and why; "
            "if all nodes are ready, another one is taking the shard over: try again"
        )
    return None


@contextmanager
def answering_for(group_id: str) -> Iterator[None]:
    """Turn errors about the group's shard, and about a missing group, into a Complaint."""
    try:
        yield
    except Refused as refused:
        if refused.error_code is ErrorCode.GROUP_ID_NOT_FOUND:
            raise NotFound(f"there is no group {group_id!r}: see `muster groups list`") from None
        if sentence := not_served(group_id, refused.error_code):
            raise Complaint(sentence) from None
        raise


def topology(cluster: ClusterClient, *, topics: bool) -> MetadataReply:
    """Return the nodes, and all topics if `topics`."""
    return expect(MetadataReply, cluster.ask(Metadata(topics=None if topics else ())))


def list_topics(cluster: ClusterClient) -> list[MetadataTopicReply]:
    """Return the topics by name, without those that have an error."""
    found = (topic for topic in topology(cluster, topics=True).topics if topic.name is not None)
    return sorted((topic for topic in found if not topic.error_code), key=lambda topic: topic.name or "")


def describe_group(cluster: ClusterClient, group_id: str) -> DescribedGroup:
    """Return the group's description. Raises Complaint, or Refused."""
    with answering_for(group_id):
        group = ask_description(cluster, group_id)
        if group.error_code:
            raise Refused(group.error_code, group.error_message or f"group {group_id!r}: {group.error_code.name}")
        return group


def committed_offsets(cluster: ClusterClient, group_id: str) -> dict[TopicPartition, int]:
    return {one: commit.committed_offset for one, commit in fetch_commits(cluster, group_id).items()}


def fetch_commits(cluster: ClusterClient, group_id: str) -> dict[TopicPartition, OffsetFetchPartitionReply]:
    """Return the committed offsets of a group. Raises Complaint, or Refused."""
    with answering_for(group_id):
        wanted = OffsetFetch((OffsetFetchGroup(group_id),))
        group = cluster.ask_coordinator(OffsetFetchReply, group_id, wanted).groups[0]
        if group.error_code:
            raise Refused(group.error_code, f"the offsets of {group_id!r}: {group.error_code.name}")
    return {
        TopicPartition(topic.name, part.partition_index): part
        for topic in group.topics
        for part in topic.partitions
        if not part.error_code and part.committed_offset >= 0
    }


def describe_expiry(cluster: ClusterClient, group_id: str) -> tuple[DescribeExpiryReply, list[ExpiringOffset]]:
    """Return the reply about the group, and the offsets of all its partitions. Raises Complaint, or Refused."""
    offsets: list[ExpiringOffset] = []
    with answering_for(group_id):
        first = reply = cluster.ask_coordinator(DescribeExpiryReply, group_id, DescribeExpiry(group_id))
        offsets += reply.offsets
        while reply.has_more:
            last = offsets[-1]
            more = DescribeExpiry(group_id, after_topic=last.topic, after_partition=last.partition_index)
            reply = cluster.ask_coordinator(DescribeExpiryReply, group_id, more)
            offsets += reply.offsets
    return first, offsets


def describe_ownership(cluster: ClusterClient, group_id: str) -> tuple[OwnedPartition, ...]:
    """Return the grants in force, by partition. Raises Complaint, or Refused."""
    with answering_for(group_id):
        reply = cluster.ask_coordinator(DescribeOwnershipReply, group_id, DescribeOwnership(group_id))
        if reply.error_code:
            raise Refused(reply.error_code, f"the owners of {group_id!r}: {reply.error_code.name}")
    return reply.items


def partitions_of(cluster: ClusterClient, names: Collection[str]) -> frozenset[TopicPartition]:
    """Return all partitions of those topics that exist."""
    found = [topic for topic in list_topics(cluster) if topic.name in names] if names else []
    return frozenset(
        TopicPartition(topic.name or "", number) for topic in found for number in range(len(topic.partitions))
    )


def delete_groups(cluster: ClusterClient, group_ids: Iterable[str]) -> Iterator[DeletedGroup]:
    """Delete groups one after the other, and yield the result for each: an error may end it midway."""
    for group_id in group_ids:
        yield from cluster.ask_coordinator(DeleteGroupsReply, group_id, DeleteGroups((group_id,))).results


def list_notes(cluster: ClusterClient, group_id: str, newest: int) -> list[ListedNote]:
    """Return the newest notes of a group, oldest first. Raises Complaint if there is no such group and never was."""
    with answering_for(group_id):
        notes = cluster.ask_coordinator(ListNotesReply, group_id, ListNotes(group_id, limit=newest)).notes
    if not notes:
        describe_group(cluster, group_id)
    return list(notes)


def end_samples(cluster: ClusterClient, node: NodeAddress | None, since_ms: int) -> Iterator[EndSample]:
    """Yield the samples that a node has written since a wall time. Raises Refused."""
    position = -1
    while True:
        reply = expect(ListEndSamplesReply, cluster.ask(ListEndSamples(position, since_ms), node=node))
        if reply.error_code:
            raise Refused(reply.error_code, f"the samples of log ends: {reply.error_code.name}")
        yield from reply.samples
        if not reply.has_more:
            return
        position = reply.position
