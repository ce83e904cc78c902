"""The ownership registry of one group: at most one owner per partition, epochs that only grow
(docs/spec/consumer-client.md#E, docs/spec/client-balanced-groups.md#8 and #15.4)."""

from collections.abc import Iterator

from coordinator.records.records import Owner, Ownership

Key = tuple[str, int]
"""A topic and the number of one of its partitions."""


class Owners:
    """State of the group's `Ownership` records. `granted` and `ended` make records and change nothing; `apply` alone
    changes the registry, live and at load alike."""

    __slots__ = ("_entries", "_keys_of")

    def __init__(self) -> None:
        self._entries: dict[Key, Ownership] = {}  # ended grants too, for their epochs
        self._keys_of: dict[str, dict[Key, None]] = {}

    def get(self, key: Key) -> Ownership | None:
        """Return the current grant."""
        entry = self._entries.get(key)
        return entry if entry is not None and entry.owner is not None else None

    def epoch(self, key: Key) -> int:
        """Epoch of the last grant; 0 if there never was one."""
        entry = self._entries.get(key)
        return 0 if entry is None else entry.epoch

    def of(self, member_id: str) -> list[Ownership]:
        """Grants of the member, in the order in which they were made."""
        return [self._entries[key] for key in self._keys_of.get(member_id, ())]

    def is_held_by(self, key: Key, member_id: str, epoch: int) -> bool:
        """Return true if the member owns the partition by the grant with this epoch."""
        entry = self._entries.get(key)
        return entry is not None and entry.epoch == epoch and _member(entry) == member_id

    def __iter__(self) -> Iterator[Ownership]:
        """Iterate over the current grants."""
        return (entry for entry in self._entries.values() if entry.owner is not None)

    def __bool__(self) -> bool:
        """Return true if the registry keeps any partition, granted or ended."""
        return bool(self._entries)

    @property
    def members(self) -> list[str]:
        """Members that own a partition."""
        return list(self._keys_of)

    @property
    def keys(self) -> list[Key]:
        """Every partition that was ever granted."""
        return list(self._entries)

    @property
    def entries(self) -> list[Ownership]:
        """The last record of each partition."""
        return list(self._entries.values())

    def granted(self, group_id: str, key: Key, owner: Owner) -> Ownership:
        """Build the record of the next grant. The caller checks that the grant may be made."""
        return Ownership(group_id, *key, self.epoch(key) + 1, owner)

    @staticmethod
    def ended(entry: Ownership) -> Ownership:
        """Build the record that ends the grant."""
        return Ownership(entry.group_id, entry.topic, entry.partition, entry.epoch)

    def apply(self, record: Ownership) -> None:
        """Apply a record that is in the log."""
        key = record.topic, record.partition
        self._forget(key)
        self._entries[key] = record
        if record.owner is not None:
            self._keys_of.setdefault(record.owner.member_id, {})[key] = None

    def drop(self, key: Key) -> None:
        """Drop the partition from the registry."""
        self._forget(key)
        self._entries.pop(key, None)

    def _forget(self, key: Key) -> None:
        known = self._entries.get(key)
        if known is None or known.owner is None:
            return
        member_id = known.owner.member_id
        del self._keys_of[member_id][key]
        if not self._keys_of[member_id]:
            del self._keys_of[member_id]

    def check(self) -> None:
        """Assert the invariants between any two steps; tests call it after each."""
        held = {key: _member(entry) for key, entry in self._entries.items() if entry.owner is not None}
        assert held == {key: member_id for member_id, keys in self._keys_of.items() for key in keys}
        assert all(entry.epoch > 0 for entry in self._entries.values())


def _member(entry: Ownership) -> str | None:
    return None if entry.owner is None else entry.owner.member_id
