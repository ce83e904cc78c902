"""The proof that brokers fence, before brokers that do, and before ones that do not in every way there is."""

from random import Random

import pytest

from coordinator.cluster_log.entries import fence_batch
from coordinator.gateway.cluster.fence_proof import ProducerId, fault_of_brokers
from protocol.errors import ErrorCode
from tests.simulation.cluster.coordinators import ProducerIds
from tests.simulation.cluster.partition import Partition


class Brokers:
    """A partition and a coordinator of ids; `answers` replaces those to the writes, in order."""

    def __init__(self, last_epoch: int = 1_000, answers: tuple[ErrorCode | None, ...] = ()) -> None:
        self._partition = Partition(Random(0), 1_000, 1_000)
        self._ids = ProducerIds(last_epoch, 1_000)
        self._answers = list(answers)
        self.writes = 0

    async def ask_id(self) -> ProducerId:
        return self._ids.init(0, -1, -1, 0)[1:]

    async def write(self, producer: ProducerId, sequence: int) -> ErrorCode:
        self.writes += 1
        said = self._partition.append(fence_batch((*producer, sequence), 0), 0)[0]
        told = self._answers.pop(0) if self._answers else None
        return said if told is None else told


async def test_brokers_that_fence_have_no_fault() -> None:
    brokers = Brokers()
    for _ in range(3):  # starts of one node
        assert await fault_of_brokers(brokers.ask_id, brokers.write) == ""
    assert brokers.writes == 3 * 4


async def test_epochs_that_run_out_are_no_fault() -> None:
    brokers = Brokers(last_epoch=5)
    assert [await fault_of_brokers(brokers.ask_id, brokers.write) for _ in range(5)] == [""] * 5


@pytest.mark.parametrize(
    ("answers", "fault"),
    [
        ((ErrorCode.CLUSTER_AUTHORIZATION_FAILED,), "first write of a producer id is answered CLUSTER_AUTHORIZATION"),
        ((None, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER), "first write of a new epoch is answered OUT_OF_ORDER"),
        ((None, None, ErrorCode.NONE), "a write of a former epoch is answered NONE"),
        ((None, None, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER), "a write of a former epoch is answered OUT_OF_ORDER"),
        ((None, None, None, ErrorCode.NONE), "begins with sequence 5 is answered NONE"),
    ],
)
async def test_brokers_that_do_not_fence_are_found_out(answers: tuple[ErrorCode | None, ...], fault: str) -> None:
    brokers = Brokers(answers=answers)
    assert fault in await fault_of_brokers(brokers.ask_id, brokers.write)


async def test_a_producer_id_for_each_request_is_no_fence() -> None:
    brokers = Brokers(last_epoch=1)
    assert "another producer id" in await fault_of_brokers(brokers.ask_id, brokers.write)


async def test_an_epoch_that_does_not_grow_is_no_fence() -> None:
    brokers = Brokers()

    async def always() -> ProducerId:
        return 7, 3

    assert "gives epoch 3 after 3" in await fault_of_brokers(always, brokers.write)
