"""Replies that differ in single versions of Kafka's wire."""

from typing import Any

import pytest

from coordinator.handlers.table import HANDLERS
from protocol.apis import BY_MESSAGE, WIRE_APIS, WireApi
from protocol.errors import ErrorCode
from protocol.kafka.client import KafkaClient
from protocol.kafka.quirks import ADAPT
from protocol.kafka.reading import reader
from protocol.kafka.session import KafkaDialect
from protocol.kafka.writing import writer
from protocol.messages import Message
from protocol.messages.consumer_groups import ConsumerGroupHeartbeat
from protocol.messages.data import (
    Fetch,
    FetchPartition,
    FetchTopic,
    OffsetForLeaderEpoch,
    Produce,
    ProduceReply,
)
from protocol.messages.groups import (
    DescribeGroups,
    JoinGroup,
    JoinGroupReply,
    LeaveGroup,
    LeaveGroupReply,
    LeavingMember,
    LeftMember,
    SyncGroup,
)
from protocol.messages.node import ApiVersions, ErrorReply, FindCoordinator, FindCoordinatorReply, FoundCoordinator
from protocol.messages.offsets import (
    ListOffsets,
    OffsetCommit,
    OffsetCommitPartitionReply,
    OffsetCommitTopicReply,
    OffsetFetch,
    OffsetFetchGroup,
    OffsetFetchGroupReply,
    OffsetFetchPartitionReply,
    OffsetFetchReply,
    OffsetFetchTopic,
    OffsetFetchTopicReply,
    TxnOffsetCommit,
    TxnOffsetCommitReply,
)
from protocol.messages.topics import CreatableTopic, CreateTopics, DeletableTopic, DeleteTopics, Metadata, MetadataTopic
from protocol.messages.transactions import AddOffsetsToTxn, AddOffsetsToTxnReply
from protocol.native.methods import METHODS
from protocol.refusals import REFUSE
from tests.protocol.kafka.samples import CASES, Filled, sample

FRAME_BYTES = 1 << 20
SPOKEN = [api for api in WIRE_APIS.values() if api.message in REFUSE and api.advertised]


def told(message: Message, version: int, reply: Message) -> Any:
    """Return the reply that a client gets in this version if the core gives this one."""
    client = KafkaClient("c", FRAME_BYTES)
    session = KafkaDialect(FRAME_BYTES, {type(message)}).open()
    number, data = client.encode_request(message, version)
    session.receive_data(data)
    assert session.next_request() is not None
    (answer,) = client.receive_data(session.encode_reply(number, reply))
    return answer.reply


def heard(message: Message, version: int) -> Any:
    """Return the message that the core gets."""
    api = BY_MESSAGE[type(message)]
    return reader(api.request, version)(writer(api.request, version)(message), 0)


def read(name: type[Message], version: int, data: bytes) -> Any:
    return reader(BY_MESSAGE[name].request, version)(data, 0)


# ---------------------------------------------------------------------------------------------------- requests refused


def codes_in(value: Any) -> list[ErrorCode]:
    """All error codes of a reply, whatever holds them."""
    if isinstance(value, tuple):
        return [code for one in value for code in codes_in(one)]
    if not isinstance(value, Message):
        return []
    own = [getattr(value, "error_code", None)]
    rest = [code for name in value.__struct_fields__ for code in codes_in(getattr(value, name))]
    return [code for code in own if code is not None] + rest


def test_every_request_that_is_served_can_be_refused() -> None:
    served = {message for message in HANDLERS if message in BY_MESSAGE}
    assert served <= REFUSE.keys()
    assert {type(refuse) for refuse in REFUSE} == {type(Message)}
    assert REFUSE.keys() <= BY_MESSAGE.keys() | {method.request for method in METHODS.values()}


