"""Writing records: code that producers of both edges share, except for waiting."""

from abc import abstractmethod
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Literal, Protocol

from membership.events import MemberEffect, TimePassed
from muster.client.interceptors import ProducerInterceptor, ProducerInterceptors, ProducerRecord
from muster.client.steps import Procedure, Wait, WaitUntil
from muster.core.metrics.measured import MeasuredCore
from muster.core.metrics.producer import ProducerMetrics
from muster.core.producing import Producing, TransactionalProducing
from muster.core.producing.batch import Pending
from muster.core.producing.handles import CompressionName, Handle, hand_over, not_answered, not_taken, producer_settings
from muster.core.producing.transaction_requests import OffsetsOfGroup
from muster.core.producing.transactions import TransactionPhase, Transactions
from muster.errors import ClientClosed, ClientFailed, MusterError, TransactionFailed
from muster.net.bootstrap import parse_bootstrap
from muster.net.cores import Driven
from muster.net.dialects import ClientDialect
from muster.net.security import SecurityLike
from protocol.errors import ErrorCode

_REMEMBERED_FAILURES = 1_000
_UNCERTAIN = "the end of the transaction was not answered, call it again: it was not ended"


class Future(Handle, Protocol):
    """The future returned by `send`."""

    partition: int
    is_told: bool


