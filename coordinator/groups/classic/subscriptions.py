"""Topics that the members of a consumer group subscribe to (docs/spec/group-protocol.md#4.5). They are parsed on
demand, once for each list of topics, and never when members join, so that bytes that do not parse disturb nothing
(docs/spec/group-protocol.md#6).

`reading` parses some unknown lists at a time; `topics` then has little left to parse. The cache of all groups is
bounded: the least recently used groups are dropped, and parsed again at their next use.
"""

from collections import OrderedDict
from collections.abc import Iterator
from collections.abc import Set as AbstractSet

from coordinator.groups.classic.state import ClassicGroup

MOST_REMEMBERED = 1_000_000
"""Largest number of cached names and members, of all groups; each takes some 150 bytes."""
WORTH_BYTES = 64 * 1024
"""Size of metadata from which a group is cached: a smaller group is parsed in a few milliseconds."""
MOST_TOPICS = 50_000
"""Largest number of topics of a subscription. A longer one counts as unreadable, so as all topics: parsing it would
take too long."""
_PIECE_US = 500
_LOOK_US, _NAME_US = 1.5, 0.6
_HEAD_BYTES, _LEAST_NAME_BYTES = 6, 2
_NEGATIVE = 0x80


class _Topics:
    """A list of topics as members encode it, and the number of members that have it."""

    __slots__ = ("data", "members")

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.members = 0

    def begins(self, metadata: bytes) -> bool:
        """Return true if the member's bytes begin with this list and are a valid subscription."""
        end = 2 + len(self.data)
        return metadata.startswith(self.data, 2) and _has_user_data(metadata, end)


class Subscriptions:
    """Subscriptions of one group. `parses` counts the lists that were parsed name by name."""

    __slots__ = ("_as_of", "_lists", "_read", "_readers", "_unreadable", "group", "parses")

    def __init__(self, group: ClassicGroup) -> None:
        self.group = group
        self.parses = 0
        self._as_of: tuple[int, str | None] | None = None
        self._read: dict[str, tuple[bytes, _Topics | None]] = {}  # by member; None: unreadable
        self._lists: dict[bytes, _Topics] = {}
        self._readers: dict[str, int] = {}  # lists with the topic
        self._unreadable = 0

    def __len__(self) -> int:
        return len(self._readers) + len(self._read)

    def reading(self) -> Iterator[int]:
        """Parse the unknown lists; yields the work done in microseconds, roughly."""
        as_of = self.group.offers_version, self.group.protocol_name
        if as_of == self._as_of or self.group.protocol_name is None:
            return
        latest: _Topics | None = None
        work = 0.0
        for member_id in {**self._read, **self.group.members}:
            work += _LOOK_US + _NAME_US * self._look(member_id, latest)
            if work >= _PIECE_US:
                yield int(work)
                work = 0.0
            latest = self._read.get(member_id, (b"", None))[1] or latest
        self._as_of = as_of

    def topics(self) -> AbstractSet[str] | None:
        """Return the topics subscribed to now; None if unknown, which counts as all."""
        if self.group.protocol_name is None:
            return None
        for _ in self.reading():
            pass
        return None if self._unreadable else self._readers.keys()

    def _look(self, member_id: str, latest: _Topics | None) -> int:
        """Replace the member's cached subscription by the latest one. Return the number of names parsed."""
        known, member = self._read.get(member_id), self.group.members.get(member_id)
        if member is None:
            return self._drop(member_id)
        metadata = member.metadata_for(self.group.protocol_name)
        if known is not None and known[0] == metadata:
            return 0
        for likely in (known[1] if known is not None else None, latest):
            if likely is not None and likely.members and likely.begins(metadata):
                likely.members += 1
                dropped = self._drop(member_id)
                self._read[member_id] = metadata, likely
                return dropped
        dropped = self._drop(member_id)
        self.parses += 1
        names = names_of(metadata)
        if names is None:
            self._unreadable += 1
            self._read[member_id] = metadata, None
            return dropped
        data = metadata[2 : _HEAD_BYTES + sum(map(len, names)) + _LEAST_NAME_BYTES * len(names)]
        ones = self._lists.get(data)
        if ones is None:
            ones = self._lists[data] = _Topics(data)
            self._count(names, 1)
        ones.members += 1
        self._read[member_id] = metadata, ones
        return dropped + len(names)

    def _drop(self, member_id: str) -> int:
        if member_id not in self._read:
            return 0
        _metadata, ones = self._read.pop(member_id)
        if ones is None:
            self._unreadable -= 1
            return 0
        ones.members -= 1
        if ones.members:
            return 0
        del self._lists[ones.data]
        names = names_of(b"\0\0" + ones.data + b"\xff\xff\xff\xff") or []
        self._count(names, -1)
        return len(names)

    def _count(self, names: list[bytes], by: int) -> None:
        readers = self._readers
        for name in names:
            text = name.decode(errors="replace")
            count = readers.get(text, 0) + by
            if count:
                readers[text] = count
            else:
                del readers[text]


class SubscriptionCache:
    """Least-recently-used cache of the subscriptions of a node's large groups."""

    __slots__ = ("_known", "_size")

    def __init__(self) -> None:
        self._known: OrderedDict[str, tuple[Subscriptions, int]] = OrderedDict()
        self._size = 0

    def of(self, group: ClassicGroup) -> Subscriptions:
        """Return the group's subscriptions. Those of a small group are not cached."""
        known, size = self._known.pop(group.group_id, (None, 0))
        self._size -= size
        if known is None or known.group is not group:
            known = Subscriptions(group)
        if group.metadata_bytes >= WORTH_BYTES:
            # The size counts the names parsed so far: names that are parsed next count at the next use.
            self._known[group.group_id] = known, len(known)
            self._size += len(known)
            while self._size > MOST_REMEMBERED and len(self._known) > 1:
                self._size -= self._known.popitem(last=False)[1][1]
        return known


def names_of(metadata: bytes) -> list[bytes] | None:
    """Return the encoded topic names of a member's bytes; None if the bytes are no subscription. Parsed as version 0,
    which begins every version: fields that later versions add may be malformed (docs/spec/group-protocol.md#4.5)."""
    if len(metadata) < _HEAD_BYTES:
        return None
    count = int.from_bytes(metadata[2:_HEAD_BYTES], "big", signed=True)
    if not 0 <= count <= MOST_TOPICS:
        return None
    names, at, end = [], _HEAD_BYTES, len(metadata)
    for _ in range(count):
        start = at + 2
        if start > end or metadata[at] >= _NEGATIVE:
            return None
        at = start + (metadata[at] << 8 | metadata[at + 1])
        names.append(metadata[start:at])
    return names if at <= end and _has_user_data(metadata, at) else None


def _has_user_data(metadata: bytes, at: int) -> bool:
    """Return true if nullable bytes are encoded at the position."""
    rest = len(metadata) - at - 4
    return rest >= 0 and int.from_bytes(metadata[at : at + 4], "big", signed=True) <= rest
