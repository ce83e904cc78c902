"""Records of the notes topic: notes and moves, for the other nodes and for later starts. Values are JSON, so that
people can read them. Unknown fields are ignored, and so are records of an unknown kind."""

from collections import deque
from collections.abc import Iterable, Iterator
from typing import Final

import msgspec

from coordinator.cluster_node.nodes import LetGo, News, Taken
from coordinator.records.records import Note
from protocol.record_batch import CorruptBatch, batches, decode_records, encode_batch, record_bytes

_MOST_WAITING: Final = 20_000
_MOST_WAITING_BYTES: Final = 16 << 20
_MOST_A_BATCH: Final = 500
_BATCH_BYTES: Final = 1 << 20
"""Size from which a batch takes no further record; with the largest note, it is below the topic's limit."""


class NewsRecord(msgspec.Struct, frozen=True, omit_defaults=True):
    """A record. `by` is the process that wrote it, which ignores the record when it reads it back. `log`: id of the
    topic of offsets in which a move has its tag, in hexadecimal; empty if unknown."""

    by: str
    log: str = ""
    note: Note | None = None
    let_go: LetGo | None = None
    taken: Taken | None = None

    @property
    def news(self) -> News | None:
        """Return what it tells; None for a kind that a later version knows."""
        return self.note or self.let_go or self.taken


class NewsQueue:
    """Records of one process that are yet to be written. The oldest are dropped if there are too many. `log`: as in
    `NewsRecord`."""

    def __init__(self, by: str, log: str = "") -> None:
        self.log = log
        self._by = by
        self._records: deque[tuple[bytes, bytes]] = deque()
        self._bytes = 0

    def __len__(self) -> int:
        return len(self._records)

    def add(self, news: Iterable[News]) -> None:
        """Encode and add what is to be told. The key is the id of the group, so that people can filter by it; empty
        for records about no group."""
        for one in news:
            key = one.group_id.encode() if isinstance(one, Note) else b""
            value = msgspec.json.encode(_record(one, self._by, self.log))
            self._records.append((key, value))
            self._bytes += len(value)
        while len(self._records) > _MOST_WAITING or self._bytes > _MOST_WAITING_BYTES:
            self._take()

    def next_batch(self, wall_ms: int) -> bytes:
        """Remove the oldest records, and encode them as one batch that the topic accepts."""
        some: list[tuple[bytes, bytes]] = []
        size = 0
        while self._records and len(some) < _MOST_A_BATCH and size < _BATCH_BYTES:
            some.append(self._take())
            size += len(some[-1][1])
        return encode_batch(some, timestamp_ms=wall_ms)

    def _take(self) -> tuple[bytes, bytes]:
        record = self._records.popleft()
        self._bytes -= len(record[1])
        return record


def _record(one: News, by: str, log: str) -> NewsRecord:
    match one:
        case LetGo():
            return NewsRecord(by, log, let_go=one)
        case Taken():
            return NewsRecord(by, log, taken=one)
        case Note():
            return NewsRecord(by, note=one)


def decode_news(data: bytes, offset: int, own: str, log: str = "") -> tuple[int, list[News]]:
    """Decode batches that were read from `offset`; return the offset to continue from, and the records of other
    processes than `own`, without moves in another topic of offsets than `log`: offsets in a topic that was created anew
    are smaller. A batch that cannot be read is skipped, since lost history must not keep a node from serving."""
    found: list[News] = []
    for next_offset, values in _values(data, offset):
        offset = max(offset, next_offset)
        for value in values:
            try:
                record = msgspec.json.decode(value, type=NewsRecord)
            except msgspec.DecodeError:
                continue
            is_of_log = record.log in {log, ""} or not log
            if record.by != own and record.news is not None and is_of_log:
                found.append(record.news)
    return offset, found


def _values(data: bytes, offset: int) -> Iterator[tuple[int, list[bytes]]]:
    """Yield the offset behind each batch, and the values in it from `offset` on."""
    try:
        for header, batch in batches(data):
            values = []
            if header.record_count and not header.is_control:
                records = decode_records(record_bytes(header, batch), header)
                values = [one.value for one in records if one.value is not None and one.offset >= offset]
            yield header.next_offset, values
    except CorruptBatch:
        yield offset + 1, []
