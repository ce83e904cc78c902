"""The budget of one step of the node: all other clients' heartbeats wait behind a step, so it has to stay short."""

COST_A_STEP = 5_000
"""Cost (see `request_cost`) served of one connection, or of all that wait, before others have their turn. A heartbeat
costs one."""
BYTES_A_STEP = 256 * 1024
"""Bytes of records read, and bytes of replies encoded: whatever exceeds them is the last of its step."""
REPLIES_A_STEP = 256
REPLIES_READY_MAX = 16_384
"""Replies made and not yet encoded; beyond them no requests are served."""
OVERDUE_A_STEP = 256


class Budget:
    """Remainder of the budget of the present step. `cost`: for requests to serve; `replies` and `encoded`: for messages
    to send."""

    __slots__ = ("encoded_bytes", "cost", "read_bytes", "replies")

    def __init__(self) -> None:
        self.cost = self.read_bytes = self.replies = self.encoded_bytes = 0

    def refill(self, replies_ready: int) -> None:
        """Begin a step. While too many replies are ready, nothing is left for serving."""
        self.cost = COST_A_STEP if replies_ready < REPLIES_READY_MAX else 0
        self.read_bytes = 0
        self.replies = REPLIES_A_STEP
        self.encoded_bytes = 0

    def read(self, size: int) -> None:
        """Charge `size` bytes of records; beyond the limit nothing more is served in this step."""
        self.read_bytes += size
        if self.read_bytes >= BYTES_A_STEP:
            self.cost = 0

    def sent(self, size: int) -> None:
        """Charge one reply or push of `size` bytes."""
        self.replies -= 1
        self.encoded_bytes += size

    @property
    def has_read_enough(self) -> bool:
        """True if reading more records must wait for the next step."""
        return self.read_bytes >= BYTES_A_STEP

    @property
    def may_send(self) -> bool:
        """True if another reply may be encoded in this step."""
        return self.replies > 0 and self.encoded_bytes < BYTES_A_STEP
