"""Consumers that come, go, commit, stumble over a network that is cut, and share a topic under load: whatever happens,
every record is handed out once, in its partition's order, because nobody is expelled and everybody commits.
"""

from collections.abc import Callable
from random import Random

import pytest

from muster import CannotConnect, CommitRefused, Consumer
from muster.topic_partition import TopicPartition
from protocol.messages.offsets import OffsetCommit
from tests.client.theatre import P, Theatre

STEPS = 250


class Play:
    """One run of chance."""

    def __init__(self, theatre: Theatre, seed: int, assignor: str) -> None:
        self.theatre, self.chance, self.assignor = theatre, Random(seed), assignor
        self.consumers: list[Consumer] = []
        self.handed_out: dict[TopicPartition, list[int]] = {one: [] for one in P[:6]}
        self.appended = dict.fromkeys(P[:6], 0)
        self.made = 0

    def step(self) -> None:
        what = self.chance.choices(
            ("poll", "append", "join", "leave", "cut", "rebalance", "commit", "slow", "rest"),
            (60, 20, 3, 2, 2, 1, 4, 2, 6),
        )[0]
        getattr(self, what)()

    def poll(self) -> None:
        if self.consumers:
            self.take(self.chance.choice(self.consumers))

    def take(self, consumer: Consumer) -> None:
        try:
            records = consumer.poll(self.chance.choice((0.0, 0.0, 0.005, 0.05)))
        except CannotConnect:
            records = []  # the network is cut, and this one has never reached anybody
        for record in records:
            self.handed_out[TopicPartition("t", record.partition)].append(record.offset)
        self.theatre.run(1)

    def append(self) -> None:
        one, count = self.chance.choice(P[:6]), self.chance.randint(1, 20)
        self.theatre.append(one, count=count)
        self.appended[one] += count

    def join(self) -> None:
        if len(self.consumers) < 4:
            self.made += 1
            settings = {"enable_auto_commit": True, "auto_commit_interval_ms": self.chance.choice((20, 500, 60_000))}
            consumer = self.theatre.consumer(
                f"c{self.made}",
                "t",
                assignors=(self.assignor,),
                max_poll_records=self.chance.choice((1, 7, 500)),
                **settings,
            )
            self.consumers.append(consumer)

    def leave(self) -> None:
        """In a cooperative rebalance nothing can be committed: whoever leaves then has the others read again what it
        had not committed before (docs/spec/consumer-client.md#A8, #A10), so it waits until that is over.
        """
        if self.consumers:
            leaver = self.chance.choice(self.consumers)
            self.go_on_until(lambda: leaver.member.is_steady)
            self.consumers.remove(leaver)
            leaver.close()

    def go_on_until(self, holds: Callable[[], bool]) -> None:
        """Two minutes will do: who closed while the network was cut is a member until its session ends."""
        end_ms = self.theatre.now_ms + 120_000
        while not holds():
            assert self.theatre.now_ms < end_ms
            for consumer in self.consumers:
                self.take(consumer)
            self.theatre.run(20)

    def cut(self) -> None:
        self.theatre.is_up = False
        self.theatre.after(self.chance.choice((5, 100, 700)), self.mend)

    def mend(self) -> None:
        self.theatre.is_up = True

    def rebalance(self) -> None:
        if self.consumers:
            self.chance.choice(self.consumers).enforce_rebalance()

    def commit(self) -> None:
        if self.consumers:
            consumer = self.chance.choice(self.consumers)
            try:
                if self.chance.random() < 0.5:
                    consumer.commit_async()
                else:
                    consumer.commit(timeout_s=2.0)
            except CommitRefused:
                return  # in a rebalance

    def slow(self) -> None:
        delay_ms = self.chance.choice((1, 10, 60))
        self.theatre.latency_ms = lambda message: delay_ms if isinstance(message, OffsetCommit) else 1

    def rest(self) -> None:
        self.theatre.run(self.chance.choice((10, 100, 1_000)))

    def end(self) -> None:
        self.join()
        self.go_on_until(lambda: all(one.member.is_steady for one in self.consumers) and self.is_all_handed_out)

    @property
    def is_all_handed_out(self) -> bool:
        return all(len(offsets) >= self.appended[one] for one, offsets in self.handed_out.items())


@pytest.mark.parametrize("assignor", ["range", "cooperative-sticky"])
@pytest.mark.parametrize("seed", range(12))
def test_every_record_is_handed_out_once_and_in_order(
    monkeypatch: pytest.MonkeyPatch, seed: int, assignor: str
) -> None:
    play = Play(Theatre(monkeypatch).make(), seed, assignor)
    play.theatre.pushes = seed % 3 > 0  # a server of Kafka's has none
    for _ in range(STEPS):
        play.step()
    play.end()
    for one, offsets in play.handed_out.items():
        assert offsets == list(range(play.appended[one])), one
    assert sorted(one for consumer in play.consumers for one in consumer.assignment) == P[:6]
    for consumer in play.consumers:
        consumer.close()
