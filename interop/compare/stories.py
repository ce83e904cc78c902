"""Requests to compare: about absent groups, through the life of a group in every version of its join, about topics,
records and settings."""

import time
from collections.abc import Callable

from interop.compare.pair import Pair
from protocol.messages.configs import (
    AlterableConfig,
    AlterConfigsResource,
    ConfigOperation,
    DescribeConfigs,
    DescribeConfigsResource,
    IncrementalAlterConfigs,
    ResourceType,
)
from protocol.messages.data import (
    EpochPartition,
    EpochTopic,
    Fetch,
    FetchPartition,
    FetchTopic,
    InitProducerId,
    OffsetForLeaderEpoch,
    Produce,
    ProducePartition,
    ProduceTopic,
)
from protocol.messages.groups import (
    DeleteGroups,
    DescribeGroups,
    Heartbeat,
    JoinGroup,
    JoinProtocol,
    LeaveGroup,
    LeavingMember,
    ListGroups,
    SyncGroup,
    SyncGroupAssignment,
)
from protocol.messages.node import DescribeCluster, FindCoordinator
from protocol.messages.offsets import (
    ListOffsets,
    ListOffsetsPartition,
    ListOffsetsTopic,
    OffsetCommit,
    OffsetCommitPartition,
    OffsetCommitTopic,
    OffsetDelete,
    OffsetDeleteTopic,
    OffsetFetch,
    OffsetFetchGroup,
    OffsetFetchTopic,
)
from protocol.messages.topics import (
    CreatableTopic,
    CreatePartitions,
    CreateTopics,
    DeletableTopic,
    DeleteTopics,
    DescribeTopicPartitions,
    GrowingTopic,
    Metadata,
    MetadataTopic,
    NamedTopic,
    PartitionAssignment,
    ReplicaAssignment,
    TopicConfig,
    TopicCursor,
)
from protocol.record_batch import encode_batch

# Subscriptions to nothing, well formed: one that is not leaves the whole group unanswered in Apache Kafka.
RANGE = (JoinProtocol("range", bytes(6) + b"\xff" * 4), JoinProtocol("roundrobin", bytes(6) + b"\xff" * 4))
SESSION_MS, REBALANCE_MS = 10_000, 30_000
AT_MS = 1_700_000_000_000


def absent_groups(pair: Pair, unique: str) -> None:
    """Nobody is there."""
    group = f"{unique}-absent"
    pair.ask("describe", DescribeGroups((group, "")))
    pair.ask("delete", DeleteGroups((group, group, "")))
    pair.ask("list, a state that is none", ListGroups(("nope",)), [4, 5])
    pair.ask("list, a type that is none", ListGroups((), ("nope",)), [5])
    pair.ask("heartbeat", Heartbeat(group, 1, "m"))
    pair.ask("heartbeat, no group", Heartbeat("", 1, "m"))
    pair.ask("sync", SyncGroup(group, 1, "m", None, "consumer", "range"))
    pair.ask("sync, no protocol", SyncGroup(group, 1, "m"))
    pair.ask("leave", LeaveGroup(group, (LeavingMember("m"),)))
    pair.ask("leave, no group", LeaveGroup("", (LeavingMember("m"),)))
    pair.ask("join, an unknown id", JoinGroup(group, SESSION_MS, "m", "consumer", RANGE, REBALANCE_MS))
    pair.ask("join, too short a session", JoinGroup(group, 1, "", "consumer", RANGE, REBALANCE_MS))
    pair.ask("join, no group", JoinGroup("", SESSION_MS, "", "consumer", RANGE, REBALANCE_MS))
    pair.ask("join, no protocols", JoinGroup(f"{group}-1", SESSION_MS, "", "consumer"), [0, 3])
    pair.ask("join, no type", JoinGroup(f"{group}-2", SESSION_MS, "", "", RANGE), [0, 3])
    pair.ask("join, told an id first", JoinGroup(f"{group}-3", SESSION_MS, "", "consumer", RANGE), [4, 5, 6, 7, 8, 9])
    pair.ask("fetch all", OffsetFetch((OffsetFetchGroup(group),)), [2, 5, 7, 8, 9, 10])
    pair.ask("commit with a generation", OffsetCommit(group, (), 3, "m"))
    pair.ask("coordinator", FindCoordinator((group,)))
    pair.ask("coordinators", FindCoordinator((group, "")), [4, 5, 6])


