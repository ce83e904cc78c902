"""The transactions of one producer, without I/O: requests to coordinators, one after another (KIP-98).

Versions of Kafka's first protocol of transactions are used throughout: a partition is added by a request of its own
before a record of it is sent, and never by the record.

Never allowed are a record or offset of a partition that was not added to the transaction, two ends of one transaction,
an end while a record is in flight, and any request after another producer has taken this one's id.
"""

import enum
from collections import deque
from collections.abc import Callable
from typing import Final

from membership.events import NodeAddress
from membership.topic_partition import TopicPartition
from muster.core.producing.batch import ProducerId
from muster.core.producing.transaction_requests import (
    NO_ANSWER,
    CoordinatorRequest,
    OffsetsOfGroup,
    commit_of,
    error_of,
    topics_of,
)
from muster.errors import MusterError, ProducerFenced, Refused, TransactionFailed
from protocol.errors import ErrorCode
from protocol.messages import Message
from protocol.messages.data import InitProducerId, InitProducerIdReply
from protocol.messages.node import FindCoordinator, FindCoordinatorReply
from protocol.messages.offsets import (
    TxnOffsetCommit,
)
from protocol.messages.transactions import (
    AddOffsetsToTxn,
    AddPartitionsToTxn,
    EndTxn,
)

_OF_TRANSACTIONS: Final = 1
"""Type of the keys that are transactional ids, in a FindCoordinator."""
_CONCURRENT_MS: Final = 20
"""Pause while the markers of the previous transaction are written, as in Kafka's client."""
_MOVED: Final = frozenset({ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE})
_FENCED: Final = frozenset(
    {
        ErrorCode.PRODUCER_FENCED,
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.INVALID_PRODUCER_ID_MAPPING,
    }
)
_LASTING: Final = frozenset(
    {
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
        ErrorCode.INVALID_TRANSACTION_TIMEOUT,
        ErrorCode.UNSUPPORTED_VERSION,
    }
)
"""Errors that every other transaction of this producer would get, too."""


class TransactionPhase(enum.Enum):
    """Phases of a transactional producer."""

    IDLE = "no transaction is open"
    BEGINNING = "a transaction is beginning"
    OPEN = "a transaction is open"
    ENDING = "a transaction is ending"


