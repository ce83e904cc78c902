"""A committed offset as a shard keeps it."""

import msgspec


class OffsetAndMetadata(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """A committed offset as it is kept. `topic_id`: of the topic that had the name when it was committed; None if that
    was not known."""

    offset: int
    leader_epoch: int
    metadata: str
    commit_timestamp_ms: int
    expire_timestamp_ms: int
    topic_id: bytes | None = None
