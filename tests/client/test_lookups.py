"""Finding out about topics: partitions, begins and ends, offsets by time."""

from collections.abc import Mapping

import pytest

from membership.events import CallFailed, HangUp, NodeAddress, Replied, SendRequest, TimePassed
from membership.topic_partition import TopicPartition
from muster.core.fetching.settings import FetchSettings, Isolation
from muster.core.lookups import BEGIN, END, LookedUp, Lookups, times_in_ms
from muster.errors import CannotConnect, Refused, RequestTimedOut
from protocol.errors import ErrorCode
from protocol.messages import Message
from protocol.messages.node import ErrorReply as WhollyRefused
from protocol.messages.offsets import (
    ListOffsets,
    ListOffsetsPartitionReply,
    ListOffsetsReply,
    ListOffsetsTopicReply,
)
from protocol.messages.topics import (
    Metadata,
    MetadataBroker,
    MetadataPartitionReply,
    MetadataReply,
    MetadataTopicReply,
)

P0, P1, P2 = (TopicPartition("t", number) for number in range(3))
NODES = tuple(NodeAddress("host", port, port) for port in range(2))


def metadata(leaders: Mapping[int, int], code: ErrorCode = ErrorCode.NONE, topic: str = "t") -> MetadataReply:
    return MetadataReply(
        tuple(MetadataBroker(node.node_id, node.host, node.port) for node in NODES),
        topics=(
            MetadataTopicReply(
                topic,
                error_code=code,
                partitions=tuple(MetadataPartitionReply(number, leader) for number, leader in leaders.items()),
            ),
        ),
    )


def offsets(found: Mapping[int, int | ErrorCode]) -> ListOffsetsReply:
    return ListOffsetsReply(
        (
            ListOffsetsTopicReply(
                "t",
                tuple(
                    ListOffsetsPartitionReply(number, offset)
                    if isinstance(offset, ErrorCode)
                    else ListOffsetsPartitionReply(number, offset=offset)
                    for number, offset in found.items()
                ),
            ),
        )
    )


class MemberRig:
    def __init__(self, settings: FetchSettings | None = None) -> None:
        self.core = Lookups(settings or FetchSettings(), lambda: 0.5)
        self.now_ms = 1_000
        self.calls: dict[int, SendRequest] = {}
        self.hung_up: list[NodeAddress | None] = []

    def step(self, event: TimePassed | Replied | CallFailed) -> None:
        for effect in self.core.step(event, self.now_ms):
            if isinstance(effect, SendRequest):
                self.calls[effect.call] = effect
            else:
                assert isinstance(effect, HangUp)
                self.hung_up.append(effect.node)

    def ask(
        self,
        *topics: str,
        times: Mapping[TopicPartition, int] | None = None,
        led: tuple[TopicPartition, ...] = (),
        isolation: Isolation | None = None,
    ) -> int:
        number = self.core.ask(topics, times or {}, led, isolation)
        self.step(TimePassed())
        return number

    def asked(self) -> list[tuple[NodeAddress | None, Message]]:
        return [(call.node, call.message) for call in self.calls.values()]

    def answer(self, reply: Message | None) -> None:
        """The oldest call."""
        number = next(iter(self.calls))
        del self.calls[number]
        self.step(CallFailed(number) if reply is None else Replied(number, reply))

    def wait(self, after_ms: int) -> None:
        self.now_ms += after_ms
        self.step(TimePassed())


def times(call: tuple[NodeAddress | None, Message]) -> dict[int, int]:
    message = call[1]
    assert isinstance(message, ListOffsets)
    return {one.partition_index: one.timestamp for topic in message.topics for one in topic.partitions}


def test_a_topic_has_as_many_partitions_as_it_is_said_to_have() -> None:
    rig = MemberRig()
    number = rig.ask("t")
    assert not rig.core.is_over(number)
    rig.answer(metadata({0: 0, 1: 1, 2: 0}))
    assert rig.core.is_over(number)
    assert rig.core.take(number) == LookedUp({"t": 3}, {}, {})
    assert rig.core.next_deadline_ms is None


def test_each_leader_is_asked_once_for_its_partitions() -> None:
    rig = MemberRig()
    number = rig.ask(times={P0: BEGIN, P1: END, P2: 77})
    rig.answer(metadata({0: 0, 1: 1, 2: 0}))
    asked = rig.asked()
    assert [node for node, _ in asked] == [NODES[0], NODES[1]]
    assert [times(call) for call in asked] == [{0: BEGIN, 2: 77}, {1: END}]
    rig.answer(offsets({0: 5, 2: -1}))
    assert not rig.core.is_over(number)
    rig.answer(offsets({1: 9}))
    assert rig.core.take(number).offsets == {P0: 5, P1: 9, P2: -1}


def test_leaders_are_waited_for_until_each_partition_has_one() -> None:
    rig = MemberRig()
    number = rig.ask(led=(P1, P0))
    rig.answer(metadata({0: 0, 1: 7, 2: 0}))
    assert not rig.core.is_over(number)
    rig.wait(1_000)
    rig.answer(metadata({0: 0, 1: 1, 2: 0}))
    assert rig.core.take(number).leaders == {P1: NODES[1], P0: NODES[0]}


def test_a_partition_that_nobody_leads_is_named_when_time_is_over() -> None:
    rig = MemberRig()
    number = rig.ask(led=(P1,))
    rig.answer(metadata({0: 0, 1: 7}))
    with pytest.raises(RequestTimedOut, match=r"nothing was found out about t in time \(no leader of t-1\)"):
        rig.core.take(number)


