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
    sender; the log does not contain them, so they are only known for commits since the start."""

    offset: int
    leader_epoch: int
    metadata: str
    commit_timestamp_ms: int
    expire_timestamp_ms: int
    topic_id: bytes | None = None
    previous_offset: int = -1
    committer: Committer | None = None

    def recorded(self) -> "OffsetAndMetadata":
        """Return the fields that the log contains."""
        return self if self.committer is None else replace(self, previous_offset=-1, committer=None)