@pytest.mark.parametrize("api", SPOKEN, ids=lambda api: api.request.name)
def test_a_refused_request_is_told_so_in_its_own_reply_in_every_version(api: WireApi) -> None:
    for case in (case for case in CASES if case.api is api and case.is_request):
        request = sample(case, Filled(entries=2))
        if isinstance(request, Produce) and case.version < 3:
            continue  # nobody but the session sees those
        reply = told(request, case.version, ErrorReply(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "no"))
        assert type(reply) is api.reply.group.message
        assert ErrorCode.CLUSTER_AUTHORIZATION_FAILED in codes_in(reply), case


@pytest.mark.parametrize("api", SPOKEN, ids=lambda api: api.request.name)
def test_an_empty_request_can_be_refused_as_well(api: WireApi) -> None:
    for case in (case for case in CASES if case.api is api and case.is_request):
        if api.message is Produce and case.version < 3:
            continue
        for choices in (Filled(entries=0), Filled(entries=0, nulls=True)):
            reply = told(sample(case, choices), case.version, ErrorReply(ErrorCode.NOT_CONTROLLER))
            assert type(reply) is api.reply.group.message


# --------------------------------------------------------------------------------------------------------------- groups


@pytest.mark.parametrize("version", [0, 1, 2])
def test_the_only_member_s_error_is_the_error_of_an_old_leave(version: int) -> None:
    leave = LeaveGroup("g", (LeavingMember("m"),))
    reply = LeaveGroupReply(members=(LeftMember("m", None, ErrorCode.UNKNOWN_MEMBER_ID),))
    assert told(leave, version, reply).error_code is ErrorCode.UNKNOWN_MEMBER_ID
    assert told(leave, version, LeaveGroupReply(ErrorCode.NOT_COORDINATOR)).error_code is ErrorCode.NOT_COORDINATOR
    assert told(leave, version, LeaveGroupReply()).error_code is ErrorCode.NONE


@pytest.mark.parametrize("version", [3, 4, 5])
def test_members_have_errors_of_their_own_in_a_newer_leave(version: int) -> None:
    leave = LeaveGroup("g", (LeavingMember("m"),))
    reply = LeaveGroupReply(members=(LeftMember("m", None, ErrorCode.UNKNOWN_MEMBER_ID),))
    assert told(leave, version, reply) == reply


def test_an_old_leave_is_a_list_of_one_member() -> None:
    assert read(LeaveGroup, 0, b"\x00\x01g\x00\x01m") == LeaveGroup("g", (LeavingMember("m"),))


def test_the_oldest_join_has_its_session_s_timeout_for_rebalances() -> None:
    body = b"\x00\x01g" + b"\x00\x00\x17\x70" + b"\x00\x00" + b"\x00\x08consumer" + b"\0\0\0\0"
    assert read(JoinGroup, 0, body).rebalance_timeout_ms == 6_000


@pytest.mark.parametrize("version", range(1, 10))
@pytest.mark.parametrize(("given", "counts"), [(-1, 0), (-(2**31), 0), (0, 0), (1, 1), (2**31 - 1, 2**31 - 1)])
def test_a_negative_rebalance_timeout_counts_as_none_at_all(version: int, given: int, counts: int) -> None:
    assert heard(JoinGroup("g", 6_000, rebalance_timeout_ms=given), version).rebalance_timeout_ms == counts


def test_what_a_join_s_version_means() -> None:
    joins = [heard(JoinGroup("g", 6_000), version) for version in range(10)]
    assert [join.wants_member_id_first for join in joins] == [False] * 4 + [True] * 6
    assert [join.accepts_skip_assignment for join in joins] == [False] * 9 + [True]


@pytest.mark.parametrize("version", range(10))
def test_the_protocol_of_a_join_that_failed_is_empty_and_later_null(version: int) -> None:
    join = JoinGroup("g", 6_000)
    reply = told(join, version, JoinGroupReply(ErrorCode.UNKNOWN_MEMBER_ID, protocol_name=None))
    assert reply.protocol_name == (None if version >= 7 else "")


