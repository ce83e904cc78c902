"""Each record is in the log once and in order, whatever is lost, cut and moved."""

from hypothesis import example, given, settings
from hypothesis import strategies as st

from membership.events import CallFailed, Replied, SendRequest
from membership.topic_partition import TopicPartition
from muster.errors import Refused, RequestTimedOut
from protocol.errors import ErrorCode
from protocol.messages import Message
from protocol.messages.data import Produce
from tests.client.producing.rig import NODES, P1, ProducerRig
from tests.enumerations import share_of

PARTITIONS = 2


class Net:
    """Connections that break: what was on its way over one may still arrive, late, and is then answered to nobody."""

    def __init__(self, rig: ProducerRig) -> None:
        self.rig = rig
        self.arriving: dict[int, list[SendRequest]] = {}  # by node, in order
        self.answers: list[tuple[SendRequest, Message]] = []
        self.late: list[list[SendRequest]] = []

    def carry(self) -> None:
        for number, call in tuple(self.rig.calls.items()):
            del self.rig.calls[number]
            self.arriving.setdefault(node_of(call), []).append(call)

    def arrive(self, node: int) -> None:
        if self.arriving.get(node):
            call = self.arriving[node].pop(0)
            self.answers.append((call, self.rig.brokers.answer(node, call.message)))

    def hear(self, place: int) -> None:
        if self.answers:
            call, reply = self.answers.pop(place % len(self.answers))
            self.rig.feed(Replied(call.call, reply))

    def cut(self, node: int) -> None:
        waiting = self.arriving.pop(node, [])
        unheard = [call for call, _ in self.answers if node_of(call) == node]
        self.answers = [(call, reply) for call, reply in self.answers if node_of(call) != node]
        self.late.append(list(waiting))
        for call in unheard + waiting:
            self.rig.feed(CallFailed(call.call))

    def arrive_late(self, place: int) -> None:
        if self.late:
            calls = self.late[place % len(self.late)]
            if calls:
                call = calls.pop(0)
                self.rig.brokers.answer(node_of(call), call.message)


def node_of(call: SendRequest) -> int:
    return 0 if call.node is None else call.node.port


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("send"), st.integers(0, PARTITIONS - 1), st.integers(1, 4)),
        st.tuples(st.sampled_from(["arrive", "cut", "late"]), st.integers(0, 2), st.just(0)),
        st.tuples(st.just("hear"), st.integers(0, 5), st.just(0)),
        st.tuples(st.just("move"), st.integers(0, PARTITIONS - 1), st.integers(0, 2)),
        st.tuples(st.just("wait"), st.integers(0, 3), st.just(0)),
        st.tuples(st.just("refuse"), st.integers(0, PARTITIONS - 1), st.integers(0, 4)),
    ),
    max_size=120,
)
WAITS_MS = (5, 100, 1_000, 12_000)
PASSING = (ErrorCode.THROTTLING_QUOTA_EXCEEDED, ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.REQUEST_TIMED_OUT)


