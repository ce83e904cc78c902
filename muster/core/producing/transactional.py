"""The core of a producer whose records belong to transactions."""

from membership.events import HangUp, NodeAddress
from muster.core.producing.batch import Pending, ProducerBatch
from muster.core.producing.core import OUT_OF_SEQUENCE, Picked, Producing
from muster.core.producing.queue import Queue
from muster.core.producing.settings import ProducerSettings
from muster.core.producing.transactions import Transactions
from muster.errors import MusterError
from protocol.errors import ErrorCode
from protocol.messages import Message
from protocol.messages.topics import Metadata


class TransactionalProducing(Producing):
    """Sends a record once its partition was added to the transaction. A record that is given up makes the transaction
    fail; sequences restart only with the next epoch, never within a transaction.
    """

    def __init__(self, settings: ProducerSettings, first_turn: int = 0) -> None:
        super().__init__(settings, first_turn)
        assert settings.transactional_id is not None
        self._transactions = self.transactions = Transactions(
            settings.transactional_id, settings.transaction_timeout_ms, settings.backoff_ms
        )

    @property
    def is_writing(self) -> bool:
        """True while a record is in flight."""
        return any(sent.picked for sent in self._sent.values())

    def append(self, topic: str, partition: int | None, record: Pending, now_ms: int) -> int:
        """See `Producing`. Also raises MusterError, outside a transaction and in a failed one."""
        self._transactions.check_open()
        return super().append(topic, partition, record, now_ms)

    def _give_up(self, queue: Queue, batch: ProducerBatch, error: MusterError) -> None:
        self._transactions.fail(error)
        super()._give_up(queue, batch, error)

    def _plan(self) -> None:
        super()._plan()
        asked = self._transactions.next_request(self._now_ms)
        if asked is not None:
            self._call(asked.message, asked.node, [])
            self._due(self._now_ms + self._settings.request_timeout_ms)
        elif self._transactions.wants_request:
            self._due(self._transactions.retry_at_ms)

    def _pick(self) -> dict[NodeAddress, Picked]:
        producer = self._transactions.producer
        if producer is None:
            return {}
        for queue in self._buffer.busy.values():
            if queue.producer != producer:
                queue.adopt(producer)
        return super()._pick()

    def _has_id(self, queue: Queue) -> bool:
        return self._transactions.admits(queue.topic_partition)

    def _on_reply(self, call: int, reply: Message | None) -> None:
        sent = self._sent.get(call)
        if sent is None or sent.picked or sent.message is Metadata:
            super()._on_reply(call, reply)
            return
        del self._sent[call]
        doubted = self._transactions.on_reply(reply, self._now_ms)
        if doubted is not None:
            self._effects.append(HangUp(doubted))
        if self._transactions.fatal is not None:
            self.abandon(self._transactions.fatal)

    def _try_again(self, queue: Queue, batch: ProducerBatch, code: ErrorCode) -> None:
        if code in OUT_OF_SEQUENCE:
            self._refuse(queue, batch, code)
        else:
            super()._try_again(queue, batch, code)