def test_only_the_newest_sync_must_name_its_protocol() -> None:
    sync = SyncGroup("g", 1, "m", protocol_type="consumer", protocol_name="range")
    heard_in = [heard(sync, version) for version in range(6)]
    assert [one.must_name_protocol for one in heard_in] == [False] * 5 + [True]
    assert [one.protocol_name for one in heard_in] == [None] * 5 + ["range"]


def test_only_the_newest_describe_calls_an_absent_group_an_error() -> None:
    assert [heard(DescribeGroups(("g",)), version).absent_is_error for version in range(7)] == [False] * 6 + [True]


# -------------------------------------------------------------------------------------------------------------- offsets

FETCHED = OffsetFetch((OffsetFetchGroup("g", (OffsetFetchTopic("t", (1, 2)), OffsetFetchTopic("u", (0,)))),))
GROUP_ERROR = OffsetFetchReply((OffsetFetchGroupReply("g", (), ErrorCode.GROUP_AUTHORIZATION_FAILED),))


def test_the_oldest_offset_fetch_has_its_group_s_error_on_each_partition() -> None:
    (group,) = told(FETCHED, 1, GROUP_ERROR).groups
    said = [(topic.name, [(one.partition_index, one.error_code) for one in topic.partitions]) for topic in group.topics]
    denied = ErrorCode.GROUP_AUTHORIZATION_FAILED
    assert said == [("t", [(1, denied), (2, denied)]), ("u", [(0, denied)])]
    assert all(one.committed_offset == -1 and one.metadata == "" for one in group.topics[0].partitions)


@pytest.mark.parametrize("version", range(2, 11))
def test_a_newer_offset_fetch_has_its_group_s_error_in_its_place(version: int) -> None:
    (group,) = told(FETCHED, version, GROUP_ERROR).groups
    assert group.error_code is ErrorCode.GROUP_AUTHORIZATION_FAILED
    assert group.topics == ()


def test_the_oldest_offset_fetch_that_went_well_is_left_as_it_is() -> None:
    part = OffsetFetchPartitionReply(1, 7, metadata="m")
    reply = OffsetFetchReply((OffsetFetchGroupReply("g", (OffsetFetchTopicReply("t", (part,)),)),))
    assert told(FETCHED, 1, reply).groups[0].topics == reply.groups[0].topics


@pytest.mark.parametrize("version", range(2, 11))
def test_null_asks_for_the_offsets_of_all_topics_and_an_empty_list_for_none(version: int) -> None:
    for topics in (None, ()):
        (group,) = heard(OffsetFetch((OffsetFetchGroup("g", topics),)), version).groups
        assert group.topics == topics


def test_only_the_newest_offset_fetch_wants_topic_ids() -> None:
    wants = [heard(FETCHED, version).groups[0].wants_topic_ids for version in range(1, 11)]
    assert wants == [False] * 9 + [True]


def test_an_absent_group_is_an_illegal_generation_to_older_commits() -> None:
    codes = [heard(OffsetCommit("g", ()), version).absent_group_error for version in range(1, 11)]
    assert codes == [ErrorCode.ILLEGAL_GENERATION] * 8 + [ErrorCode.GROUP_ID_NOT_FOUND] * 2


def test_older_commits_know_no_member_epochs() -> None:
    known = [heard(OffsetCommit("g", ()), version).knows_member_epochs for version in range(1, 11)]
    assert known == [False] * 8 + [True] * 2


def test_only_the_oldest_consumer_heartbeat_may_lack_a_member_id() -> None:
    lacking = [heard(ConsumerGroupHeartbeat("g"), version).may_lack_member_id for version in (0, 1)]
    assert lacking == [True, False]


@pytest.mark.parametrize(("given", "counts"), [(-(2**63), -1), (-1, -1), (0, 0), (2**63 - 1, 2**62 - 1)])
def test_times_of_an_old_commit_stay_where_two_of_them_can_be_added(given: int, counts: int) -> None:
    time = given.to_bytes(8, "big", signed=True)
    body = b"\x00\x01g" + bytes(4) + b"\x00\x01m" + time + bytes(4)
    assert read(OffsetCommit, 2, body).retention_time_ms == counts
    part = bytes(4) + bytes(8) + time + b"\xff\xff"
    body = b"\x00\x01g" + bytes(4) + b"\x00\x01m" + b"\0\0\0\1\0\1t" + b"\0\0\0\1" + part
    assert read(OffsetCommit, 1, body).topics[0].partitions[0].commit_timestamp_ms == counts


