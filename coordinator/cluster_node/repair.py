"""Present values of keys of a shard's log, to be written again after records that do not count."""

from collections.abc import Iterable, Iterator

from coordinator.cluster_log.entries import Pair, is_pending_key
from coordinator.groups.consumer.record_builders import records_of
from coordinator.records.codec import decode, encode
from coordinator.records.records import CommittedOffset, GroupSettingsRecord, OffsetTombstone, ShardRecord
from coordinator.runtime.shard import Shard


def present_values(shard: Shard, keys: Iterable[bytes]) -> Iterator[Pair]:
    """Return each key with its value in the state of the shard; a key that the state does not have gets a tombstone. A
    key of a kind that only a later version knows is left to it: the state here is without it."""
    for key in keys:
        gone = decode(key, None)
        if gone is None and not is_pending_key(key):
            continue
        kept = () if gone is None else _records_of(shard, gone)
        yield next((pair for pair in map(encode, kept) if pair[0] == key), (key, None))


def _records_of(shard: Shard, gone: ShardRecord) -> Iterator[ShardRecord]:
    """Return the records that keep what this tombstone would end, and others of its group."""
    if isinstance(gone, OffsetTombstone):
        kept = shard.offsets.get(gone.group_id, gone.topic, gone.partition)
        if kept is not None:
            yield CommittedOffset(
                gone.group_id,
                gone.topic,
                gone.partition,
                kept.offset,
                kept.leader_epoch,
                kept.metadata,
                kept.commit_timestamp_ms,
                kept.expire_timestamp_ms,
                kept.topic_id,
            )
        return
    if isinstance(gone, GroupSettingsRecord):
        yield GroupSettingsRecord(gone.group_id, shard.own_settings.get(gone.group_id))
        return
    group = shard.groups.get(gone.group_id)
    if group is None:
        return
    if group.classic.stored is not None:
        yield group.classic.stored
    yield from group.classic.owners.entries if group.classic.owners is not None else ()
    if group.balanced is not None and group.balanced.stored is not None:
        yield group.balanced.stored
    if group.consumer is not None:
        yield from records_of(group.consumer)
