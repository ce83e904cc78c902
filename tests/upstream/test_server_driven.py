"""Groups that the coordinator balances, beside brokers: topics are the cluster's, and nothing else is."""

from typing import Any

import pytest
from msgspec.structs import replace

from coordinator.config.keys import RebalanceProtocols, UpstreamOffsets
from protocol.consumer_protocol import (
    Assignment,
    Subscription,
    TopicPartitions,
    decode_assignment,
    encode_assignment,
    encode_subscription,
)
from protocol.errors import ErrorCode
from protocol.messages.consumer_groups import (
    AssignmentChanged,
    ConsumerGroupDescribe,
    ConsumerGroupDescribeReply,
    ConsumerGroupHeartbeat,
    ConsumerGroupHeartbeatReply,
    DescribedConsumerGroup,
    TopicIdPartitions,
)
from protocol.messages.groups import (
    JoinGroup,
    JoinGroupReply,
    JoinProtocol,
    ListedGroup,
    ListGroups,
    ListGroupsReply,
    ListNotes,
    ListNotesReply,
    SyncGroup,
    SyncGroupAssignment,
    SyncGroupReply,
)
from protocol.messages.offsets import (
    OffsetCommit,
    OffsetCommitPartition,
    OffsetCommitReply,
    OffsetCommitTopic,
    OffsetFetch,
    OffsetFetchGroup,
    OffsetFetchReply,
    OffsetFetchTopic,
)
from protocol.messages.topics import (
    CreatableTopic,
    CreatePartitions,
    CreateTopics,
    DeletableTopic,
    DeleteTopics,
    GrowingTopic,
    Metadata,
    MetadataReply,
)
from tests.upstream.guarded import DESCRIBE, READ, GuardedPair
from tests.upstream.pair import Pair

BOTH = RebalanceProtocols(("classic", "consumer"))
NONE, LOADING, STALE = ErrorCode.NONE, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.STALE_MEMBER_EPOCH
GROUP_REFUSED, TOPIC_REFUSED = ErrorCode.GROUP_AUTHORIZATION_FAILED, ErrorCode.TOPIC_AUTHORIZATION_FAILED
LISTED_MS, SESSION_MS = 30_000, 45_000
HEARTBEAT, DESCRIPTION = 68, 69


class Rig:
    """A gateway before a broker with the topics T, of four partitions, and U, of two; a client on connection 1."""

    def __init__(self, kind: type[Pair] = Pair, **settings: Any) -> None:
        given = {"upstream_offsets": UpstreamOffsets.IGNORE, "group_coordinator_rebalance_protocols": BOTH}
        self.pair = kind(**{**given, "group_consumer_assignment_interval_ms": 0, **settings})
        self.epochs: dict[str, int] = {}
        self.make("T", 4)
        self.make("U", 2)
        self.pair.find()
        if kind is Pair:
            self.pair.connect(1)

    def make(self, topic: str, partitions: int) -> None:
        self.pair.ask_broker(CreateTopics((CreatableTopic(topic, partitions, 1),)), 5)

    def delete(self, topic: str) -> None:
        self.pair.ask_broker(DeleteTopics((DeletableTopic(topic),)), 5)

    def id_of(self, topic: str) -> bytes:
        reply = self.pair.ask_broker(Metadata(None), 12)
        assert isinstance(reply, MetadataReply)
        return next(one.topic_id for one in reply.topics if one.name == topic)

    def beat(self, member: str, *, by: int = 1, epoch: int | None = None, **fields: Any) -> Any:
        """Send a heartbeat with the epoch that the member was told last."""
        epoch = self.epochs.get(member, 0) if epoch is None else epoch
        reply = self.pair.ask(by, ConsumerGroupHeartbeat("g", member, epoch, **fields), 1)
        assert isinstance(reply, ConsumerGroupHeartbeatReply)
        if not reply.error_code:
            self.epochs[member] = reply.member_epoch
        return reply

    def join(self, member: str, *topics: str, by: int = 1, **fields: Any) -> Any:
        said = {"subscribed_topic_names": topics, "topic_partitions": (), "rebalance_timeout_ms": 60_000}
        return self.beat(member, by=by, epoch=0, **{**said, **fields})

    def describe(self, by: int = 1, **fields: Any) -> DescribedConsumerGroup:
        reply = self.pair.ask(by, ConsumerGroupDescribe(("g",), **fields), 1)
        assert isinstance(reply, ConsumerGroupDescribeReply)
        return reply.groups[0]

    def owned(self) -> dict[str, dict[str, tuple[int, ...]]]:
        return {
            one.member_id: {part.topic_name: part.partitions for part in one.assignment.topic_partitions}
            for one in self.describe().members
        }

    def list_topics(self) -> None:
        """Let the gateway list the topics anew, as it does from time to time."""
        self.pair.wait(LISTED_MS)

    def held(self, topic: str, *partitions: int) -> tuple[TopicIdPartitions, ...]:
        return (TopicIdPartitions(self.id_of(topic), partitions),)


