"""Settings of a producer: how it batches, waits and gives up."""

import msgspec

from membership.checks import MOST_64, check_name, check_number
from protocol.record_compression import Compression

MOST_IN_FLIGHT = 5
"""Largest numbers of requests in flight to a node, and of unanswered batches of a partition: brokers remember five
(KIP-98)."""


class ProducerSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Settings with the names and defaults of Kafka's producer; `delivery_timeout_ms` counts from the beginning of a
    batch."""

    acks: int = -1
    is_idempotent: bool = True
    batch_bytes: int = 16_384
    linger_ms: int = 5
    buffer_memory_bytes: int = 33_554_432
    max_request_bytes: int = 1_048_576
    compression: Compression = Compression.NONE
    request_timeout_ms: int = 30_000
    delivery_timeout_ms: int = 120_000
    retry_backoff_ms: int = 100
    retry_backoff_max_ms: int = 1_000
    metadata_max_age_ms: int = 300_000
    transactional_id: str | None = None
    transaction_timeout_ms: int = 60_000

    def __post_init__(self) -> None:
        """Raise ValueError for invalid settings."""
        if self.acks not in {-1, 0, 1}:
            raise ValueError(f"acks is {self.acks}, it must be -1 (on disk), 1 (appended) or 0 (not waited for)")
        if self.is_idempotent and self.acks != -1:
            raise ValueError(f"acks is {self.acks}: only with acks=-1 can each record be stored exactly once")
        if self.transactional_id is not None:
            check_name("transactional_id", self.transactional_id)
            if not self.is_idempotent:
                raise ValueError("a producer with a transactional_id is idempotent: acks=-1, enable_idempotence=True")
        check_number("transaction_timeout_ms", self.transaction_timeout_ms, 1)
        for name in ("batch_bytes", "buffer_memory_bytes", "max_request_bytes"):
            check_number(name, getattr(self, name), 1, MOST_64)
        check_number("request_timeout_ms", self.request_timeout_ms, 1)
        for name in ("linger_ms", "retry_backoff_ms", "retry_backoff_max_ms"):
            check_number(name, getattr(self, name), 0)
        check_number("delivery_timeout_ms", self.delivery_timeout_ms, 1)
        if self.delivery_timeout_ms < self.linger_ms + self.request_timeout_ms:
            raise ValueError(
                f"delivery_timeout_ms is {self.delivery_timeout_ms}, less than linger_ms and request_timeout_ms"
                f" ({self.linger_ms} and {self.request_timeout_ms}) together"
            )

    @property
    def window(self) -> int:
        """Largest number of batches of a partition in flight. Without sequences, only one keeps the order, unless
        batches are never answered and so never resent."""
        return MOST_IN_FLIGHT if self.is_idempotent or self.acks == 0 else 1

    def backoff_ms(self, failures: int) -> int:
        return min(self.retry_backoff_max_ms, self.retry_backoff_ms << min(max(failures, 0), 30))
