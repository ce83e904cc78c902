"""EDGE: ids from the system's randomness."""

import os
import uuid


class RandomIds:
    """Ids that cannot be guessed."""

    def member_id(self, prefix: str) -> str:
        return f"{prefix}-{uuid.uuid4()}"

    def topic_id(self) -> bytes:
        return uuid.uuid4().bytes

    def producer_id(self) -> int:
        return int.from_bytes(os.urandom(8), "big") >> 1
