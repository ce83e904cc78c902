"""The configured partitions of a group, and the version of their content (docs/spec/client-balanced-groups.md#9)."""

from collections.abc import Iterable
from hashlib import blake2b

from msgspec.structs import replace

from coordinator.groups.client_balanced.events import AskMeta, MetaMade
from coordinator.groups.client_balanced.grants import extend_lease
from coordinator.groups.client_balanced.notes import BalancedCause, note
from coordinator.groups.client_balanced.state import BalancedGroup
from coordinator.groups.outcome import Outcome
from coordinator.records.records import BalancedMetadata, Ownership
from protocol.errors import ErrorCode
from protocol.messages.balanced import PartitionMetaReply, PartitionsChanged, PartitionsLost, PartitionState
from protocol.words import counted


def digest_of(meta: Iterable[PartitionState]) -> bytes:
    """Return a digest that is equal for equal content in every process."""
    digest = blake2b(digest_size=8)
    for state in meta:
        digest.update(f"{state.key} {state.subscribable} {state.reason}\n".encode())
    return digest.digest()


def with_meta(record: BalancedMetadata, meta: Iterable[PartitionState]) -> BalancedMetadata:
    """Return the record with the version of this content: the version grows only if the content changed."""
    digest = digest_of(meta)
    if digest == record.meta_digest:
        return record
    return replace(record, meta_version=record.meta_version + 1, meta_digest=digest)


def is_current(group: BalancedGroup, as_of: int, shape: tuple[int, ...]) -> bool:
    """Return true if the stored partitions are still current, since most changes concern other topics; they count as
    made from this state of the topics then."""
    if not shape or shape != group.meta_shape or group.meta_as_of < 0:
        return False
    group.meta_as_of = as_of
    return True


def store_meta(group: BalancedGroup, event: MetaMade, out: Outcome) -> None:
    """Store the new content: grants of deleted partitions end, and members with a connection are notified."""
    stored = group.on_record
    group.meta, group.meta_as_of = {state.key: state for state in event.meta}, event.as_of
    group.meta_shape = event.shape
    orphaned = [entry for entry in group.owners if group.key_of(entry) not in group.meta]
    record = with_meta(stored, event.meta)
    if record is stored and not orphaned:
        return
    if record is not stored:
        out.records.append(record)
        changed = PartitionsChanged(group.group_id, stored.topics)
        out.pushes += [(one.connection, changed) for one in group.members.values() if one.connection >= 0]
    out.is_splittable = True
    out.records.extend(map(group.owners.ended, orphaned))
    _notify_lost(group, orphaned, out)


def _notify_lost(group: BalancedGroup, orphaned: list[Ownership], out: Outcome) -> None:
    by_member: dict[str, list[str]] = {}
    for entry in orphaned:
        assert entry.owner is not None
        by_member.setdefault(entry.owner.member_id, []).append(group.key_of(entry))
    for member_id, keys in by_member.items():
        member = group.members.get(member_id)
        if member is not None:
            member.lost |= dict.fromkeys(keys, ErrorCode.NOT_FOUND)
            if member.connection >= 0:
                lost = PartitionsLost(group.group_id, member_id, tuple(keys), BalancedCause.PARTITIONS_GONE.value)
                out.pushes.append((member.connection, lost))
        detail = f"it had {counted(len(keys), 'partition')} that are gone: {_some(keys)}"
        note(group, out, BalancedCause.PARTITIONS_GONE, member_id, detail, len(group.members))


def _some(keys: list[str], most: int = 5) -> str:
    return ", ".join(keys[:most]) + (" and more" if len(keys) > most else "")


def reply_meta(group: BalancedGroup, event: AskMeta, out: Outcome) -> None:
    """Answer with all configured partitions if the member does not have this version. The request extends the member's
    lease."""
    extend_lease(group.members[event.consumer_id], out.moment.monotonic_ms)
    version = group.on_record.meta_version
    meta = None if event.request.meta_version == version else tuple(group.meta.values())
    out.reply(event.ref, PartitionMetaReply(meta_version=version, meta=meta))
