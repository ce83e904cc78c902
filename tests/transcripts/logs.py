"""Records that a log may hold although this service does not write them: of other versions, of other kinds."""

from collections.abc import Callable
from struct import pack

from coordinator.records.codec import encode
from coordinator.records.records import CommittedOffset, GroupTombstone, OffsetTombstone

Pair = tuple[bytes, bytes | None]
_GROUP_KEY = b"\x00\x02\x00\x01g"
_OFFSET_KEY = b"\x00\x01\x00\x01g\x00\x01t"


def write_log(words: list[str]) -> list[Pair]:
    """Return the records that the words name, of group `g`."""
    return [_KINDS[word]() for word in words]


def _text(word: str) -> bytes:
    return pack(">h", len(word)) + word.encode()


def _compact(data: bytes) -> bytes:
    return bytes([len(data) + 1]) + data


def _member_v0() -> bytes:
    return b"".join(
        (_text("m-1"), _text("m"), _text("/h"), pack(">i", 7_000), pack(">i", 1) + b"s", pack(">i", 1) + b"A")
    )


def _group_v0() -> Pair:
    head = pack(">h", 0) + _text("consumer") + pack(">i", 3) + _text("range") + _text("m-1") + pack(">i", 1)
    return _GROUP_KEY, head + _member_v0()


def _empty_group_v1() -> Pair:
    return _GROUP_KEY, pack(">h", 1) + _text("consumer") + pack(">ihhi", 3, -1, -1, 0)


def _group_v4_with_tags() -> Pair:
    tags = b"\x01\x63\x02zz"
    head = pack(">h", 4) + _compact(b"consumer") + pack(">i", 3) + _compact(b"range") + _compact(b"m-1") + pack(">q", 5)
    member = b"".join(
        (
            _compact(b"m-1"),
            b"\x00",
            _compact(b"m"),
            _compact(b"/h"),
            pack(">ii", 9_000, 7_000),
            _compact(b"s"),
            _compact(b"A"),
            tags,
        )
    )
    return _GROUP_KEY, head + b"\x02" + member + tags


def _offset_v4_with_tags() -> Pair:
    value = pack(">hqi", 4, 77, -1) + _compact(b"ab") + pack(">q", 5) + b"\x02\x00\x10" + bytes(16) + b"\x63\x01z"
    return _OFFSET_KEY + pack(">i", 0), value


_KINDS: dict[str, Callable[[], Pair]] = {
    "unknown-kind": lambda: (pack(">h", 77) + b"whatever", b"anything"),
    "group-v0": _group_v0,
    "empty-group-v1": _empty_group_v1,
    "group-v4-with-tags": _group_v4_with_tags,
    "group-gone": lambda: encode(GroupTombstone("g")),
    "offset-v4-with-tags": _offset_v4_with_tags,
    "t-1=5": lambda: encode(CommittedOffset("g", "t", 1, 5, -1, "", 9)),
    "t-1-gone": lambda: encode(OffsetTombstone("g", "t", 1)),
    "group-v9": lambda: (_GROUP_KEY, pack(">h", 9) + b"from the future"),
}
