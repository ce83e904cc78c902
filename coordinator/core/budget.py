"""The budget of one step of the node: all other clients' heartbeats wait behind a step, so it has to stay short."""

COST_A_STEP = 5_000
"""Cost (see `request_cost`) served of one connection, or of all that wait, before others have their turn. A heartbeat
costs one."""
BYTES_A_STEP = 256 * 1024
"""Bytes of records read, and bytes of replies encoded: whatever exceeds them is the last of its step."""
READS_A_STEP = 64
"""Reads of sockets that an edge steps together at most; it also ends a step's reads at `BYTES_A_STEP`."""
REPLIES_A_STEP = 256
REPLIES_READY_MAX = 16_384
"""Replies made and not yet encoded; beyond them no requests are served."""
OVERDUE_A_STEP = 256


class Budget:
    """Remainder of the budget of the present step. `cost`: for requests to serve; `replies`: for messages to send;
    `has_read_enough`: reading more records must wait for the next step."""

    __slots__ = ("_encoded_bytes", "_read_bytes", "cost", "has_read_enough", "replies")

    def __init__(self) -> None:
        self.cost = self.replies = self._read_bytes = self._encoded_bytes = 0
        self.has_read_enough = False

    def refill(self, replies_ready: int) -> None:
        """Begin a step. While too many replies are ready, nothing is left for serving."""
        self.cost = COST_A_STEP if replies_ready < REPLIES_READY_MAX else 0
        self.replies = REPLIES_A_STEP
        self._read_bytes = self._encoded_bytes = 0
        self.has_read_enough = False

    def read(self, size: int) -> None:
        """Charge `size` bytes of records; beyond the limit nothing more is served in this step."""
        self._read_bytes += size
        if self._read_bytes >= BYTES_A_STEP:
            self.cost = 0
            self.has_read_enough = True

    def sent(self, size: int) -> None:
        """Charge one reply or push of `size` bytes; beyond the limit nothing more is encoded in this step."""
        self._encoded_bytes += size
        self.replies = self.replies - 1 if self._encoded_bytes < BYTES_A_STEP else 0