# ---------------------------------------------------------------------------------------------------------- coordinator


def found(code: ErrorCode, text: str | None) -> FindCoordinatorReply:
    return FindCoordinatorReply((FoundCoordinator("g", 1, "host", 9, code, text),))


@pytest.mark.parametrize("version", [1, 2, 3])
def test_one_coordinator_comes_with_the_name_of_its_error_where_nothing_else_is_said(version: int) -> None:
    find = FindCoordinator(("g",))
    assert told(find, version, found(ErrorCode.NONE, None)).coordinators[0].error_message == "NONE"
    nowhere = told(find, version, found(ErrorCode.COORDINATOR_NOT_AVAILABLE, None)).coordinators[0]
    assert nowhere.error_message == "COORDINATOR_NOT_AVAILABLE"
    assert told(find, version, found(ErrorCode.INVALID_REQUEST, "why")).coordinators[0].error_message == "why"


@pytest.mark.parametrize("version", [4, 5, 6])
def test_many_coordinators_come_with_empty_messages_where_nothing_is_said(version: int) -> None:
    find = FindCoordinator(("g",))
    assert told(find, version, found(ErrorCode.NONE, None)).coordinators[0].error_message == ""
    assert told(find, version, found(ErrorCode.INVALID_REQUEST, "why")).coordinators[0].error_message == "why"


def test_one_key_is_a_list_of_one() -> None:
    assert read(FindCoordinator, 0, b"\x00\x01g") == FindCoordinator(("g",), 0)
    assert read(FindCoordinator, 3, b"\x02g\x01\x00") == FindCoordinator(("g",), 1)


# -------------------------------------------------------------------------------------------------------------- topics


def test_the_oldest_metadata_asks_for_all_topics_with_an_empty_list() -> None:
    assert read(Metadata, 0, b"\0\0\0\0").topics is None
    assert read(Metadata, 0, b"\0\0\0\1\0\1t").topics == (MetadataTopic("t"),)


@pytest.mark.parametrize("version", range(1, 14))
def test_newer_metadata_asks_for_all_topics_with_null_and_for_none_with_an_empty_list(version: int) -> None:
    for topics in (None, ()):
        assert heard(Metadata(topics), version).topics == topics


def test_metadata_that_cannot_say_so_may_make_topics() -> None:
    asked = Metadata((MetadataTopic("t"),), allow_auto_topic_creation=False)
    assert [heard(asked, version).allow_auto_topic_creation for version in range(14)] == [True] * 4 + [False] * 10


def test_topics_are_named_by_id_where_they_have_no_name() -> None:
    topic_id = bytes(range(16))
    assert heard(Metadata((MetadataTopic(None, topic_id),)), 12).topics == (MetadataTopic(None, topic_id),)
    assert heard(DeleteTopics((DeletableTopic(None, topic_id),)), 6).topics == (DeletableTopic(None, topic_id),)
    assert heard(DeleteTopics((DeletableTopic("t"),)), 5).topics == (DeletableTopic("t"),)


def test_an_empty_name_beside_a_topic_s_id_is_none() -> None:
    """Java's client asks so for what a pattern matched."""
    assert MetadataTopic("", b"\1" * 16) == MetadataTopic(None, b"\1" * 16)
    assert MetadataTopic("").name == ""


def test_a_topic_s_numbers_may_be_left_to_the_node() -> None:
    (topic,) = heard(CreateTopics((CreatableTopic("t"),)), 4).topics
    assert (topic.num_partitions, topic.replication_factor) == (-1, -1)


# -------------------------------------------------------------------------------------------------------------- records


