from random import Random


class SimIds:
    """Ids in sequence; they need not be unguessable here."""

    def __init__(self, random: Random) -> None:
        self._random = random

    def member_id(self, prefix: str) -> str:
        return f"{prefix}-{self._random.getrandbits(48):012x}"

    def topic_id(self) -> bytes:
        return self._random.randbytes(16)

    def producer_id(self) -> int:
        return self._random.getrandbits(63)