def test_a_leader_of_a_partition_that_is_not_there_is_refused() -> None:
    rig = MemberRig()
    number = rig.ask(led=(P2,))
    rig.answer(metadata({0: 0, 1: 1}))
    with pytest.raises(Refused, match="topic 't' has partitions 0 to 1, not 2"):
        rig.core.take(number)


def test_offsets_come_in_the_order_in_which_they_were_asked_for() -> None:
    """Apache Kafka answers for the partitions of a topic in an order of its own."""
    rig = MemberRig()
    number = rig.ask(times={P2: END, P0: END, P1: END})
    rig.answer(metadata({0: 0, 1: 0, 2: 0}))
    rig.answer(offsets({1: 11, 2: 12, 0: 10}))
    assert list(rig.core.take(number).offsets.items()) == [(P2, 12), (P0, 10), (P1, 11)]


def test_who_reads_what_is_committed_asks_for_its_end() -> None:
    rig = MemberRig(FetchSettings(isolation=Isolation.READ_COMMITTED))
    rig.ask(times={P0: END})
    rig.answer(metadata({0: 0}))
    ((_, message),) = rig.asked()
    assert isinstance(message, ListOffsets)
    assert message.isolation_level == 1


def test_a_single_lookup_may_ask_for_the_high_watermark_instead() -> None:
    rig = MemberRig(FetchSettings(isolation=Isolation.READ_COMMITTED))
    rig.ask(times={P0: END}, isolation=Isolation.READ_UNCOMMITTED)
    rig.answer(metadata({0: 0}))
    ((_, message),) = rig.asked()
    assert isinstance(message, ListOffsets)
    assert message.isolation_level == 0


@pytest.mark.parametrize("code", [ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.OFFSET_NOT_AVAILABLE])
def test_a_leader_that_cannot_say_is_looked_for_again_after_a_pause_and_the_others_are_not_asked_twice(
    code: ErrorCode,
) -> None:
    rig = MemberRig()
    number = rig.ask(times={P0: END, P1: END})
    rig.answer(metadata({0: 0, 1: 0}))
    rig.answer(offsets({0: 5, 1: code}))
    assert (rig.asked(), rig.core.next_deadline_ms) == ([], rig.now_ms + 100)
    rig.wait(100)
    assert isinstance(rig.asked()[0][1], Metadata)
    rig.answer(metadata({0: 0, 1: 1}))
    assert [(node, times((node, message))) for node, message in rig.asked()] == [(NODES[1], {1: END})]
    rig.answer(offsets({1: 9}))
    assert rig.core.take(number).offsets == {P0: 5, P1: 9}


@pytest.mark.parametrize(
    ("reply", "sentence"),
    [
        (metadata({}, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION), "there is no topic 't'"),
        (metadata({}, ErrorCode.TOPIC_AUTHORIZATION_FAILED), "topic 't': TOPIC_AUTHORIZATION_FAILED"),
        (metadata({}, ErrorCode(9_999)), "topic 't': UNKNOWN_ERROR_9999"),
        (metadata({0: 0, 1: 1}), "topic 't' has partitions 0 to 1, not 2"),
        (WhollyRefused(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "not you"), "not you"),
    ],
)
def test_what_no_patience_helps_with_is_refused(reply: Message, sentence: str) -> None:
    rig = MemberRig()
    number = rig.ask(times={P2: END})
    rig.answer(reply)
    assert rig.core.is_over(number)
    with pytest.raises(Refused, match=sentence):
        rig.core.take(number)


def test_an_error_without_a_name_is_said_by_its_number() -> None:
    rig = MemberRig()
    number = rig.ask(times={P0: END})
    rig.answer(metadata({0: 0}))
    rig.answer(offsets({0: ErrorCode(9_999)}))
    with pytest.raises(Refused, match="the offsets of t-0: UNKNOWN_ERROR_9999"):
        rig.core.take(number)


def test_a_node_that_is_lost_or_silent_is_hung_up_on_and_another_asked() -> None:
    rig = MemberRig(FetchSettings(request_timeout_ms=3_000))
    number = rig.ask("t")
    rig.answer(None)
    assert rig.hung_up == [None]
    rig.wait(100)
    rig.wait(3_000)
    assert rig.hung_up[1:] == [None, None]
    rig.calls.clear()
    rig.wait(200)
    rig.answer(metadata({0: 0}))
    assert rig.core.take(number).counts == {"t": 1}


def test_what_is_taken_too_soon_says_what_was_heard_and_is_forgotten() -> None:
    rig = MemberRig()
    number = rig.ask(times={P0: END})
    rig.answer(metadata({}, ErrorCode.LEADER_NOT_AVAILABLE))
    with pytest.raises(RequestTimedOut, match=r"nothing was found out about t in time \(t: LEADER_NOT_AVAILABLE\)"):
        rig.core.take(number)
    again = rig.ask("t")
    with pytest.raises(CannotConnect, match="nobody is there"):
        rig.core.take(again, "nobody is there")
    assert rig.core.next_deadline_ms is None
    rig.answer(metadata({0: 0}))  # too late for anybody


def test_a_time_before_all_time_is_a_mistake() -> None:
    assert times_in_ms({P0: 0}) == {P0: 0}
    with pytest.raises(ValueError, match="the time for t-1, in milliseconds since 1970, is -2, it must be 0 or more"):
        times_in_ms({P0: 5, P1: -2})
    with pytest.raises(ValueError, match=r"milliseconds since 1970, is 1\.5, it must be a whole number"):
        times_in_ms({P0: 1.5})  # type: ignore[dict-item]
