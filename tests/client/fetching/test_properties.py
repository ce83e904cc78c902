"""Nothing is handed out twice, nothing is skipped: whatever the network, the leaders and the application do."""

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from membership.topic_partition import TopicPartition
from muster.core.fetching.settings import Isolation
from protocol.errors import ErrorCode
from protocol.messages import Message
from protocol.messages.data import AbortedTransaction
from tests.client.fetching.world import World, address
from tests.enumerations import share_of

PARTITIONS = tuple(TopicPartition("t", number) for number in range(3))

number = st.integers(0, 2)
act = st.one_of(
    st.tuples(st.just("poll"), st.integers(1, 7), st.integers(0, 60)),
    st.tuples(st.just("append"), number, st.integers(1, 9)),
    st.tuples(st.just("move"), number, number),
    st.tuples(st.just("seek"), number, st.integers(0, 30)),
    st.tuples(st.just("pause"), number, st.booleans()),
    st.tuples(st.just("slow"), number, st.integers(0, 90)),
    st.tuples(st.just("lose"), st.integers(1, 3), st.just(0)),
    st.tuples(st.just("restart"), number, st.just(0)),
    st.tuples(st.just("away"), number, st.integers(0, 40)),
    st.tuples(st.just("control"), number, st.just(0)),
    st.tuples(st.just("compacted"), number, st.integers(1, 4)),
    st.tuples(st.just("error"), number, st.sampled_from([ErrorCode.NONE, ErrorCode.KAFKA_STORAGE_ERROR])),
    st.tuples(st.just("rest"), st.integers(1, 200), st.just(0)),
)


class Story:
    """A world, what was handed out, and what ought to have been."""

    def __init__(self, *, sessions: bool, slots: int) -> None:
        self.world = World(0, 0, 1, sessions=sessions, max_wait_ms=50, retry_backoff_max_ms=200)
        for node in self.world.nodes:
            node.slots = slots
        self.expected = dict.fromkeys(PARTITIONS, 0)
        self.left_to_lose = 0
        self.world.loses = self._loses

    def _loses(self, _message: Message) -> bool:
        self.left_to_lose -= 1
        return self.left_to_lose >= 0

    def do(self, what: str, a: int, b: int) -> None:  # noqa: C901  (a list of what may happen)
        world, log = self.world, self.world.logs[PARTITIONS[a % 3]]
        match what:
            case "poll":
                self.poll(b, a)
            case "append":
                world.append(PARTITIONS[a], b)
            case "move":
                log.leader, log.epoch = b, log.epoch + 1
            case "seek":
                self.seek(PARTITIONS[a], min(b, log.end))
            case "pause":
                (world.subscription.pause if b else world.subscription.resume)([PARTITIONS[a]])
            case "slow":
                world.slow[address(a)] = b
            case "lose":
                self.left_to_lose = a
            case "restart":
                world.nodes[a].restart()
            case "away":
                world.fetcher.assign([one for one in PARTITIONS if one != PARTITIONS[a]])
                world.rest(b)
                world.fetcher.assign(PARTITIONS)
                self.seek(PARTITIONS[a], self.expected[PARTITIONS[a]])
            case "control":
                log.control()
            case "compacted":
                log.compacted_away(b)
            case "error":
                log.error = ErrorCode(b)
            case _:
                world.rest(a)

    def seek(self, one: TopicPartition, offset: int) -> None:
        self.world.subscription.seek(one, offset)
        self.expected[one] = offset

    def poll(self, timeout_ms: int, most: int) -> int:
        paused = self.world.subscription.paused
        records = self.world.poll(timeout_ms, most)
        assert len(records) <= most
        for record in records:
            one = TopicPartition(record.topic, record.partition)
            assert one not in paused
            assert record.offset == self.next_record(one), f"{one} after {self.expected[one]}"
            assert record.value == b"%d" % record.offset
            self.expected[one] = record.offset + 1
        for one, position in self.world.subscription.positions().items():
            assert self.expected[one] <= position <= self.world.logs[one].end
            after = self.next_record(one)
            assert after is None or position <= after
        return len(records)

    def next_record(self, one: TopicPartition) -> int | None:
        """The first one at the position or after that is a record for the application."""
        return next((offset for offset in self.world.records(one) if offset >= self.expected[one]), None)

    def calm_down(self) -> None:
        """Everything is mended: whatever is left must come."""
        world = self.world
        self.left_to_lose = 0
        world.slow.clear()
        world.subscription.resume(PARTITIONS)
        for log in world.logs.values():
            log.error = ErrorCode.NONE
        world.rest(2_000)
        for _ in range(60):
            self.poll(200, 50)
        assert [self.next_record(one) for one in PARTITIONS] == [None, None, None]


@settings(deadline=None, max_examples=share_of(120), suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(act, max_size=40), st.booleans(), st.sampled_from([0, 1, 10]))
def test_every_record_comes_once_and_in_order(acts: list[tuple[str, int, int]], sessions: bool, slots: int) -> None:
    story = Story(sessions=sessions, slots=slots)
    for what, a, b in acts:
        story.do(what, a, int(b))
    story.calm_down()


step = st.tuples(st.integers(1, 3), st.sampled_from(["data", "commit", "abort", "plain"]))


@settings(deadline=None, max_examples=share_of(80))
@given(st.lists(step, max_size=25), st.integers(1, 9))
def test_of_any_transactions_exactly_the_committed_records_are_handed_out(
    steps: list[tuple[int, str]], most: int
) -> None:
    world = World(0, isolation=Isolation.READ_COMMITTED, max_wait_ms=20)
    log = world.logs[PARTITIONS[0]]
    open_: dict[int, list[int]] = {}
    wanted: list[int] = []
    for producer, what in [*steps, (1, "commit"), (2, "abort"), (3, "commit")]:
        if what == "plain":
            wanted += range(log.end, log.end + 2)
            log.append(2)
        elif what == "data":
            open_.setdefault(producer, []).extend(range(log.end, log.end + 2))
            log.append(2, producer_id=producer, producer_epoch=0, base_sequence=0, transactional=True)
        else:
            offsets = open_.pop(producer, [])
            if what == "commit":
                wanted += offsets
            elif offsets:
                log.aborted.append(AbortedTransaction(producer, offsets[0]))
            log.control(producer_id=producer, commits=what == "commit")
    seen: list[int] = []
    for _ in range(60):
        seen += world.offsets(30, most)
    assert seen == sorted(wanted)
