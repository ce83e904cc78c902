"""Results of the calls of a client-balanced consumer (docs/spec/client-balanced-groups.md#5 and #15.2)."""

import enum
from typing import Any

import msgspec

from protocol.errors import ErrorCode


class Code(enum.IntEnum):
    """Codes of a `Result`, with TubeMQ's numbers. Other codes are those of `protocol.errors`."""

    OK = 200
    MOVED = 301
    BAD_REQUEST = 400
    NOT_OWNER_COMMIT = 401
    EMPTY_REPLY = 402
    FORBIDDEN = 403
    NOT_FOUND = 404
    ALL_FROZEN = 405
    NONE_REGISTERED = 406
    ALL_WAITING = 407
    ALL_IN_USE = 408
    PARTITION_OCCUPIED = 410
    NO_NODE = 411
    DUPLICATE_PARTITION = 412
    CERTIFICATE = 415
    CLIENT_SHUTDOWN = 420
    HIGH_FREQUENCY = 421
    UNSUBSCRIBABLE = 422
    INCONSISTENT_MODE = 424
    INCONSISTENT_TOPICS = 425
    INCONSISTENT_FILTERS = 426
    INCONSISTENT_SOURCE_COUNT = 429
    DUPLICATE_NODE_ID = 430
    TOPIC_NOT_DEPLOYED = 431
    GROUP_FORBIDDEN = 450
    SPEED_LIMIT = 452
    CONTENT_FORBIDDEN = 455
    REPLACED_MEMBER = 461
    INTERNAL = 500
    UNAVAILABLE = 503


NORMAL = frozenset({400, 404, 405, 406, 407, 408})
"""Codes of `get_message` that are no errors: call it again."""


class Result(msgspec.Struct, frozen=True):
    """`code` is 200 on success; `msg` is a sentence for people. `data` depends on the call; None where it failed."""

    ok: bool
    code: int = Code.OK
    msg: str = ""
    data: Any = None


class OffsetInfo(msgspec.Struct, frozen=True, gc=False):
    """The position in a partition: the next offset to hand out, where its log ends, and when that was heard
    (milliseconds of the wall clock).
    """

    curr: int
    max: int
    updated_ms: int


class Batch(msgspec.Struct, frozen=True):
    """Records of one partition, and the context that `confirm_consume` wants. No more come of it until then. `curr` is
    the next offset after them, `max` the end of the partition's log."""

    key: str
    topic: str
    messages: tuple[Any, ...]
    curr: int
    max: int
    confirm_ctx: str


class Confirm(msgspec.Struct, frozen=True, gc=False):
    """The result of a confirmation; -1 where it is not known (`confirm_in_local`)."""

    key: str
    topic: str
    curr: int = -1
    max: int = -1


def success(data: object = None, msg: str = "") -> Result:
    return Result(True, Code.OK, msg, data)


def failure(code: int, msg: str) -> Result:
    return Result(False, code, msg)


def code_of(error: ErrorCode) -> int:
    """Return the code of a `Result` for a wire error."""
    return Code.INTERNAL if error == ErrorCode.UNKNOWN_SERVER_ERROR else int(error)