def test_records_that_are_null_are_no_records() -> None:
    body = b"\xff\xff" + b"\xff\xff" + bytes(4) + b"\0\0\0\1\0\1t" + b"\0\0\0\1" + bytes(4) + b"\xff\xff\xff\xff"
    assert read(Produce, 3, body).topic_data[0].partition_data[0].records == b""


@pytest.mark.parametrize("version", range(4, 19))
def test_a_refused_fetch_says_so_of_each_partition_that_has_a_topic_s_name(version: int) -> None:
    fetch = Fetch((FetchTopic("t", (FetchPartition(1, 0), FetchPartition(2, 0))),))
    reply = told(fetch, version, ErrorReply(ErrorCode.NOT_LEADER_OR_FOLLOWER))
    assert reply.error_code is (ErrorCode.NOT_LEADER_OR_FOLLOWER if version >= 7 else ErrorCode.NONE)
    said = [
        (topic.topic, part.partition_index, part.error_code) for topic in reply.responses for part in topic.partitions
    ]
    refused = [("t", index, ErrorCode.NOT_LEADER_OR_FOLLOWER) for index in (1, 2)]
    assert said == ([] if version >= 13 else refused)


def test_what_only_followers_say_is_read_over() -> None:
    assert heard(Fetch((), max_wait_ms=7), 4) == Fetch((), 7)
    assert heard(ListOffsets(()), 11) == ListOffsets(())
    assert heard(OffsetForLeaderEpoch(()), 4) == OffsetForLeaderEpoch(())


def test_no_reply_of_ours_carries_a_tagged_field_that_says_nothing() -> None:
    asked = ApiVersions("c", "1")
    session = KafkaDialect(FRAME_BYTES, set()).open()
    client = KafkaClient("c", FRAME_BYTES)
    session.receive_data(client.encode_request(asked, 4)[1])
    assert session.next_request() is None
    assert session.take_data().endswith(b"\0\0\0\0" + b"\0")  # throttle time, no tagged fields
    assert told(Produce(()), 10, ProduceReply()) == ProduceReply()


@pytest.mark.parametrize(
    ("version", "error", "instead"),
    [
        (1, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (2, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS),
        (3, ErrorCode.TRANSACTION_ABORTABLE, ErrorCode.INVALID_TXN_STATE),
        (4, ErrorCode.TRANSACTION_ABORTABLE, ErrorCode.TRANSACTION_ABORTABLE),
        (0, ErrorCode.ILLEGAL_GENERATION, ErrorCode.ILLEGAL_GENERATION),
    ],
)
def test_a_transactional_commit_is_told_only_errors_its_version_knows(
    version: int, error: ErrorCode, instead: ErrorCode
) -> None:
    def reply(code: ErrorCode) -> TxnOffsetCommitReply:
        return TxnOffsetCommitReply((OffsetCommitTopicReply("t", (OffsetCommitPartitionReply(0, code),)),))

    asked = TxnOffsetCommit("tx", "g", 1, 0, ())
    assert ADAPT[TxnOffsetCommit](version, asked, reply(error)) == reply(instead)


@pytest.mark.parametrize(
    ("version", "error", "instead"),
    [
        (1, ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH),
        (2, ErrorCode.PRODUCER_FENCED, ErrorCode.PRODUCER_FENCED),
        (3, ErrorCode.TRANSACTION_ABORTABLE, ErrorCode.INVALID_TXN_STATE),
        (4, ErrorCode.TRANSACTION_ABORTABLE, ErrorCode.TRANSACTION_ABORTABLE),
        (0, ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.CONCURRENT_TRANSACTIONS),
    ],
)
def test_who_adds_offsets_to_a_transaction_is_told_an_error_that_it_knows(
    version: int, error: ErrorCode, instead: ErrorCode
) -> None:
    asked = AddOffsetsToTxn("x", 1, 0, "g")
    assert ADAPT[AddOffsetsToTxn](version, asked, AddOffsetsToTxnReply(error, 3)) == AddOffsetsToTxnReply(instead, 3)