class Transactions:
    """The producer's id, its open transaction, and the requests that both need. `next_request` returns one at a time,
    `on_reply` takes its reply."""

    def __init__(self, transactional_id: str, timeout_ms: int, backoff_ms: Callable[[int], int]) -> None:
        self.transactional_id = transactional_id
        self.producer: ProducerId | None = None
        self.phase = TransactionPhase.IDLE
        self.failure: MusterError | None = None
        """Reason for which the open transaction cannot be committed."""
        self.fatal: MusterError | None = None
        """Reason for which this producer can commit no more transactions."""
        self.retry_at_ms = 0
        """Time before which no request is sent."""
        self._timeout_ms = timeout_ms
        self._backoff_ms = backoff_ms
        self._failures = 0
        self._coordinator: NodeAddress | None = None
        self._group_coordinators: dict[str, NodeAddress] = {}
        self._asked: CoordinatorRequest | None = None
        self._needs_epoch = False
        self._added: set[TopicPartition] = set()
        self._to_add: dict[TopicPartition, None] = {}
        self._adding: tuple[TopicPartition, ...] = ()
        self._offsets: deque[OffsetsOfGroup] = deque()
        self._groups_added: set[str] = set()
        self._is_known = False
        """True if the coordinator may know of the transaction."""
        self._verdict: bool | None = None

    # -- called by the application

    def begin(self) -> None:
        """Begin a transaction: request an id or a new epoch if needed; then `ready` opens it. Raises MusterError."""
        self.raise_fatal()
        if self.phase not in {TransactionPhase.IDLE, TransactionPhase.BEGINNING}:
            raise MusterError(f"{self.phase.value}: commit it or abort it, then begin another")
        self.phase = TransactionPhase.BEGINNING

    def ready(self) -> bool:
        """Open the transaction if that is possible now; return whether it is open."""
        if self.phase is TransactionPhase.BEGINNING and self.producer is not None and not self._needs_epoch:
            self.phase = TransactionPhase.OPEN
        return self.phase is TransactionPhase.OPEN

    def check_open(self) -> None:
        """Raise MusterError unless records and offsets may be added to the transaction."""
        self.raise_fatal()
        if self.failure is not None:
            raise self.failure
        if self.phase is not TransactionPhase.OPEN:
            raise MusterError(f"{self.phase.value}: a producer with a transactional_id writes between begin and commit")

    def admits(self, one: TopicPartition) -> bool:
        """Return true if the coordinator has the partition in the transaction; else request that."""
        if one in self._added:
            return True
        if self.phase is TransactionPhase.OPEN and self.failure is None:
            self._to_add[one] = None
        return False

    def add_offsets(self, offsets: OffsetsOfGroup) -> None:
        """Add offsets to the transaction, after earlier ones. Raises MusterError."""
        self.check_open()
        self._offsets.append(offsets)

    def has_ended(self) -> bool:
        """Return true if no requested end of the transaction is pending."""
        return self.phase is not TransactionPhase.ENDING

    @property
    def has_offsets_to_send(self) -> bool:
        """True until the groups' coordinators have all offsets."""
        return bool(self._offsets)

    def fail(self, error: MusterError) -> None:
        """Note that a record of the open transaction was given up."""
        if self.phase is TransactionPhase.OPEN and self.failure is None:
            self.failure = TransactionFailed(
                getattr(error, "error_code", NO_ANSWER), f"the transaction cannot be committed, abort it: {error}"
            )
            self._needs_epoch = True

    def end(self, *, commit: bool) -> None:
        """End the transaction; IDLE follows. None of its records may be in flight. Raises MusterError."""
        self.raise_fatal()
        if self._verdict is not None and self._verdict is not commit:
            raise MusterError(f"the transaction is ending with {'commit' if self._verdict else 'abort'}: call it again")
        if self.phase is TransactionPhase.ENDING:
            return
        if self.phase is not TransactionPhase.OPEN:
            raise MusterError(f"{self.phase.value}: there is none to end")
        if commit and self.failure is not None:
            raise self.failure
        self._offsets.clear()
        self._to_add.clear()
        self.phase, self._verdict = TransactionPhase.ENDING, commit
        if not self._is_known:
            self._ended()

    def raise_fatal(self) -> None:
        """Raise the fatal error, if there is one."""
        if self.fatal is not None:
            raise self.fatal

    # -- requests

    def next_request(self, now_ms: int) -> CoordinatorRequest | None:
        """Return the request to send now; None if there is none."""
        if self._asked is not None or self.fatal is not None or now_ms < self.retry_at_ms:
            return None
        self._asked = self._wanted()
        return self._asked

    @property
    def wants_request(self) -> bool:
        """True if there is a request to send after the pause."""
        return self._asked is None and self.fatal is None and self._wanted() is not None

    def _to_coordinator(self, message: Message) -> CoordinatorRequest:
        return CoordinatorRequest(message, self._coordinator)

    def _wanted(self) -> CoordinatorRequest | None:
        if self.phase is TransactionPhase.IDLE or (self.phase is TransactionPhase.OPEN and self.failure is not None):
            return None
        if self.phase is TransactionPhase.OPEN and not self._to_add and not self._offsets:
            return None
        if self.phase is TransactionPhase.BEGINNING and self.producer is not None and not self._needs_epoch:
            return None
        if self._coordinator is None:
            return CoordinatorRequest(FindCoordinator((self.transactional_id,), _OF_TRANSACTIONS), None)
        if self.phase is TransactionPhase.BEGINNING:
            known = (-1, -1) if self.producer is None else self.producer
            return CoordinatorRequest(
                InitProducerId(self.transactional_id, self._timeout_ms, *known), self._coordinator
            )
        assert self.producer is not None
        if self.phase is TransactionPhase.ENDING:
            return CoordinatorRequest(
                EndTxn(self.transactional_id, *self.producer, self._verdict is True), self._coordinator
            )
        self._is_known = True
        if self._to_add:
            self._adding = tuple(self._to_add)
            return self._to_coordinator(
                AddPartitionsToTxn(self.transactional_id, *self.producer, topics_of(self._adding))
            )
        first = self._offsets[0]
        if first.group_id not in self._groups_added:
            return CoordinatorRequest(
                AddOffsetsToTxn(self.transactional_id, *self.producer, first.group_id), self._coordinator
            )
        if first.group_id not in self._group_coordinators:
            return CoordinatorRequest(FindCoordinator((first.group_id,)), None)
        message = commit_of(first, self.transactional_id, self.producer)
        return CoordinatorRequest(message, self._group_coordinators[first.group_id])

    # -- replies

    def on_reply(self, reply: Message | None, now_ms: int) -> NodeAddress | None:
        """Handle the reply to the last request; None if there will be none. Return the node whose connection may be
        broken, if there is one."""
        asked, self._asked = self._asked, None
        assert asked is not None
        error, sentence = error_of(reply)
        if error is ErrorCode.NONE:
            self._failures, self.retry_at_ms = 0, 0
            self._succeeded(asked.message, reply)
            return None
        if error in _MOVED or reply is None:
            self._forget(asked)
        if error.retriable or error is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION or reply is None:
            pause_ms = (
                _CONCURRENT_MS if error is ErrorCode.CONCURRENT_TRANSACTIONS else self._backoff_ms(self._failures)
            )
            self.retry_at_ms = now_ms + pause_ms
            self._failures += 1
            return asked.node if reply is None else None
        self._refused(asked.message, error, sentence)
        return None

    def _forget(self, asked: CoordinatorRequest) -> None:
        """Look the coordinator up again."""
        if isinstance(asked.message, TxnOffsetCommit):
            self._group_coordinators.pop(asked.message.group_id, None)
        else:
            self._coordinator = None

    def _succeeded(self, message: Message, reply: Message | None) -> None:
        match message:
            case FindCoordinator():
                assert isinstance(reply, FindCoordinatorReply)
                found = reply.coordinators[0]
                node = NodeAddress(found.host, found.port, found.node_id)
                if message.key_type == _OF_TRANSACTIONS:
                    self._coordinator = node
                else:
                    self._group_coordinators[message.coordinator_keys[0]] = node
            case InitProducerId():
                assert isinstance(reply, InitProducerIdReply)
                self.producer = ProducerId(reply.producer_id, reply.producer_epoch)
                self._needs_epoch = False
            case AddPartitionsToTxn():
                self._added.update(self._adding)
                for one in self._adding:
                    self._to_add.pop(one, None)
            case AddOffsetsToTxn():
                self._groups_added.add(message.group_id)
            case TxnOffsetCommit():
                if self._offsets:  # else the transaction was aborted meanwhile
                    self._offsets.popleft()
            case EndTxn():
                self._ended()

    def _refused(self, message: Message, error: ErrorCode, sentence: str) -> None:
        what = f"{type(message).__name__} was answered {error.name}{f': {sentence}' if sentence else ''}"
        # An epoch unknown to a group's coordinator may be that of a transaction that has ended meanwhile.
        if error in _FENCED and not isinstance(message, TxnOffsetCommit):
            self.fatal = ProducerFenced(
                error,
                f"another producer has begun with transactional_id {self.transactional_id!r}, or the transaction took "
                f"longer than {self._timeout_ms} ms ({what})",
            )
        elif error in _LASTING or isinstance(message, InitProducerId | FindCoordinator):
            self.fatal = Refused(error, f"no transaction can begin or end: {what}")
        elif isinstance(message, EndTxn) and not message.committed:
            self._needs_epoch = True  # the coordinator has no open transaction, so there is nothing to abort
            self._ended()
        elif isinstance(message, EndTxn):
            self.phase, self._verdict = TransactionPhase.OPEN, None
            self.fail(TransactionFailed(error, what))
        else:
            self.fail(TransactionFailed(error, what))

    def _ended(self) -> None:
        self.phase, self._verdict, self.failure = TransactionPhase.IDLE, None, None
        self._is_known = False
        self._added.clear()
        self._to_add.clear()
        self._offsets.clear()
        self._groups_added.clear()
