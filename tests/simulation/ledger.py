"""Producers that commit offsets in transactions, and whoever writes their markers: asked from inside the process, since
no dialect offers it. A group of its own, whose offsets only grow in the order in which they are asked for: so whatever
was acknowledged, what is committed later is not less."""

from collections import defaultdict
from collections.abc import Callable
from random import Random
from typing import Any

from coordinator.node.effects import Return
from coordinator.node.events import Call
from coordinator.node.node import AnyNode
from membership.topic_partition import TopicPartition
from protocol.errors import ErrorCode
from protocol.messages import Message
from protocol.messages.offsets import (
    EndTransaction,
    OffsetCommit,
    OffsetCommitPartition,
    OffsetCommitTopic,
    OffsetFetch,
    OffsetFetchGroup,
    TxnOffsetCommit,
    TxnOffsetCommitPartition,
    TxnOffsetCommitTopic,
)
from tests.simulation.checkers import Broken, Checkers
from tests.simulation.faults import Seen

GROUP, TOPIC, PARTITIONS = "ledger", "alpha", 4
PRODUCERS = (1, 2, 3)
FIRST_CALL = 1_000
_MAY_REFUSE = (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE)
"""Errors while the node stops, and while its disk is full."""


class Ledger:
    """`next` is what is asked next; `heard` takes every answer that came from inside."""

    def __init__(self, seed: int, checkers: Checkers, seen: Seen) -> None:
        self._random = Random(f"ledger-{seed}")
        self._checkers, self._seen = checkers, seen
        self._call = FIRST_CALL
        self._offset = 0
        self._waiting: dict[int, Callable[[Any], None]] = {}
        # What a producer has pending for a partition: each offset, and whether it was acknowledged.
        self._open: dict[int, dict[int, dict[int, bool]]] = {}

    def crashed(self) -> None:
        """Note a crash: unacknowledged offsets may be lost, and an unacknowledged marker may have been applied."""
        self._waiting.clear()
        for producer_id, partitions in self._open.items():
            kept = {index: {o: True for o, told in offsets.items() if told} for index, offsets in partitions.items()}
            self._open[producer_id] = {index: offsets for index, offsets in kept.items() if offsets}

    def next(self, node: AnyNode) -> Call:
        """Return one more request."""
        ask = self._random.choice((self._pend, self._pend, self._pend, self._commit, self._end, self._end, self._fetch))
        return self.call(*ask(node))

    def call(self, message: Message, heard: Callable[[Any], None]) -> Call:
        """Return a request from inside with the function that takes its answer; it is not called if the process ends
        before."""
        return Call(self.expect(heard), message)

    def expect(self, heard: Callable[[Any], None]) -> int:
        """Return the number of a call whose answer is taken, unless the process ends before."""
        self._call += 1
        self._waiting[self._call] = heard
        return self._call

    def heard(self, effect: Return) -> None:
        heard = self._waiting.pop(effect.call_id, None)
        if heard is not None:
            heard(effect.reply)

    def _place(self) -> tuple[int, int]:
        self._offset += 1
        return self._random.randrange(PARTITIONS), self._offset

    def _pend(self, node: AnyNode) -> tuple[Message, Callable[[Any], None]]:
        producer_id, (index, offset) = self._random.choice(PRODUCERS), self._place()
        offsets = self._open.setdefault(producer_id, {}).setdefault(index, {})
        offsets[offset] = False

        def heard(reply: Any) -> None:
            is_refused = bool(reply.topics[0].partitions[0].error_code)
            reopened = self._open.get(producer_id, {}).get(index, offsets)  # by a refused marker meanwhile
            for one in (offsets, reopened):
                if is_refused:
                    one.pop(offset, None)
                elif offset in one:
                    one[offset] = True

        topics = (TxnOffsetCommitTopic(TOPIC, (TxnOffsetCommitPartition(index, offset),)),)
        return TxnOffsetCommit("tx", GROUP, producer_id, 0, topics), heard

    def _commit(self, node: AnyNode) -> tuple[Message, Callable[[Any], None]]:
        index, offset = self._place()

        def heard(reply: Any) -> None:
            if reply.topics[0].partitions[0].error_code is ErrorCode.NONE:
                self._checkers.acknowledge(GROUP, TopicPartition(TOPIC, index), offset)

        return OffsetCommit(GROUP, (OffsetCommitTopic(TOPIC, (OffsetCommitPartition(index, offset),)),)), heard

    def _end(self, node: AnyNode) -> tuple[Message, Callable[[Any], None]]:
        producer_id, is_committed = self._random.choice(PRODUCERS), self._random.random() < 0.7
        decided = self._open.pop(producer_id, {})

        def heard(reply: Any) -> None:
            if reply.error_code:
                if reply.error_code not in _MAY_REFUSE:
                    raise Broken(f"a marker was refused: {reply.error_code.name}")
                self._seen.add("refused markers")
                self._reopen(producer_id, decided)
                return
            self._seen.add("committed transactions" if is_committed else "aborted transactions", bool(decided))
            for index, offsets in decided.items() if is_committed else ():
                if offsets:
                    self._checkers.acknowledge(GROUP, TopicPartition(TOPIC, index), max(offsets))

        return EndTransaction(producer_id, 0, is_committed, node.core.shard_of(GROUP).index), heard

    def _reopen(self, producer_id: int, undecided: dict[int, dict[int, bool]]) -> None:
        """Undo a marker that has changed nothing: its offsets are still pending."""
        partitions = self._open.setdefault(producer_id, {})
        for index, offsets in undecided.items():
            partitions[index] = {**offsets, **partitions.get(index, {})}

    def _fetch(self, node: AnyNode) -> tuple[Message, Callable[[Any], None]]:
        """Fetch offsets; with `require_stable` partitions of open transactions must be refused."""
        told = defaultdict[int, bool](bool)
        for partitions in self._open.values():
            for index, offsets in partitions.items():
                told[index] |= any(offsets.values())
        acknowledged = {
            index: self._checkers.acknowledged(GROUP, TopicPartition(TOPIC, index)) for index in range(PARTITIONS)
        }

        def heard(reply: Any) -> None:
            for topic in reply.groups[0].topics:
                for part in topic.partitions:
                    index = part.partition_index
                    if part.error_code is ErrorCode.UNSTABLE_OFFSET_COMMIT:
                        self._seen.add("unstable offsets")
                    elif told[index]:
                        raise Broken(f"{index} is told to be stable while a transaction is open")
                    elif part.committed_offset < acknowledged[index]:
                        raise Broken(f"{index} is told to be {part.committed_offset}, {acknowledged[index]} was known")

        return OffsetFetch((OffsetFetchGroup(GROUP),), require_stable=True), heard
