"""Committed offsets as a shard keeps them."""

import msgspec

from coordinator.groups.classic.events import Client


class Committer(msgspec.Struct, frozen=True, gc=False):
    """Sender of a commit. `member_id` is empty, and `generation_id` negative, of one that is no member."""

    member_id: str
    generation_id: int
    client: Client


class OffsetAndMetadata(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """A committed offset as it is kept. `topic_id`: of the topic that had the name when it was committed; None if that
    was not known."""

    offset: int
    leader_epoch: int
    metadata: str
    commit_timestamp_ms: int
    expire_timestamp_ms: int
    topic_id: bytes | None = None


class TopicOffsets(dict[int, OffsetAndMetadata]):
    """Offsets of a group in one topic, by partition. `origins`: previous offset (-1: none) and sender of each commit
    that was made since the start; None before the first."""

    __slots__ = ("origins",)

    def __init__(self) -> None:
        super().__init__()
        self.origins: dict[int, tuple[int, Committer]] | None = None

    def forget_origin(self, partition: int) -> None:
        """Forget who has sent the commit."""
        if self.origins is not None:
            self.origins.pop(partition, None)