def told(reply: ConsumerGroupHeartbeatReply) -> dict[bytes, tuple[int, ...]]:
    assert not reply.error_code, reply
    assert reply.assignment is not None
    return {one.topic_id: one.partitions for one in reply.assignment.topic_partitions}


def of_group(pair: Pair) -> list[ListedGroup]:
    reply = pair.ask_broker(ListGroups(), 4)
    assert isinstance(reply, ListGroupsReply)
    return list(reply.groups)


def test_members_share_the_clusters_topics_and_the_cluster_hears_nothing() -> None:
    rig = Rig()
    pair = rig.pair
    assert told(rig.join("a", "T", "U")) == {rig.id_of("T"): (0, 1, 2, 3), rig.id_of("U"): (0, 1)}
    joined = rig.join("b", "T", "U")
    assert (joined.member_epoch, told(joined)) == (3, {})
    asked = rig.beat("a")
    assert sum(map(len, told(asked).values())) == 3, "it is to give up the others"
    kept = tuple(TopicIdPartitions(topic, numbers) for topic, numbers in told(asked).items())
    assert rig.beat("a", topic_partitions=kept).member_epoch == 3
    assert sum(map(len, told(rig.beat("b")).values())) == 3
    listed = pair.ask(1, ListGroups(types_filter=("consumer",)), 5)
    assert isinstance(listed, ListGroupsReply)
    assert [(one.group_id, one.group_state, one.group_type) for one in listed.groups] == [("g", "Stable", "consumer")]
    group = rig.describe()
    assert (group.group_state, group.group_epoch, group.assignment_epoch, len(group.members)) == ("Stable", 3, 3, 2)
    mine = kept[0].topic_id, kept[0].partitions[0]
    where = (OffsetCommitTopic("", (OffsetCommitPartition(mine[1], 7),), mine[0]),)
    for epoch, code in ((3, NONE), (2, NONE), (1, STALE), (4, STALE)):
        reply = pair.ask(1, OffsetCommit("g", where, epoch, "a"), 10)
        assert isinstance(reply, OffsetCommitReply)
        assert reply.topics[0].partitions[0].error_code is code, "with the epoch in which it got the partition, too"
    wanted = OffsetFetchGroup("g", (OffsetFetchTopic("", (mine[1],), mine[0]),), "a", 3, wants_topic_ids=True)
    fetched = pair.ask(1, OffsetFetch((wanted,)), 10)
    assert isinstance(fetched, OffsetFetchReply)
    assert fetched.groups[0].topics[0].partitions[0].committed_offset == 7
    assert (of_group(pair), pair.broker_received) == ([], []), "nothing of it went to the cluster"


def test_what_is_offered_follows_the_configuration() -> None:
    for protocols, features in ((BOTH, ["group.version"]), (RebalanceProtocols(("classic",)), [])):
        rig = Rig(group_coordinator_rebalance_protocols=protocols)
        offered = rig.pair.node.brokers._routers[1].advertised
        keys = {row.api_key for row in offered.api_keys}
        assert ({HEARTBEAT, DESCRIPTION} <= keys) is bool(features) is bool({HEARTBEAT, DESCRIPTION} & keys)
        assert [one.name for one in offered.finalized_features if one.name == "group.version"] == features
        assert [one.name for one in offered.supported_features if one.name == "group.version"] == features
    pair = Rig(group_coordinator_rebalance_protocols=RebalanceProtocols(("classic",))).pair
    pair.send(1, ConsumerGroupHeartbeat("g", "a", 0), 1)
    pair.run()
    assert "API 68 in version 1 is not offered" in pair.closed[1]


