"""The test at every start that the brokers fence former owners, whatever their make and version
(docs/spec/shared-log.md#Recommended.8)."""

from collections.abc import Awaitable, Callable

from protocol.errors import ErrorCode

ProducerId = tuple[int, int]
"""A producer id and its epoch."""
AskId = Callable[[], Awaitable[ProducerId]]
Write = Callable[[ProducerId, int], Awaitable[ErrorCode]]
"""Writes one record with that sequence number."""

_ATTEMPTS = 2
"""The epochs of an id may be used up between two requests, but not twice."""
_LATE_SEQUENCE = 5


async def fault_of_brokers(ask_id: AskId, write: Write) -> str:
    """Return how the brokers fail to fence a former owner; empty if they fence it."""
    for _ in range(_ATTEMPTS):
        fault = await _try(ask_id, write)
        if fault is not None:
            return fault
    return "each InitProducerId gives another producer id, so that no former owner is fenced"


async def _try(ask_id: AskId, write: Write) -> str | None:
    """Return the fault, as above; None: the producer id changed, so that the test shows nothing."""
    former = await ask_id()
    if (error := await write(former, 0)) is not ErrorCode.NONE:
        return f"a first write of a producer id is answered {error.name}"
    owner = await ask_id()
    if owner[0] != former[0]:
        return None
    if owner[1] <= former[1]:
        return f"InitProducerId gives epoch {owner[1]} after {former[1]}"
    if (error := await write(owner, 0)) is not ErrorCode.NONE:
        return f"the first write of a new epoch is answered {error.name}"
    if (error := await write(former, 1)) is not ErrorCode.INVALID_PRODUCER_EPOCH:
        return f"a write of a former epoch is answered {error.name}"
    late = await ask_id()
    if late[0] != owner[0]:
        return None
    if (error := await write(late, _LATE_SEQUENCE)) is not ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER:
        return f"a new epoch that begins with sequence {_LATE_SEQUENCE} is answered {error.name}"
    return ""