def life_of_a_group(pair: Pair, unique: str) -> None:
    """One member, in every version of its join, and everything around it."""
    topic = f"{unique}-offsets"
    pair.make(lambda _: CreateTopics((CreatableTopic(topic, 3, 1),)), 5)
    _wait_for(pair, topic)
    for version in range(10):
        _life(pair, f"{unique}-life-{version}", topic, version)


def _life(pair: Pair, group: str, topic: str, version: int) -> None:
    def join(member_id: str) -> JoinGroup:
        return JoinGroup(group, SESSION_MS, member_id, "consumer", RANGE, REBALANCE_MS)

    ids: tuple[str, str] = ("", "")
    kafka, muster = pair.ask("join", join(""), [version])
    if version >= 4:
        ids = kafka.member_id, muster.member_id
        kafka, muster = pair.ask_each("join with the id", (join(ids[0]), join(ids[1])), [version])
    ids, generation = (kafka.member_id, muster.member_id), kafka.generation_id

    def each(label: str, message: Callable[[str], object], versions: list[int]) -> None:
        pair.ask_each(label, (message(ids[0]), message(ids[1])), versions)  # type: ignore[arg-type]

    def sync(member_id: str) -> SyncGroup:
        plan = (SyncGroupAssignment(member_id, b"assignment"),)
        return SyncGroup(group, generation, member_id, None, "consumer", "range", plan)

    each("sync", sync, [min(version, 5)])
    each("heartbeat", lambda one: Heartbeat(group, generation, one), [0, 1, 2, 3, 4])
    each("heartbeat of another generation", lambda one: Heartbeat(group, 9, one), [0, 4])
    each("heartbeat of an instance that is none", lambda one: Heartbeat(group, generation, one, "i"), [3, 4])
    parts = (OffsetCommitPartition(0, 5, -1, "metadata"), OffsetCommitPartition(9, 5))
    topics = (OffsetCommitTopic(topic, parts), OffsetCommitTopic("nope", (OffsetCommitPartition(0, 1),)))
    by_name = list(range(2, 10))
    for said, told in (("commit", generation), ("commit of another generation", 7), ("commit of none", -1)):
        each(said, lambda one, told=told: OffsetCommit(group, topics, told, one), by_name)  # type: ignore[misc]
    wanted = (OffsetFetchTopic(topic, (0, 1)), OffsetFetchTopic("nope", (0,)))
    pair.ask("fetch", OffsetFetch((OffsetFetchGroup(group, wanted),)), list(range(1, 10)))
    pair.ask("fetch all", OffsetFetch((OffsetFetchGroup(group),)), [2, 5, 7, 8, 9, 10])
    pair.ask("describe", DescribeGroups((group,)))
    pair.ask("delete a group with a member", DeleteGroups((group,)))
    deleted = OffsetDelete(group, (OffsetDeleteTopic(topic, (0, 9)), OffsetDeleteTopic("nope", (0,))))
    pair.ask("delete offsets", deleted)
    each("join again", join, [version])
    pair.ask("describe while it completes", DescribeGroups((group,)), [0, 4, 6])
    each("sync again", lambda one: SyncGroup(group, generation + 1, one), [min(version, 4)])
    stranger = (LeavingMember("stranger"),) if version >= 3 else ()
    each("leave", lambda one: LeaveGroup(group, (LeavingMember(one), *stranger)), [min(version, 5)])
    each("leave again", lambda one: LeaveGroup(group, (LeavingMember(one), *stranger)), [min(version, 5)])
    pair.ask("describe when empty", DescribeGroups((group,)), [0, 4, 6])
    simple = (OffsetCommitPartition(2, 5, 3, "x" * 4097), OffsetCommitPartition(1, -9, 3, "é" * 4096))
    pair.ask("commit without a member", OffsetCommit(group, (OffsetCommitTopic(topic, simple),)), by_name)
    pair.ask("fetch all", OffsetFetch((OffsetFetchGroup(group),)), [5, 8])
    pair.ask("delete offsets when empty", deleted)
    pair.ask("delete", DeleteGroups((group,)), [version % 3])
    pair.ask("describe when gone", DescribeGroups((group,)), [0, 5, 6])


