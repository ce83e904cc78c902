"""Requests to the library's `Cluster`; each story makes its own topic and group."""

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from interop.program import Options, check, until
from membership.consumer_protocol import decode_assignment
from membership.events import OffsetToCommit
from muster import Consumer, Producer, Refused, TopicPartition
from muster.blocking import ClusterClient
from muster.blocking.cluster import EARLIEST, LATEST, expect
from protocol.errors import ErrorCode
from protocol.messages.configs import (
    AlterableConfig,
    AlterConfigsResource,
    ConfigOperation,
    DescribeConfigs,
    DescribeConfigsReply,
    DescribeConfigsResource,
    IncrementalAlterConfigs,
    IncrementalAlterConfigsReply,
    ResourceType,
)
from protocol.messages.groups import (
    DeleteGroups,
    DeleteGroupsReply,
    DescribeGroups,
    DescribeGroupsReply,
    ListGroups,
    ListGroupsReply,
)
from protocol.messages.offsets import (
    OffsetCommit,
    OffsetCommitPartition,
    OffsetCommitReply,
    OffsetCommitTopic,
    OffsetDelete,
    OffsetDeleteReply,
    OffsetDeleteTopic,
    OffsetFetch,
    OffsetFetchGroup,
    OffsetFetchReply,
)
from protocol.messages.topics import (
    CreatableTopic,
    CreatePartitions,
    CreatePartitionsReply,
    CreateTopics,
    CreateTopicsReply,
    DeletableTopic,
    DeleteTopics,
    DeleteTopicsReply,
    GrowingTopic,
    Metadata,
    MetadataReply,
)

LARGEST = -3
SETTING = "retention.ms"


@contextmanager
def _cluster(options: Options) -> Iterator[ClusterClient]:
    cluster = ClusterClient(f"kafka://{options.bootstrap}")
    try:
        yield cluster
    finally:
        cluster.close()


def _offsets_by_time(options: Options) -> str:
    base = time.time_ns() // 1_000_000 - 100_000
    first = TopicPartition(options.topic, 0)
    with _cluster(options) as cluster:
        _create(cluster, options.topic, 2)
        with Producer(f"kafka://{options.bootstrap}") as producer:
            for number in range(10):
                producer.send(options.topic, "x", partition=0, timestamp_ms=base + number * 1_000)
                producer.flush()
        asked = (EARLIEST, LATEST, LARGEST, base + 4_500, base, base + 90_000)
        found = [cluster.offsets([first], timestamp)[first] for timestamp in asked]
    check(found == [0, 10, 9, 5, 0, -1], f"offsets are {found}")
    return f"earliest, latest, of the largest time, at a time between, at the first, after the last: {found}"


def _admin_topics(options: Options) -> str:
    topic = options.topic
    with _cluster(options) as cluster:
        _create(cluster, topic, 3)
        check(cluster.leader(TopicPartition(topic, 2)).port > 0, "no leader")
        check(_create_once(cluster, topic, 3) is ErrorCode.TOPIC_ALREADY_EXISTS, "created a second time")
        grown = cluster.ask(CreatePartitions((GrowingTopic(topic, 5),)))
        _none(expect(CreatePartitionsReply, grown).results[0].error_code)
        until(lambda: _topics(cluster).get(topic) == 5, "five partitions")
        _none(expect(DeleteTopicsReply, cluster.ask(DeleteTopics((DeletableTopic(topic),)))).responses[0].error_code)
        until(lambda: topic not in _topics(cluster), "deleted")
    return "created with 3 partitions, refused twice, grown to 5, deleted"


def _admin_groups(options: Options) -> str:
    group = options.group
    one, two = (TopicPartition(options.topic, number) for number in range(2))
    with _cluster(options) as cluster:
        _create(cluster, options.topic, 2)
        with Consumer(f"kafka://{options.bootstrap}", group, enable_auto_commit=False) as consumer:
            consumer.subscribe([options.topic])
            until(lambda: consumer.poll(0.1) == [] and len(consumer.assignment) == 2, "two partitions")
            consumer.commit({one: OffsetToCommit(1, "hello"), two: 2})
            check(group in _groups(cluster), "not listed")
            state, assigned = _described(cluster, group)
            check(state == "Stable" and assigned == [(one, two)], f"described {state}, with {assigned}")
        node = cluster.coordinator(group)
        offsets = _offsets(cluster, group)
        check(offsets == {one: (1, "hello"), two: (2, "")}, f"offsets are {offsets}")
        moved = OffsetCommit(group, (OffsetCommitTopic(options.topic, (OffsetCommitPartition(1, 1),)),))
        _none(expect(OffsetCommitReply, cluster.ask(moved, node=node)).topics[0].partitions[0].error_code)
        check(_offsets(cluster, group)[two][0] == 1, f"altered offsets are {_offsets(cluster, group)}")
        gone = OffsetDelete(group, (OffsetDeleteTopic(options.topic, (0,)),))
        _none(expect(OffsetDeleteReply, cluster.ask(gone, node=node)).topics[0].partitions[0].error_code)
        check(set(_offsets(cluster, group)) == {two}, f"one deleted: offsets are {_offsets(cluster, group)}")
        _none(expect(DeleteGroupsReply, cluster.ask(DeleteGroups((group,)), node=node)).results[0].error_code)
        check(group not in _groups(cluster), "listed after it was deleted")
    return "listed, described Stable with its assignment, offsets read, altered and deleted, group deleted"


