"""One member that is reset at random moments, where the thread of its application and that of its heartbeats race:
docs/spec/consumer-client.md#A4 step 6, #A5, #A6."""

import logging
import threading
import time
from collections import Counter, defaultdict
from contextlib import closing
from pathlib import Path
from random import Random

import pytest

from membership.events import HangUp
from muster import Consumer, ConsumerRecord, Producer, TopicPartition, WokenUp
from muster.blocking.cluster import ClusterClient
from protocol.errors import ErrorCode
from protocol.messages.groups import LeaveGroup, LeaveGroupReply, LeavingMember
from protocol.messages.topics import CreatableTopic, CreateTopics
from tests.edges.musterd import running, within

PARTITIONS = 4
AT_MOST_S = 90.0


class Resets:
    """Does to a consumer, from a thread of its own, what ends a generation, a membership or a connection."""

    def __init__(self, consumer: Consumer, cluster: ClusterClient, reads: "Reads", chance: Random) -> None:
        self._consumer, self._cluster, self._reads, self._chance = consumer, cluster, reads, chance
        self.done = Counter[str]()
        self.errors: list[BaseException] = []
        self._thread = threading.Thread(target=self._run)

    def start(self) -> None:
        self._thread.start()

    @property
    def is_going_on(self) -> bool:
        return self._thread.is_alive()

    @property
    def is_enough(self) -> bool:
        """True once everything has happened often, however slow the machine is."""
        are_done = self.done["expel"] >= 7 and self.done["break"] >= 4 and self.done["wake"] >= 2
        return are_done and self._reads.told.count("lost") >= 4 and self._reads.woken >= 1

    def _run(self) -> None:
        try:
            end = time.monotonic() + AT_MOST_S
            while not self.is_enough and time.monotonic() < end:
                time.sleep(self._chance.choice((0.0, 0.01, 0.05, 0.2)))
                what = self._chance.choice((self._expel, self._expel, self._break, self._wake))
                self.done[what.__name__.strip("_")] += what()
        except BaseException as error:  # noqa: BLE001  (raised in the test's own thread)
            self.errors.append(error)

    def _expel(self) -> bool:
        """An administrator removes the member: what it sends next is answered UNKNOWN_MEMBER_ID."""
        reply = self._cluster.ask(LeaveGroup("g", (LeavingMember(self._consumer.member.member_id),)))
        assert isinstance(reply, LeaveGroupReply)
        return [one.error_code for one in reply.members] == [ErrorCode.NONE]

    def _break(self) -> bool:
        """The connection to the coordinator is lost, whatever is under way on it."""
        group = self._consumer._membership
        assert group is not None
        driver = self._consumer.driver
        with driver.changed.lock:
            node = group.membership.coordinator
            if node is not None:
                driver.carry_out(group._driven, lambda _now_ms: [HangUp(node)])
        return node is not None

    def _wake(self) -> bool:
        self._consumer.wakeup()
        return True


class Reads:
    """An application that polls: each record must follow the one before, or come again after a loss."""

    def __init__(self) -> None:
        self.next: dict[int, int] = {}
        self.got: dict[int, set[int]] = defaultdict(set)
        self.told: list[str] = []
        self.woken = 0

    def assigned(self, _partitions: tuple[TopicPartition, ...]) -> None:
        self.told.append("assigned")
        self.next.clear()

    def revoked(self, _partitions: tuple[TopicPartition, ...]) -> None:
        self.told.append("revoked")

    def lost(self, _partitions: tuple[TopicPartition, ...]) -> None:
        self.told.append("lost")

    def poll(self, consumer: Consumer) -> int:
        """Poll once; how many different records there were by now."""
        records: list[ConsumerRecord] = []
        try:
            records = consumer.poll(0.05)
        except WokenUp:
            self.woken += 1
        for record in records:
            expected = self.next.get(record.partition, record.offset)
            assert record.offset == expected, f"{record.partition} goes on at {record.offset}, {expected} was next"
            begins_late = record.offset and record.offset - 1 not in self.got[record.partition]
            assert not begins_late, f"{record.partition} begins at {record.offset}: something was skipped"
            self.next[record.partition] = record.offset + 1
            self.got[record.partition].add(record.offset)
        return sum(map(len, self.got.values()))


@pytest.mark.parametrize("assignor", ["range", "cooperative-sticky"])
def test_a_member_that_is_reset_at_random_moments_reads_everything_in_order(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, assignor: str
) -> None:
    caplog.set_level(logging.ERROR)
    before = set(threading.enumerate())
    settings = ("group.initial.rebalance.delay.ms=0", "group.min.session.timeout.ms=500")
    with running(tmp_path / "data", *settings) as daemon, closing(ClusterClient(daemon.bootstrap)) as cluster:
        cluster.ask(CreateTopics((CreatableTopic("t", PARTITIONS),)))
        reads, sent = Reads(), 0
        with (
            Producer(daemon.bootstrap) as producer,
            Consumer(
                daemon.bootstrap,
                "g",
                auto_offset_reset="earliest",
                assignors=(assignor,),
                auto_commit_interval_ms=50,
                session_timeout_ms=2_000,
                heartbeat_interval_ms=20,
            ) as consumer,
        ):
            consumer.subscribe(["t"], on_assigned=reads.assigned, on_revoked=reads.revoked, on_lost=reads.lost)
            resets = Resets(consumer, cluster, reads, Random(15))
            resets.start()
            while resets.is_going_on:
                producer.send("t", b"%d" % sent, partition=sent % PARTITIONS)
                sent += 1
                reads.poll(consumer)
            assert resets.errors == []
            assert resets.is_enough, (resets.done, reads.told)
            assert within(10, lambda: reads.poll(consumer) == sent and consumer.member.is_steady)
            assert len(consumer.assignment) == PARTITIONS
            taken, given = reads.told.count("lost") + reads.told.count("revoked"), reads.told.count("assigned")
            if assignor == "range":
                assert reads.told[0::2] == ["assigned"] * given
                assert taken == given - 1, "each time it was told once what it lost, then what it has"
    assert caplog.records == []
    assert set(threading.enumerate()) - before == set()