def test_topics_that_change_at_the_cluster_reach_members() -> None:
    rig = Rig()
    first = rig.join("a", "T", "N")
    assert told(first) == {rig.id_of("T"): (0, 1, 2, 3)}
    rig.pair.ask_broker(CreatePartitions((GrowingTopic("T", 6),)), 3)
    rig.list_topics()
    assert told(rig.beat("a")) == {rig.id_of("T"): tuple(range(6))}
    rig.make("N", 1)
    assert rig.beat("a").assignment is None, "nobody has told yet"
    rig.list_topics()
    grown = rig.beat("a")
    assert (grown.member_epoch, told(grown)) == (4, {rig.id_of("T"): tuple(range(6)), rig.id_of("N"): (0,)})
    before = rig.id_of("T")
    rig.delete("T")
    rig.make("T", 1)
    rig.list_topics()
    asked = rig.beat("a")
    assert told(asked) == {rig.id_of("N"): (0,)}, "the topic of this name is another one"
    remade = rig.beat("a", topic_partitions=rig.held("N", 0))
    assert told(remade) == {rig.id_of("N"): (0,), rig.id_of("T"): (0,)}
    assert before not in told(remade)


def test_a_topic_that_was_made_just_now_is_asked_for() -> None:
    rig = Rig()
    rig.make("N", 2)
    assert told(rig.join("a", "N")) == {rig.id_of("N"): (0, 1)}


def test_a_topic_stays_assigned_until_every_broker_has_denied_it() -> None:
    rig = Rig()
    epoch = rig.join("a", "T", "U").member_epoch
    image, reply = rig.pair.node.topics.image, rig.pair.ask_broker(Metadata(None), 12)
    assert isinstance(reply, MetadataReply)
    without = replace(reply, topics=tuple(one for one in reply.topics if one.name != "U"))
    rig.pair.node.topics.learn_all(without, rig.pair.now_ms)
    assert rig.pair.node.topics.id_of("U") is None
    rig.pair.wait(1_000)
    idle = rig.beat("a")
    assert (idle.member_epoch, idle.assignment) == (epoch, None), "the broker says by id that it is there"
    version = image.version
    rig.list_topics()
    assert (image.version, rig.beat("a").assignment) == (version, None)
    rig.delete("U")
    rig.pair.node.brokers.known[2] = rig.pair.node.brokers.known[1]  # another broker, which does not answer
    rig.list_topics()
    assert rig.beat("a").assignment is None
    del rig.pair.node.brokers.known[2]
    rig.list_topics()
    assert told(rig.beat("a")) == {rig.id_of("T"): (0, 1, 2, 3)}
    assert image.find("U") is None


def test_a_start_without_brokers_takes_nothing_from_anybody() -> None:
    rig = Rig()
    pair = rig.pair
    rig.join("a", "T")
    epoch = rig.describe().group_epoch
    pair.is_cut = True
    pair.away()
    idle = rig.beat("a")
    assert (idle.error_code, idle.assignment) == (NONE, None), "what was known is known"
    pair.front.restart()
    pair.away()
    pair.connect_natively(2)
    for _ in range(4):
        pair.wait(SESSION_MS - 5_000)
        reply = pair.ask_natively(2, ConsumerGroupHeartbeat("g", "a", epoch))
        assert isinstance(reply, ConsumerGroupHeartbeatReply)
        assert reply.error_code is LOADING
        assert "no broker has listed them" in pair.sentences[-1]
    joining = ConsumerGroupHeartbeat("g", "b", 0, subscribed_topic_names=("T",), topic_partitions=(),
                                     rebalance_timeout_ms=1)  # fmt: skip
    reply = pair.ask_natively(2, joining)
    assert isinstance(reply, ConsumerGroupHeartbeatReply)
    assert reply.error_code is LOADING
    classic = JoinGroup("g", 6_000, rebalance_timeout_ms=6_000, protocol_type="consumer",
                        protocols=(JoinProtocol("range", b"x"),))  # fmt: skip
    refused = pair.ask_natively(2, classic)
    assert isinstance(refused, JoinGroupReply)
    assert refused.error_code is LOADING
    pair.is_cut = False
    pair.find()
    pair.connect(1)
    again = rig.beat("a")
    assert (again.error_code, again.member_epoch) == (NONE, epoch)
    assert rig.owned() == {"a": {"T": (0, 1, 2, 3)}}
    assert rig.describe().group_epoch == epoch
    pair.wait(SESSION_MS + 1)
    assert rig.describe().members == (), "who says nothing is fenced as ever"