def static_members(pair: Pair, unique: str) -> None:
    """One instance comes back in three versions."""
    group = f"{unique}-static"
    join = JoinGroup(group, SESSION_MS, "", "consumer", RANGE, REBALANCE_MS, "instance")
    for version in (5, 7, 9):
        kafka, muster = pair.ask("join", join, [version])
        plans = [(SyncGroupAssignment(one.member_id, b"assignment"),) for one in (kafka, muster)]
        syncs = [
            SyncGroup(group, one.generation_id, one.member_id, "instance", assignments=plan)
            for one, plan in zip((kafka, muster), plans, strict=True)
        ]
        pair.ask_each("sync", (syncs[0], syncs[1]), [4])
        pair.ask("describe", DescribeGroups((group,)), [4, 6])
    pair.ask("leave by instance", LeaveGroup(group, (LeavingMember("", "instance"), LeavingMember("", "none"))), [3])


def topics(pair: Pair, unique: str) -> None:
    """Made, described, grown, deleted; and what cannot be."""
    topic, none = f"{unique}-topic", f"{unique}-none"
    pair.make(lambda _: CreateTopics((CreatableTopic(topic, 3, 1),)), 5)
    _wait_for(pair, topic)
    pair.ask("create again", CreateTopics((CreatableTopic(topic, 3, 1),)), [2, 3, 4])
    wrong = ("a b", "", "..", "x" * 250)
    pair.ask("create, wrong names", CreateTopics(tuple(CreatableTopic(name, 1, 1) for name in wrong)), [2, 3, 4])
    shapes = (CreatableTopic(f"{none}1", 3, 3), CreatableTopic(f"{none}2", 0, 1))
    pair.ask("create, wrong shapes", CreateTopics(shapes), [2, 3, 4])
    pair.ask("create twice", CreateTopics((CreatableTopic(none, 3, 1), CreatableTopic(none, 3, 1))), [2, 3, 4])
    settings = (
        CreatableTopic(f"{none}1", 3, 1, (TopicConfig("nope", "1"),)),
        CreatableTopic(f"{none}2", 3, 1, (TopicConfig("retention.ms", "x"),)),
    )
    pair.ask("create, wrong settings", CreateTopics(settings), [2, 3, 4])
    placed = CreatableTopic(none, -1, -1, (), (ReplicaAssignment(0, (9,)),))
    pair.ask("create on a broker that is none", CreateTopics((placed,), 60_000, True), [2, 3, 4])
    pair.ask("metadata", Metadata((MetadataTopic(topic),)))
    pair.ask("metadata, unknown", Metadata((MetadataTopic(none),)), list(range(4, 14)))
    pair.ask("metadata, a wrong name", Metadata((MetadataTopic("a b"),), True), list(range(1, 14)))
    pair.ask("metadata of none", Metadata(()), list(range(1, 14)))
    pair.ask("metadata by an id that is none", Metadata((MetadataTopic(None, b"\1" * 16),)), [12, 13])
    pair.ask("metadata with operations", Metadata((MetadataTopic(topic),), False, True, True), list(range(8, 14)))
    pair.ask("cluster", DescribeCluster(True))
    pair.ask("cluster of controllers", DescribeCluster(False, 2), [1, 2])
    named = (NamedTopic(topic), NamedTopic(none), NamedTopic("a b"))
    pair.ask("describe partitions", DescribeTopicPartitions(named))
    pair.ask("describe partitions, a page", DescribeTopicPartitions((NamedTopic(topic),), 2))
    pair.ask("describe partitions, go on", DescribeTopicPartitions((NamedTopic(topic),), 2, TopicCursor(topic, 1)))
    grow = (GrowingTopic(topic, 2), GrowingTopic(none, 4))
    pair.ask("grow", CreatePartitions(grow, 60_000, True))
    pair.ask("grow to the same", CreatePartitions((GrowingTopic(topic, 3),), 60_000, True))
    one = GrowingTopic(topic, 5, (PartitionAssignment((1,)),))
    pair.ask("grow, too few assignments", CreatePartitions((one,), 60_000, True))
    pair.ask("grow", CreatePartitions((GrowingTopic(topic, 4),), 60_000, True))
    pair.ask("delete, unknown", DeleteTopics((DeletableTopic(none),)))
    pair.ask("delete by an id that is none", DeleteTopics((DeletableTopic(None, b"\7" * 16),)), [6])
    pair.ask("delete twice in one", DeleteTopics((DeletableTopic(topic), DeletableTopic(topic))))
    pair.ask("delete", DeleteTopics((DeletableTopic(topic),)), [5])
    time.sleep(1.0)  # Kafka says so before it is done
    pair.ask("delete again", DeleteTopics((DeletableTopic(topic),)), [5])
    pair.ask("metadata when gone", Metadata((MetadataTopic(topic),)), [5, 9])


