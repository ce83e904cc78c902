"""Committed offsets in a shard's memory."""

import msgspec
from msgspec.structs import replace

from coordinator.groups.classic.events import Client


class Committer(msgspec.Struct, frozen=True, gc=False):
    """Sender of a commit. If it is no member, `member_id` is empty and `generation_id` negative."""

    member_id: str
    generation_id: int
    client: Client


class OffsetAndMetadata(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """A committed offset in memory. `topic_id`: the id of the topic that had the name at the time of the commit; None
    if it was not known. `previous_offset` (-1: none) and `committer` are the offset before the commit and the commit's
    sender; `repeated_since_ms` is the time of the first commit of this offset if later ones repeated it, else -1. The
    log does not contain these three, so they are only known for commits since the start."""

    offset: int
    leader_epoch: int
    metadata: str
    commit_timestamp_ms: int
    expire_timestamp_ms: int
    topic_id: bytes | None = None
    previous_offset: int = -1
    committer: Committer | None = None
    repeated_since_ms: int = -1

    def recorded(self) -> "OffsetAndMetadata":
        """Return the fields that the log contains."""
        return (
            self if self.committer is None else replace(self, previous_offset=-1, committer=None, repeated_since_ms=-1)
        )

    def first_committed_ms(self) -> int:
        """Return the time since which the group has had this offset."""
        return self.commit_timestamp_ms if self.repeated_since_ms < 0 else self.repeated_since_ms