def test_a_member_that_leaves_needs_no_topics() -> None:
    rig = Rig()
    rig.join("a", "T")
    rig.pair.is_cut = True
    rig.pair.front.restart()
    rig.pair.away()
    rig.pair.connect_natively(2)
    reply = rig.pair.ask_natively(2, ConsumerGroupHeartbeat("g", "a", -1))
    assert isinstance(reply, ConsumerGroupHeartbeatReply)
    assert (reply.error_code, reply.member_epoch) == (NONE, -1)


def test_a_group_that_becomes_classic_without_topics_takes_nothing_from_its_members() -> None:
    rig = Rig()
    pair = rig.pair
    pair.connect_natively(2)
    rig.join("a", "T")
    generation_id = joined(pair)
    rig.beat("a")
    rig.beat("a", topic_partitions=rig.held("T", 0, 1))
    assert joined(pair) == generation_id
    assert synced(pair, generation_id) == {"T": (2, 3)}
    pair.is_cut = True
    pair.front.restart()
    pair.away()
    pair.connect_natively(2)
    pair.ask_natively(2, ConsumerGroupHeartbeat("g", "a", -1))
    pair.is_cut = False
    pair.find()
    pair.connect(1)
    assert rig.join("d", "T").error_code is LOADING, "c reads T2,3, which the record does not say"
    assert synced(pair, joined(pair), {"T": (2, 3)}) == {"T": (2, 3)}
    given = rig.join("d", "T")
    assert told(given) == {rig.id_of("T"): (0, 1)}
    assert rig.owned() == {"c": {"T": (2, 3)}, "d": {"T": (0, 1)}}


def test_a_classic_member_that_joins_again_before_topics_are_known_stays() -> None:
    rig = Rig()
    pair = rig.pair
    pair.connect_natively(2)
    rig.join("a", "T")
    joined(pair)
    pair.is_cut = True
    pair.front.restart()
    pair.away()
    pair.connect_natively(2)
    for _ in range(3):
        pair.wait(9_000)
        refused: Any = pair.ask_natively(2, JOIN)
        assert refused.error_code is LOADING
    group = pair.front.node.core.directory["g"].as_consumer()
    assert "c" in group.members


JOIN = JoinGroup(
    "g",
    20_000,
    "c",
    rebalance_timeout_ms=60_000,
    protocol_type="consumer",
    protocols=(JoinProtocol("range", encode_subscription(Subscription(("T",)))),),
)


def joined(pair: Pair) -> int:
    """Let the classic member c join; return its generation."""
    reply = pair.ask_natively(2, JOIN)
    assert isinstance(reply, JoinGroupReply) and not reply.error_code, reply
    return reply.generation_id


def synced(pair: Pair, generation_id: int, given: dict[str, tuple[int, ...]] | None = None) -> dict[str, Any]:
    """Let c sync, in a classic group with this assignment; return its partitions."""
    partitions = tuple(TopicPartitions(*one) for one in (given or {}).items())
    assignment = SyncGroupAssignment("c", encode_assignment(Assignment(partitions)))
    reply = pair.ask_natively(2, SyncGroup("g", generation_id, "c", assignments=(assignment,)))
    assert isinstance(reply, SyncGroupReply) and not reply.error_code, reply
    return dict(decode_assignment(reply.assignment).partitions)


