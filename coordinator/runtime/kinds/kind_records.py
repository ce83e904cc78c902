"""Records of server-driven consumer groups in a shard: their application to the group's state, and the records of a
deletion (docs/spec/consumer-group-protocol.md#14)."""

from typing import TYPE_CHECKING

from coordinator.groups.consumer import applying
from coordinator.groups.consumer.record_builders import group_tombstones
from coordinator.records.consumer_records import ConsumerKey, ConsumerRecord, ConsumerTombstone
from coordinator.records.records import BalancedTombstone, GroupSettingsRecord, GroupTombstone, ShardRecord
from coordinator.runtime.group import Group, GroupKind

if TYPE_CHECKING:
    from coordinator.runtime.shard import Shard


def apply_further(shard: "Shard", record: ConsumerRecord | GroupSettingsRecord, group: Group | None) -> None:
    """Apply a record that only some kinds of groups have."""
    if not isinstance(record, GroupSettingsRecord):
        _apply_consumer(shard, record, group)
        return
    if shard.log.files is not None:
        return  # moved here from the cluster's log: a node with a log of its own keeps settings elsewhere
    shard.own_settings.set(record.group_id, record.settings)
    known = shard.groups.get(record.group_id)
    if known is not None:
        known.classic.settings = shard.own_settings.in_force(record.group_id)
        if known.consumer is not None:  # sessions of its members may begin before its next request
            known.consumer.settings = shard.new_consumer(record.group_id).settings


def _apply_consumer(shard: "Shard", record: ConsumerRecord, group: Group | None) -> None:
    """Apply the record. A tombstone of an absent group changes nothing; any other makes the group if it is absent, and
    one that only has offsets becomes a consumer group."""
    known = shard.groups.get(record.group_id)
    if isinstance(record, ConsumerTombstone):
        if known is None or known.consumer is None:
            return
        if record.key is ConsumerKey.GROUP:
            shard.remove(record.group_id)
            return
    present = known or shard.adopt(group or shard.new_group(record.group_id))
    present.consumer = present.as_consumer()
    if present.kind is not GroupKind.CONSUMER:
        present.become(GroupKind.CONSUMER)
    applying.apply(present.consumer, record)


def end_on_record(group: Group, records: list[ShardRecord]) -> None:
    """Add to the records that delete a group the tombstones of its other kinds. A consumer group has none of a classic
    group."""
    if type(records[-1]) is not GroupTombstone:
        return
    if group.balanced is not None:
        records.append(BalancedTombstone(group.group_id))
    if group.consumer is not None:
        tombstones = group_tombstones(group.consumer, ())
        records[:] = [record for record in records if type(record) is not GroupTombstone] + list(tombstones)
