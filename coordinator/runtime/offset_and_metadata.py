"""Committed offsets as a shard keeps them."""

import msgspec
from msgspec.structs import replace

from coordinator.groups.classic.events import Client


class Committer(msgspec.Struct, frozen=True, gc=False):
    """Sender of a commit. `member_id` is empty, and `generation_id` negative, of one that is no member."""

    member_id: str
    generation_id: int
    client: Client


class OffsetAndMetadata(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """A committed offset as it is kept. `topic_id`: of the topic that had the name when it was committed; None if that
    was not known. `previous_offset` (-1: none) and `committer` say what was there before and who has sent the commit;
    the log does not have them, so they are known of commits since the start alone."""

    offset: int
    leader_epoch: int
    metadata: str
    commit_timestamp_ms: int
    expire_timestamp_ms: int
    topic_id: bytes | None = None
    previous_offset: int = -1
    committer: Committer | None = None

    def recorded(self) -> "OffsetAndMetadata":
        """Return what the log has of it."""
        return self if self.committer is None else replace(self, previous_offset=-1, committer=None)