def test_native_members_are_told_of_a_new_target() -> None:
    rig = Rig()
    rig.pair.connect_natively(2)
    joining = ConsumerGroupHeartbeat("g", "n", 0, subscribed_topic_names=("T",), topic_partitions=(),
                                     rebalance_timeout_ms=60_000)  # fmt: skip
    rig.pair.ask_natively(2, joining)
    rig.join("a", "T")
    assert rig.pair.pushed[2] == [AssignmentChanged("g", 3)]


# ------------------------------------------------------------------------------------------------------------ patterns


def test_a_pattern_matches_the_clusters_topics_as_they_come_and_go() -> None:
    rig = Rig()
    assert told(rig.join("a", subscribed_topic_regex="[TN]")) == {}
    assert told(rig.beat("a")) == {rig.id_of("T"): (0, 1, 2, 3)}
    rig.make("N", 1)
    rig.list_topics()
    assert rig.beat("a").assignment is None, "this heartbeat begins the match"
    assert told(rig.beat("a")) == {rig.id_of("T"): (0, 1, 2, 3), rig.id_of("N"): (0,)}
    refused = rig.beat("b", epoch=0, subscribed_topic_regex="(", topic_partitions=(), rebalance_timeout_ms=1)
    assert refused.error_code is ErrorCode.INVALID_REGULAR_EXPRESSION


ALICE, BOB, EVE = 1, 2, 3


def guarded() -> Rig:
    rig = Rig(GuardedPair)
    pair = rig.pair
    assert isinstance(pair, GuardedPair)
    pair.client(ALICE, ("g", READ), ("T", READ), ("U", READ))
    pair.client(BOB, ("g", READ), ("U", DESCRIBE))
    pair.client(EVE, ("T", READ), ("U", READ))
    return rig


def topics_asked(rig: Rig) -> int:
    assert isinstance(rig.pair, GuardedPair)
    return sum(isinstance(one, Metadata) and one.topics is None for one in rig.pair.queries)


def test_the_clusters_rules_hold_for_groups_topics_and_descriptions() -> None:
    rig = guarded()
    assert rig.join("e", "T", by=EVE).error_code is GROUP_REFUSED
    assert rig.beat("e", by=EVE).error_code is GROUP_REFUSED
    assert rig.beat("e", epoch=-1, by=EVE).error_code is GROUP_REFUSED
    assert rig.join("b", "T", "U", by=BOB).error_code is TOPIC_REFUSED
    assert "g" not in rig.pair.node.core.directory
    assert sum(map(len, told(rig.join("a", "T", "U", by=ALICE)).values())) == 6
    assert rig.describe(EVE).error_code is GROUP_REFUSED
    hidden = rig.describe(BOB)
    assert (hidden.error_code, hidden.members) == (TOPIC_REFUSED, ()), "it would tell of a topic that it may not see"
    shown = rig.describe(ALICE, include_authorized_operations=True)
    assert (shown.error_code, len(shown.members)) == (NONE, 1)
    assert shown.authorized_operations == 1 << READ | 1 << DESCRIBE
    assert topics_asked(rig) == 0


def test_a_topic_that_does_not_exist_may_be_subscribed_to_by_who_could_describe_it() -> None:
    rig = guarded()
    assert isinstance(rig.pair, GuardedPair)
    assert rig.join("a", "T", "N", by=ALICE).error_code is TOPIC_REFUSED
    rig.pair.rights[BOB].add(("N", DESCRIBE))
    assert told(rig.join("b", "U", "N", by=BOB)) == {rig.id_of("U"): (0, 1)}
    rig.make("N", 1)
    rig.list_topics()
    assert told(rig.beat("b", by=BOB)) == {rig.id_of("U"): (0, 1), rig.id_of("N"): (0,)}


