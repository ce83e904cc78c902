"""Fast decoding of common commits, which are nearly all of a load: they are put into the offset table without an object
for the record, its key, or its texts.

Such a record ends in thirty bytes that are always in the same places: the partition, the length and version of the
value, offset, leader epoch, no text, the time, no tags, no headers. With the topic's id as its only tag there are 48.
The bytes before them, from the key's length on, hold group and topic and are the same for all partitions of a topic:
they are decoded once, and found in a dictionary after that. Any other record is decoded by `codec.decode`, which knows
every version.
"""

import struct

from coordinator.records.codec import ID_TAG, LENGTH_AND_VERSION, LENGTH_AND_VERSION_WITH_ID
from coordinator.runtime.offset_and_metadata import OffsetAndMetadata
from coordinator.runtime.shard import Shard
from protocol.record_writing import varint

_TAIL = struct.Struct(">i3sqiBq2s")
_TAIL_BYTES = _TAIL.size
_TAIL_WITH_ID = struct.Struct(">i3sqiBq3s16sB")
_MORE_WITH_ID = _TAIL_WITH_ID.size - _TAIL_BYTES
_NO_TEXT, _NO_HEADERS, _NO_TAGS_NO_HEADERS = 1, 0, b"\0\0"
_MOST_KNOWN = 100_000


class CommonCommits:
    """Applies runs of common commits to a shard. Call `clear` before anything else changes the shard's offsets."""

    def __init__(self, shard: Shard) -> None:
        self._shard = shard
        self._known: dict[bytes, tuple[dict[int, OffsetAndMetadata], str]] = {}

    def clear(self) -> None:
        self._known.clear()

    # A call costs more than its body.
    def apply(self, buffer: bytes, at: int, count: int) -> tuple[int, int]:  # noqa: C901, PLR0912
        """Apply up to `count` records from `at` on, until the first uncommon one. Return their number, and where the
        next one begins."""
        known, table, size = self._known, self._shard.offsets, len(buffer)
        unpack, unpack_with_id = _TAIL.unpack_from, _TAIL_WITH_ID.unpack_from
        number = 0
        try:
            while number < count:
                byte = buffer[at]
                if byte & 1:
                    break
                if byte < 0x80:
                    end = at + 1 + (byte >> 1)
                    key = at + 2
                else:
                    second = buffer[at + 1]
                    if second >= 0x80:
                        break
                    end = at + 2 + ((byte & 0x7F | second << 7) >> 1)
                    key = at + 3
                tail = end - _TAIL_BYTES
                if tail <= key or end > size:
                    break
                while buffer[key] >= 0x80:  # skip the timestamp, whatever it is
                    key += 1
                key += 1
                while buffer[key] >= 0x80:  # skip the record's index in the batch
                    key += 1
                key += 1
                partition, value_head, offset, epoch, text, ms, rest = unpack(buffer, tail)
                topic_id = None
                if value_head != LENGTH_AND_VERSION or text != _NO_TEXT or rest != _NO_TAGS_NO_HEADERS:
                    tail -= _MORE_WITH_ID
                    if tail <= key:
                        break
                    partition, value_head, offset, epoch, text, ms, tag, topic_id, last = unpack_with_id(buffer, tail)
                    if value_head != LENGTH_AND_VERSION_WITH_ID or (text, tag, last) != (_NO_TEXT, ID_TAG, _NO_HEADERS):
                        break
                head = buffer[key:tail]
                found = known.get(head) or self._learn(head)
                if found is None:
                    break
                partitions, topic = found
                if topic_id is not None:
                    topic_id = table.share_id(topic_id, topic)
                if partition not in partitions:
                    table.count += 1
                partitions[partition] = OffsetAndMetadata(offset, epoch, "", ms, -1, topic_id)
                at = end
                number += 1
        except IndexError:  # cut off: the careful decoder reports it
            pass
        return number, at

    def _learn(self, head: bytes) -> tuple[dict[int, OffsetAndMetadata], str] | None:
        """Return the dictionary for the commits of this group to this topic, and the topic; None if the bytes are no
        key of a commit."""
        for width in (1, 2):
            if head[:width] == varint(len(head) - width + 4):
                break
        else:
            return None
        key = head[width:]
        if key[:2] != b"\x00\x01" or len(key) < 6:
            return None
        topic_at = 4 + int.from_bytes(key[2:4], "big")
        if topic_at + 2 > len(key) or topic_at + 2 + int.from_bytes(key[topic_at : topic_at + 2], "big") != len(key):
            return None
        try:
            group_id, topic = key[4:topic_at].decode(), key[topic_at + 2 :].decode()
        except UnicodeDecodeError:
            return None
        if topic_at >= 0x8000 + 4 or len(key) - topic_at - 2 >= 0x8000:
            return None
        if len(self._known) >= _MOST_KNOWN:
            self._known.clear()
        found = self._known[head] = self._shard.partitions_of(group_id, topic), topic
        return found
