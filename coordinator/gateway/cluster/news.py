"""Records of the notes topic: notes and moves, for the other nodes and for later starts. Values are JSON, so that
people can read them. Unknown fields are ignored, and so are records of an unknown kind."""

from collections.abc import Iterable, Iterator

import msgspec

from coordinator.cluster_node.nodes import LetGo, News, Taken
from coordinator.records.records import Note
from protocol.record_batch import CorruptBatch, batches, decode_records, encode_batch, record_bytes


class NewsRecord(msgspec.Struct, frozen=True, omit_defaults=True):
    """A record. `by` is the process that wrote it, which ignores the record when it reads it back."""

    by: str
    note: Note | None = None
    let_go: LetGo | None = None
    taken: Taken | None = None

    @property
    def news(self) -> News | None:
        """Return what it tells; None for a kind that a later version knows."""
        return self.note or self.let_go or self.taken


def encode_news(news: Iterable[News], by: str, wall_ms: int) -> bytes:
    """Encode a batch. The key is the id of the group, so that people can filter by it; empty for records about no
    group."""
    pairs: list[tuple[bytes | None, bytes | None]] = []
    for one in news:
        match one:
            case LetGo():
                pairs.append((b"", msgspec.json.encode(NewsRecord(by, let_go=one))))
            case Taken():
                pairs.append((b"", msgspec.json.encode(NewsRecord(by, taken=one))))
            case Note():
                pairs.append((one.group_id.encode(), msgspec.json.encode(NewsRecord(by, note=one))))
    return encode_batch(pairs, timestamp_ms=wall_ms)


def decode_news(data: bytes, offset: int, own: str) -> tuple[int, list[News]]:
    """Decode batches that were read from `offset`; return the offset to continue from, and the records of other
    processes than `own`. A batch that cannot be read is skipped, since lost history must not keep a node from
    serving."""
    found: list[News] = []
    for next_offset, values in _values(data, offset):
        offset = max(offset, next_offset)
        for value in values:
            try:
                record = msgspec.json.decode(value, type=NewsRecord)
            except msgspec.DecodeError:
                continue
            if record.by != own and record.news is not None:
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