class Play:
    """Carries out steps; what was sent to each partition."""

    def __init__(self, rig: ProducerRig, refusals: tuple[ErrorCode, ...]) -> None:
        self.rig = rig
        self.net = Net(rig)
        self.refusals = refusals
        self.sent: dict[int, list[str]] = {number: [] for number in range(PARTITIONS)}
        rig.brokers.logs[P1].most_records = 2

    def send(self, partition: int, count: int) -> None:
        for _ in range(count):
            value = f"{partition}:{len(self.sent[partition])}"
            self.rig.send(value, partition=partition)
            self.sent[partition].append(value)
        self.rig.core.close_batches()
        self.rig.wake()

    def arrive(self, node: int, _: int) -> None:
        self.net.arrive(node)

    def cut(self, node: int, _: int) -> None:
        self.net.cut(node)

    def late(self, place: int, _: int) -> None:
        self.net.arrive_late(place)

    def hear(self, place: int, _: int) -> None:
        self.net.hear(place)

    def move(self, partition: int, node: int) -> None:
        self.rig.brokers.logs[TopicPartition("t", partition)].leader = node

    def refuse(self, partition: int, which: int) -> None:
        log = self.rig.brokers.logs[TopicPartition("t", partition)]
        log.refusals.append(self.refusals[which % len(self.refusals)])

    def wait(self, which: int, _: int) -> None:
        self.rig.wake(WAITS_MS[which])

    def all(self, steps: list[tuple[str, int, int]]) -> dict[int, list[str]]:
        for what, first, second in steps:
            getattr(self, what)(first, second)
            self.net.carry()
        while any(self.net.arriving.values()):
            for node in range(len(NODES)):
                self.net.arrive(node)
        while self.net.answers:
            self.net.hear(0)
        self.rig.settle()
        for calls in self.net.late:
            for call in calls:
                self.rig.brokers.answer(node_of(call), call.message)
        return self.sent


@settings(deadline=None, max_examples=share_of(300))
@given(STEPS)
def test_each_record_is_in_the_log_once_and_in_order(steps: list[tuple[str, int, int]]) -> None:
    rig = ProducerRig(PARTITIONS, linger_ms=0, request_timeout_ms=10**7, delivery_timeout_ms=10**8).ready()
    sent = Play(rig, PASSING).all(steps)
    assert rig.errors == {}
    for partition, values in sent.items():
        assert rig.values(partition) == values
        assert [rig.offsets[value] for value in values] == list(range(len(values)))
    assert rig.core._buffer.bytes == 0
    assert rig.core._buffer._rounds == {}


@settings(deadline=None, max_examples=share_of(300))
@given(STEPS)
def test_what_is_given_up_may_be_missing_and_nothing_else_is_or_comes_twice(steps: list[tuple[str, int, int]]) -> None:
    """Batches live for twenty seconds here, which several waits exceed."""
    rig = ProducerRig(PARTITIONS, linger_ms=0, request_timeout_ms=15_000, delivery_timeout_ms=20_000).ready()
    sent = Play(rig, (*PASSING, ErrorCode.INVALID_RECORD)).all(steps)
    for partition, values in sent.items():
        found = rig.values(partition)
        assert found == [value for value in values if value in set(found)], "once, and in order"
        assert {value for value in values if value not in rig.errors} <= set(found)
        for value in values:
            if value in rig.offsets:
                assert rig.offsets[value] == found.index(value)
            elif isinstance(rig.errors[value], Refused):
                assert value not in found or "may be" in str(rig.errors[value])
            else:
                assert isinstance(rig.errors[value], RequestTimedOut)
    assert rig.core._buffer.bytes == 0


@settings(deadline=None, max_examples=share_of(100))
@given(STEPS)
@example([("send", 0, 1), ("send", 1, 1), *[("arrive", 0, 0), ("hear", 0, 0)] * 3])
def test_no_more_is_under_way_than_brokers_remember(steps: list[tuple[str, int, int]]) -> None:
    rig = ProducerRig(PARTITIONS, linger_ms=0, request_timeout_ms=10**7, delivery_timeout_ms=10**8).ready()
    net = Net(rig)
    for number, (what, first, _) in enumerate(steps):
        if what == "send":
            rig.send(str(number), partition=first)
            rig.core.close_batches()
        elif what == "arrive":
            net.arrive(first)
        elif what == "hear":
            net.hear(first)
        elif what == "cut":
            net.cut(first)
        rig.wake()
        net.carry()
        under_way = [call for calls in net.arriving.values() for call in calls] + [call for call, _ in net.answers]
        for node in range(len(NODES)):
            produces = [call for call in under_way if isinstance(call.message, Produce) and node_of(call) == node]
            assert len(produces) <= 5
    assert rig.now_ms == 0