def _configs(options: Options) -> str:
    with _cluster(options) as cluster:
        _create(cluster, options.topic, 1)
        before = _setting(cluster, options.topic)
        _alter(cluster, options.topic, ConfigOperation.SET, "123456789")
        until(lambda: _setting(cluster, options.topic) == "123456789", f"{SETTING} is 123456789")
        _alter(cluster, options.topic, ConfigOperation.DELETE, None)
        until(lambda: _setting(cluster, options.topic) == before, f"{SETTING} is {before} again")
    return f"described, {SETTING} altered, put back to its default {before}"


def _alter(cluster: ClusterClient, topic: str, operation: ConfigOperation, value: str | None) -> None:
    change = AlterableConfig(SETTING, operation, value)
    asked = IncrementalAlterConfigs((AlterConfigsResource(ResourceType.TOPIC, topic, (change,)),))
    _none(expect(IncrementalAlterConfigsReply, cluster.ask(asked)).responses[0].error_code)


def _create(cluster: ClusterClient, topic: str, partitions: int) -> None:
    """Returns once each partition can be read: a broker hears of a topic later than its controller."""
    _none(_create_once(cluster, topic, partitions))
    wanted = [TopicPartition(topic, number) for number in range(partitions)]

    def is_there() -> bool:
        try:
            return len(cluster.offsets(wanted, LATEST)) == partitions
        except Refused as refused:
            if refused.error_code is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                raise
            return False

    until(is_there, f"{topic} is there")


def _create_once(cluster: ClusterClient, topic: str, partitions: int) -> ErrorCode:
    reply = cluster.ask(CreateTopics((CreatableTopic(topic, partitions, 1),)))
    return expect(CreateTopicsReply, reply).topics[0].error_code


def _topics(cluster: ClusterClient) -> Mapping[str | None, int]:
    """All, with how many partitions each has."""
    return {topic.name: len(topic.partitions) for topic in expect(MetadataReply, cluster.ask(Metadata())).topics}


def _groups(cluster: ClusterClient) -> list[str]:
    return [group.group_id for group in expect(ListGroupsReply, cluster.ask(ListGroups())).groups]


def _described(cluster: ClusterClient, group: str) -> tuple[str, list[tuple[TopicPartition, ...]]]:
    """Its state, and what each member has."""
    reply = cluster.ask(DescribeGroups((group,)), node=cluster.coordinator(group))
    found = expect(DescribeGroupsReply, reply).groups[0]
    return found.group_state, [decode_assignment(member.member_assignment).partitions for member in found.members]


def _offsets(cluster: ClusterClient, group: str) -> dict[TopicPartition, tuple[int, str | None]]:
    """All that the group has, with the words kept beside."""
    reply = cluster.ask(OffsetFetch((OffsetFetchGroup(group),)), node=cluster.coordinator(group))
    return {
        TopicPartition(topic.name, one.partition_index): (one.committed_offset, one.metadata)
        for topic in expect(OffsetFetchReply, reply).groups[0].topics
        for one in topic.partitions
    }


def _setting(cluster: ClusterClient, topic: str) -> str | None:
    asked = DescribeConfigsResource(ResourceType.TOPIC, topic, (SETTING,))
    described = expect(DescribeConfigsReply, cluster.ask(DescribeConfigs((asked,)))).results[0]
    _none(described.error_code)
    return described.configs[0].value


def _none(code: ErrorCode) -> None:
    check(code is ErrorCode.NONE, code.name)


STORIES: Mapping[str, Callable[[Options], str]] = {
    "offsets_by_time": _offsets_by_time,
    "admin_topics": _admin_topics,
    "admin_groups": _admin_groups,
    "configs": _configs,
}
