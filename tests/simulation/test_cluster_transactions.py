"""Worlds over the cluster's log in which clients commit offsets in transactions (docs/spec/shared-log.md#7)."""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from coordinator.cluster_log.cluster_shard import ClusterShard
from coordinator.cluster_log.transactions import ClientTransactions
from coordinator.cluster_node import transactions
from coordinator.cluster_node.transactions import ShardTransactions
from tests.enumerations import some, worlds_of
from tests.simulation.cluster.transactions import TransactedWorld
from tests.simulation.errors import Broken

SEEDS = max(5, worlds_of(30))
"""Five worlds meet every mark together."""
MARKS = ("transactions committed", "transactions aborted", "nodes killed", "nodes frozen", "requests lost")
TRIES = 12


def test_of_transactions_of_clients_exactly_the_committed_ones_are_seen() -> None:
    total = Counter[str]()
    for seed in range(SEEDS):
        total.update(TransactedWorld(seed).run())
    assert [mark for mark in MARKS if not total[mark]] == []


def _counts_always(self: ClientTransactions, producer_id: int, offset: int) -> bool:
    return True


def _answer_whether_it_counts_or_not(self: ShardTransactions, durable: int) -> None:
    while self._awaited and self._awaited[0].position <= durable:
        done = self._awaited.popleft()
        self._unread.pop(done.handle, None)
        self._shard.outbox.send(done.ref, done.reply)


def _no_values(shard: Any, keys: Sequence[bytes]) -> Iterator[tuple[bytes, None]]:
    return iter(())


RULES = {
    "offsets behind the end of their transaction do not count": (ClientTransactions, "is_open_since", _counts_always),
    "a commit that does not count is refused": (ShardTransactions, "release", _answer_whether_it_counts_or_not),
    "values are written before what was pending gets a tombstone": (transactions, "present_values", _no_values),
}


@pytest.mark.parametrize(("where", "name", "without"), some(RULES.values()), ids=some(RULES))
def test_each_rule_that_is_taken_out_is_missed(
    where: object, name: str, without: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(where, name, without)
        for seed in range(TRIES):
            try:
                TransactedWorld(seed, ClusterShard, ("freeze_between", "kill", "cut")).run()
            except (Broken, AssertionError):
                return
    raise AssertionError("nothing broke")