class ProducerProcedures:
    """Appends records to topics."""

    _runner_of: ClassVar[type[Any]]
    """The runner of the edge."""

    def __init__(
        self,
        bootstrap: str,
        *,
        acks: int | Literal["all"] = -1,
        enable_idempotence: bool | None = None,
        compression: CompressionName = "none",
        batch_bytes: int = 16_384,
        linger_ms: int = 5,
        buffer_memory_bytes: int = 32 * 1024 * 1024,
        max_request_bytes: int = 1024 * 1024,
        max_block_ms: int = 60_000,
        request_timeout_ms: int = 30_000,
        delivery_timeout_ms: int = 120_000,
        retry_backoff_ms: int = 100,
        retry_backoff_max_ms: int = 1_000,
        client_id: str = "muster",
        dialect: ClientDialect | str | None = None,
        security: SecurityLike | None = None,
        broker_security: SecurityLike | None = None,
        interceptors: Sequence[ProducerInterceptor] = (),
        transactional_id: str | None = None,
        transaction_timeout_ms: int = 60_000,
    ) -> None:
        """`acks` -1 or "all": on disk; 1: appended; 0: written to the connection, without a report of later errors.
        `max_block_ms` is how long `send` waits for a topic's metadata and for room in `buffer_memory_bytes`. With a
        `transactional_id`, which is each producer's own, records are written between `begin` and `commit`, at Kafka
        brokers; a transaction that takes longer than `transaction_timeout_ms` is aborted. Raises ValueError for
        settings that cannot work.
        """
        self._interceptors = ProducerInterceptors(interceptors)
        where = parse_bootstrap(bootstrap, dialect, security, broker_security)
        if transactional_id is not None and where.dialect is not ClientDialect.KAFKA:
            raise ValueError(
                "transactional_id: transactions are Kafka's, and the bootstrap speaks the native protocol; give "
                "kafka://HOST:PORT of a broker, or of musterd in front of brokers"
            )
        self._runner = self._runner_of(where, client_id, "producer")
        self._driver = self._runner.driver
        core = Producing if transactional_id is None else TransactionalProducing
        self._core = core(
            producer_settings(
                acks=acks,
                enable_idempotence=enable_idempotence,
                compression=compression,
                batch_bytes=batch_bytes,
                linger_ms=linger_ms,
                buffer_memory_bytes=buffer_memory_bytes,
                max_request_bytes=max_request_bytes,
                request_timeout_ms=request_timeout_ms,
                delivery_timeout_ms=delivery_timeout_ms,
                retry_backoff_ms=retry_backoff_ms,
                retry_backoff_max_ms=retry_backoff_max_ms,
                transactional_id=transactional_id,
                transaction_timeout_ms=transaction_timeout_ms,
            ),
            first_turn=int(self._driver.jitter() * 65_536),  # else short-lived producers all begin with 0
        )
        self._max_block_s = max_block_ms / 1000
        self._metrics = ProducerMetrics()
        self._measured = MeasuredCore(self._core, self._metrics)
        self._driven = Driven(self._measured, self._take)
        self._driver.add(self._driven)
        self._driver.on_failure = self._fail
        self._failed: deque[Any] = deque(maxlen=_REMEMBERED_FAILURES)
        self._owes_turn = False
        self._is_closed = False
        self._set_up()

    def _set_up(self) -> None:
        """Create the edge's own parts."""

    @property
    def client_id(self) -> str:
        """The name that servers show for this client."""
        name: str = self._runner.client_id
        return name

    def metrics(self) -> dict[str, float]:
        """Return the metrics by the names of Kafka's producer metrics. Times are in milliseconds. Means, maxima and
        rates are those of the last half minute to minute, totals those since the beginning; NaN: nothing was measured.
        A record counts as sent when it is acknowledged. May be called at any time, as `send` may.
        """
        with self._runner.locked():
            return {**self._metrics.read(self._driver.now_ms()), **self._core.measured()}

    @abstractmethod
    def _begin(self, record: ProducerRecord) -> tuple[Any, Pending]:
        """Return the future of a record, and the record for the core."""

    def _check_open(self) -> None:
        if self._is_closed:
            raise ClientClosed("this producer was closed")

    def _send_intercepted(self, record: ProducerRecord) -> Procedure[Any]:
        self._check_open()
        record = yield from self._interceptors.on_send(record)
        try:
            sent, pending = self._begin(record)
            if self._append(record.topic, record.partition, pending, sent) < 0:
                yield from self._append_later(record.topic, record.partition, pending, sent)
        except Exception as error:
            yield from self._interceptors.on_send_error(record, error)
            raise
        return sent

    def _append(self, topic: str, partition: int | None, record: Pending, sent: Future) -> int:
        """Append to the core; if the result is below 0, `_append_later` must wait. Called with the lock."""
        self._check_open()
        self._driver.refusals.raise_failure()
        placed = self._core.append(topic, partition, record, self._driver.now_ms())
        if placed >= 0:
            sent.partition = placed
            self._step_if_wanted()
        return placed

    def _append_later(self, topic: str, partition: int | None, record: Pending, sent: Future) -> Procedure[None]:
        """Wait until the topic is known, or until buffered records were sent, which frees space."""
        deadline = self._driver.time() + self._max_block_s
        while True:
            self._step_if_wanted()
            placed = self._append(topic, partition, record, sent)
            if placed >= 0:
                return
            if self._core.wants_step:
                continue
            left_s = deadline - self._driver.time()
            if left_s <= 0:
                raise not_taken(placed, topic, self._max_block_s, self._driver.trouble)
            self._driver.refusals.raise_last()
            yield Wait(left_s)

    def _flush(self, timeout_s: float | None) -> Procedure[list[Any]]:
        """Wait for all records; return those that failed since the last flush and were not reported."""
        number = self._core.close_batches()
        if not self._core.is_flushed(number):
            self._driver.feed(self._driven, TimePassed())
        refusals = self._driver.refusals
        yield WaitUntil(lambda: self._core.is_flushed(number) or not refusals.is_clear, timeout_s)
        if not self._core.is_flushed(number):
            refusals.raise_last()
            sentence = f"not all records were acknowledged within {timeout_s:g} s"
            raise self._explained(not_answered(sentence, self._driver.trouble))
        failed = [sent for sent in self._failed if not sent.is_told]
        self._failed.clear()
        return failed

    # -- transactions

    @property
    def _transactions(self) -> Transactions:
        """Return the transactions. Raises MusterError without a `transactional_id`."""
        if self._core.transactions is None:
            raise MusterError("this producer has no transactional_id: it has no transactions")
        return self._core.transactions

    def _begin_transaction(self, timeout_s: float | None) -> Procedure[None]:
        self._check_open()
        transactions = self._transactions
        transactions.begin()
        yield from self._until(transactions, transactions.ready, timeout_s, "no transaction was begun")

    def _send_offsets(self, offsets: OffsetsOfGroup, timeout_s: float | None) -> Procedure[None]:
        self._check_open()
        transactions = self._transactions
        transactions.add_offsets(offsets)

        def is_over() -> bool:
            return not transactions.has_offsets_to_send or transactions.failure is not None

        yield from self._until(transactions, is_over, timeout_s, "the offsets were not taken")
        transactions.check_open()

    def _commit_transaction(self, timeout_s: float | None) -> Procedure[None]:
        """Send the buffered records, and end the transaction. All its records are acknowledged then."""
        self._check_open()
        transactions = self._transactions
        if transactions.phase is TransactionPhase.OPEN:
            number = self._core.close_batches()

            def is_flushed() -> bool:
                return self._core.is_flushed(number) or transactions.failure is not None

            yield from self._until(transactions, is_flushed, timeout_s, "not all records were acknowledged")
        transactions.end(commit=True)
        yield from self._until(
            transactions, lambda: transactions.phase is not TransactionPhase.ENDING, timeout_s, _UNCERTAIN
        )
        if transactions.failure is not None:
            raise transactions.failure

    def _leave_transaction(self, timeout_s: float | None) -> Procedure[None]:
        """Abort an open transaction, since the producer is being closed; finish one that is ending."""
        transactions = self._core.transactions
        if transactions is None or transactions.fatal is not None:
            return
        if transactions.phase is TransactionPhase.ENDING:
            yield from self._until(
                transactions, lambda: transactions.phase is not TransactionPhase.ENDING, timeout_s, _UNCERTAIN
            )
        if transactions.phase is TransactionPhase.OPEN:
            yield from self._abort_transaction(timeout_s)

    def _abort_transaction(self, timeout_s: float | None) -> Procedure[None]:
        transactions, core = self._transactions, self._core
        assert isinstance(core, TransactionalProducing)
        if transactions.phase is TransactionPhase.OPEN:
            self._abandon(TransactionFailed(ErrorCode.OPERATION_NOT_ATTEMPTED, "its transaction was aborted"))
            late = "a record is still under way"
            yield from self._until(transactions, lambda: not core.is_writing, timeout_s, late)
        transactions.end(commit=False)
        yield from self._until(
            transactions, lambda: transactions.phase is not TransactionPhase.ENDING, timeout_s, _UNCERTAIN
        )
        self._failed.clear()

    def _until(
        self, transactions: Transactions, holds: Callable[[], bool], timeout_s: float | None, otherwise: str
    ) -> Procedure[None]:
        """Wait until `holds` returns true. Raises errors that end all transactions, and the present problem after
        `timeout_s`, or `max_block_ms`."""
        self._driver.feed(self._driven, TimePassed())
        refusals, within_s = self._driver.refusals, self._max_block_s if timeout_s is None else timeout_s

        def is_over() -> bool:
            return transactions.fatal is not None or not refusals.is_clear or holds()

        yield WaitUntil(is_over, within_s)
        transactions.raise_fatal()
        if not holds():
            refusals.raise_last()
            refusals.raise_failure()
            raise self._explained(not_answered(f"{otherwise} within {within_s:g} s", self._driver.trouble))

    def _step_if_wanted(self) -> None:
        if self._core.wants_step:
            self._owes_turn = True
            self._driver.feed(self._driven, TimePassed())

    def _take(self, effect: MemberEffect) -> None:
        self._failed.extend(hand_over(effect, self._explained))

    def _fail(self) -> None:
        """Give up all records, since the client failed."""
        try:
            self._driver.refusals.raise_failure()
        except ClientFailed as failed:
            self._abandon(failed)

    def _give_up(self) -> None:
        """Give up unacknowledged records, since the producer is being closed."""
        self._abandon(ClientClosed("the producer was closed before the record was acknowledged"))
        self._driver.changed.notify_all()

    def _abandon(self, error: MusterError) -> None:
        self._core.abandon(error)
        for effect in self._measured.step(TimePassed(), self._driver.now_ms()):
            self._take(effect)

    def _explained(self, error: MusterError) -> MusterError:
        explained: MusterError = self._driver.refusals.explained(error, self._driver.trouble)
        return explained