def records(pair: Pair, unique: str) -> None:
    """In, out, and by time."""
    topic = f"{unique}-records"
    pair.make(lambda _: CreateTopics((CreatableTopic(topic, 3, 1),)), 5)
    ids = _wait_for(pair, topic)
    batch = encode_batch([(b"key", b"value"), (None, b"second")], timestamp_ms=AT_MS)
    spoilt = batch[:30] + bytes((batch[30] ^ 0xFF,)) + batch[31:]
    for version in range(3, 13):
        both = (ProducePartition(0, batch), ProducePartition(9, batch))
        lost = ProduceTopic("nope-" + topic, (ProducePartition(0, batch),))
        pair.ask("produce", Produce((ProduceTopic(topic, both), lost)), [version])
        for said, data in (
            ("a spoilt batch", spoilt),
            ("no batch", b""),
            ("half a batch", batch[:-3]),
            ("an old format", batch[:16] + b"\1" + batch[17:]),
        ):
            pair.ask(said, Produce((ProduceTopic(topic, (ProducePartition(1, data),)),)), [version])
        pair.ask("acks of 5", Produce((ProduceTopic(topic, (ProducePartition(1, batch),)),), 5), [version])
        pair.ask("acks of 1", Produce((ProduceTopic(topic, (ProducePartition(2, batch),)),), 1), [version])
    by_id = [Produce((ProduceTopic("", (ProducePartition(0, batch),), one),)) for one in ids]
    pair.ask_each("produce by id", (by_id[0], by_id[1]), [13])
    pair.ask(
        "produce by an id that is none", Produce((ProduceTopic("", (ProducePartition(0, batch),), b"\5" * 16),)), [13]
    )
    for version in range(4, 13):
        for offset in (0, 1, 5):
            pair.ask("fetch", Fetch((FetchTopic(topic, (FetchPartition(0, offset),)),), 0), [version])
        few = (FetchPartition(0, 0, 10), FetchPartition(2, 0, 10))
        pair.ask("fetch of few bytes", Fetch((FetchTopic(topic, few),), 0, 1, 20), [version])
    fetches = [Fetch((FetchTopic("", (FetchPartition(0, 1),), one),), 0) for one in ids]
    pair.ask_each("fetch by id", (fetches[0], fetches[1]), list(range(13, 19)))
    pair.ask(
        "fetch in a session that is none",
        Fetch((FetchTopic(topic, (FetchPartition(0, 0),)),), 0, session_id=1234, session_epoch=4),
        list(range(7, 13)),
    )
    pair.ask(
        "fetch of a later leader",
        Fetch((FetchTopic(topic, (FetchPartition(0, 0, current_leader_epoch=4),)),), 0),
        [9, 10, 11, 12],
    )
    for timestamp in (-1, -2, -3, -4, -5, -7, 1, AT_MS, AT_MS + 1):
        wanted = ListOffsetsTopic(topic, (ListOffsetsPartition(0, timestamp),))
        pair.ask(f"offsets at {timestamp}", ListOffsets((wanted,)))
    pair.ask("offsets of no partition", ListOffsets((ListOffsetsTopic(topic, (ListOffsetsPartition(9),)),)))
    epochs = (EpochPartition(0, 0), EpochPartition(0, 5), EpochPartition(1, 0, 9), EpochPartition(9, 0))
    pair.ask("end of an epoch", OffsetForLeaderEpoch((EpochTopic(topic, epochs), EpochTopic("nope", epochs))))
    pair.ask("a producer's id", InitProducerId())