def test_a_pattern_matches_what_the_member_may_describe() -> None:
    rig = guarded()
    rig.join("b", by=BOB, subscribed_topic_regex=".*")
    assert topics_asked(rig) == 1
    assert told(rig.beat("b", by=BOB)) == {rig.id_of("U"): (0, 1)}
    for _ in range(3):
        rig.beat("b", by=BOB)
    assert topics_asked(rig) == 1, "asked when patterns are to be matched, and not otherwise"
    assert isinstance(rig.pair, GuardedPair)
    rig.pair.rights[BOB].discard(("U", DESCRIBE))
    rig.make("N", 1)
    rig.pair.rights[BOB].add(("N", DESCRIBE))
    rig.list_topics()
    rig.beat("b", by=BOB)
    assert topics_asked(rig) == 2
    assert told(rig.beat("b", by=BOB)) == {}
    assert told(rig.beat("b", by=BOB, topic_partitions=())) == {rig.id_of("N"): (0,)}


def test_a_pattern_waits_for_a_broker_that_does_not_say_what_the_member_may_describe() -> None:
    rig = guarded()
    pair = rig.pair
    assert isinstance(pair, GuardedPair)
    rig.join("a", "T", by=ALICE)
    pair.away()
    pair.is_cut = True
    changed = rig.beat("a", by=ALICE, subscribed_topic_names=("T",), subscribed_topic_regex="U")
    assert (changed.error_code, topics_asked(rig)) == (NONE, 0), "served, but not matched"
    pair.is_cut = False
    pair.find()
    rig.beat("a", by=ALICE)
    assert topics_asked(rig) == 1
    assert told(rig.beat("a", by=ALICE)) == {rig.id_of("T"): (0, 1, 2, 3), rig.id_of("U"): (0, 1)}


def test_without_rules_nobody_is_asked_for_a_pattern() -> None:
    rig = Rig(GuardedPair)
    pair = rig.pair
    assert isinstance(pair, GuardedPair)
    pair.has_authorizer = False
    pair.find()
    pair.client(EVE)
    rig.join("e", by=EVE, subscribed_topic_regex="U")
    assert told(rig.beat("e", by=EVE)) == {rig.id_of("U"): (0, 1)}
    assert pair.queries == []


# ------------------------------------------------------------------------------------------------ groups that come over


def test_a_group_goes_on_at_the_offsets_that_it_has_at_the_cluster() -> None:
    rig = Rig(upstream_offsets=UpstreamOffsets.ADOPT)
    rig.pair.ask_broker(OffsetCommit("g", (OffsetCommitTopic("T", (OffsetCommitPartition(1, 42),)),)), 8)
    assert told(rig.join("a", "T")) == {rig.id_of("T"): (0, 1, 2, 3)}
    fetched = rig.pair.ask(1, OffsetFetch((OffsetFetchGroup("g", None, "a", 2),)), 9)
    assert isinstance(fetched, OffsetFetchReply)
    (topic,) = fetched.groups[0].topics
    assert [(one.partition_index, one.committed_offset) for one in topic.partitions] == [(1, 42)]
    notes = rig.pair.ask_inside(ListNotes("g"))
    assert isinstance(notes, ListNotesReply)
    assert "offsets adopted" in [note.cause for note in notes.notes]


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_group_with_members_at_the_cluster_is_refused_with_their_names(protocol: str) -> None:
    rig = Rig(upstream_offsets=UpstreamOffsets.ADOPT)
    pair = rig.pair
    if protocol == "consumer":
        pair.replace_broker("server-driven", group_coordinator_rebalance_protocols=BOTH)
        rig.make("T", 4)
        pair.wait(LISTED_MS)
        there = ConsumerGroupHeartbeat("g", "there", 0, subscribed_topic_names=("T",), topic_partitions=(),
                                       rebalance_timeout_ms=60_000)  # fmt: skip
        pair.ask_broker(there, 1)
    else:
        pair.ask_broker(JoinGroup("g", 60_000, rebalance_timeout_ms=60_000, protocol_type="consumer",
                                  protocols=(JoinProtocol("range", b"x"),)), 3)  # fmt: skip
    refused = rig.join("a", "T")
    assert refused.error_code is ErrorCode.NON_EMPTY_GROUP
    assert "still has members at the cluster's own coordinator" in refused.error_message
    assert "g" not in pair.node.core.directory
