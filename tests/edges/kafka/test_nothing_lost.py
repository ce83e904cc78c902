"""Members die under way, one after the other, and every record is read all the same.

`TEST_KAFKA_RECORDS=100000` makes it the long one (a minute); `make test` has a short one.
"""

import os
import time
from itertools import count

import pytest

from tests.edges.kafka.client import Membership, Part
from tests.edges.kafka.conftest import ClientFactory
from tests.edges.kafka.libraries import CONFLUENT, KAFKA_PYTHON, LIBRARIES
from tests.edges.kafka.members import MemberProcess
from tests.edges.kafka.test_groups import WITHIN_S, shared
from tests.edges.musterd import within

RECORDS = int(os.environ.get("TEST_KAFKA_RECORDS", "20000"))
PARTITIONS = 9
A_SECOND = 2_500
"""Records sent in one: slow enough that members die in the middle of it."""
DIES_EVERY_S = 2.5


class Flock:
    """One member of each library at any time; who is killed is followed by another."""

    def __init__(self, factory: ClientFactory, topic: str) -> None:
        self._factory = factory
        self._topic = topic
        self._membership = Membership(topic, session_ms=factory.server.shortest_session_ms)
        self.living = [self._one_of(number) for number in range(len(LIBRARIES))]
        self.dead: list[MemberProcess] = []

    def _one_of(self, number: int) -> MemberProcess:
        return self._factory.process(LIBRARIES[number], self._membership, self._topic)

    def kill_one(self) -> None:
        number = len(self.dead) % len(LIBRARIES)
        victim = self.living[number]
        assert victim.alive, victim.said
        victim.kill()
        self.dead.append(victim)
        self.living[number] = self._one_of(number)

    @property
    def next_has_read(self) -> bool:
        return bool(self.living[len(self.dead) % len(LIBRARIES)].got)

    def read(self) -> set[tuple[Part, int]]:
        return {each for member in (*self.living, *self.dead) for each in list(member.got)}


@pytest.mark.long
@pytest.mark.timeout(300)
def test_every_record_of_an_idempotent_producer_is_read_although_members_die(factory: ClientFactory, name: str) -> None:
    factory.create_topic(KAFKA_PYTHON, name, PARTITIONS)
    flock = Flock(factory, name)
    assert within(WITHIN_S, shared(name, flock.living, PARTITIONS)), [member.said for member in flock.living]

    producer = factory.producer(CONFLUENT, idempotent=True)
    began, sent = time.monotonic(), 0
    for number in count():
        if number >= RECORDS and len(flock.dead) >= 3:
            break
        sent = number + 1
        producer.send(name, b"%d" % number, key=b"%d" % number)
        if number % 100 == 0:
            time.sleep(max(0.0, began + number / A_SECOND - time.monotonic()))
            if time.monotonic() - began > DIES_EVERY_S * (len(flock.dead) + 1) and flock.next_has_read:
                flock.kill_one()
    written = set(producer.flush())

    assert len(written) == sent
    # Nothing was written twice either.
    bounds = factory.consumer(CONFLUENT)
    assert sum(high - low for low, high in (bounds.bounds((name, each)) for each in range(PARTITIONS))) == sent
    assert within(60.0, lambda: flock.read() >= written, every_s=0.2), sorted(written - flock.read())[:20]
    assert all(member.got for member in flock.dead)
    assert [member.stop() for member in flock.living] == [0, 0, 0], [member.said for member in flock.living]