def settings(pair: Pair, unique: str) -> None:
    """Changed and described."""
    topic = f"{unique}-settings"
    pair.make(lambda _: CreateTopics((CreatableTopic(topic, 1, 1),)), 5)
    _wait_for(pair, topic)

    def alter(label: str, *configs: AlterableConfig, name: str = topic, kind: int = ResourceType.TOPIC) -> None:
        pair.ask(label, IncrementalAlterConfigs((AlterConfigsResource(kind, name, configs),)))

    set_to, append = ConfigOperation.SET, ConfigOperation.APPEND
    alter("set", AlterableConfig("retention.ms", set_to, "5000"))
    alter("set to nonsense", AlterableConfig("retention.ms", set_to, "x"))
    alter("set what is none", AlterableConfig("nope", set_to, "x"))
    alter("set to nothing", AlterableConfig("retention.ms", set_to, None))
    alter("set twice", AlterableConfig("retention.ms", set_to, "1"), AlterableConfig("retention.ms", set_to, "2"))
    alter("append to a list", AlterableConfig("cleanup.policy", append, "compact"))
    alter("an operation that is none", AlterableConfig("retention.ms", 9, "5"))
    alter("of a topic that is none", AlterableConfig("retention.ms", set_to, "5"), name=f"{topic}-none")
    names = ("retention.ms", "cleanup.policy", "segment.bytes")
    pair.ask("describe", DescribeConfigs((DescribeConfigsResource(ResourceType.TOPIC, topic, names),)))
    unknown = DescribeConfigsResource(ResourceType.TOPIC, f"{topic}-none", None)
    pair.ask(
        "describe, unknown", DescribeConfigs((unknown, DescribeConfigsResource(ResourceType.TOPIC, topic, ("no",))))
    )
    alter("delete", AlterableConfig("retention.ms", ConfigOperation.DELETE))
    one = DescribeConfigsResource(ResourceType.TOPIC, topic, ("retention.ms",))
    pair.ask("describe the default", DescribeConfigs((one,)))


STORIES: tuple[Callable[[Pair, str], None], ...] = (
    absent_groups,
    life_of_a_group,
    static_members,
    topics,
    records,
    settings,
)


def _wait_for(pair: Pair, topic: str) -> list[bytes]:
    """Until both tell of its partitions; the id each gave it."""
    ends = time.monotonic() + 10.0
    while time.monotonic() < ends:
        found = [answer.topics[0] for answer in pair.make(lambda _: Metadata((MetadataTopic(topic),)), 12)]
        if all(one.partitions and not one.error_code for one in found):
            time.sleep(1.0)  # Kafka tells of partitions a moment before it takes records for them
            return [one.topic_id for one in found]
        time.sleep(0.05)
    raise TimeoutError(f"{topic} has not come")
