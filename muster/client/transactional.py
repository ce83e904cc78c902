"""Offsets of a group in a producer's transaction, and the member that commits them."""

from collections.abc import Mapping
from typing import Protocol

from membership.checks import check_name
from membership.events import OffsetToCommit
from membership.topic_partition import TopicPartition
from muster.core.completions import to_commit
from muster.core.producing.transaction_requests import OffsetsOfGroup
from muster.errors import TransactionFailed
from protocol.errors import ErrorCode


class CommittingMember(Protocol):
    """A member of a group, for instance the `member` of a consumer."""

    @property
    def group_id(self) -> str: ...
    @property
    def group_instance_id(self) -> str | None: ...
    @property
    def generation_id(self) -> int: ...
    @property
    def member_id(self) -> str: ...


def group_offsets(
    offsets: Mapping[TopicPartition, int | OffsetToCommit], group: str | CommittingMember
) -> OffsetsOfGroup:
    """Return the offsets for the core. A member commits only offsets of its assignment: a member without one has lost
    its partitions, and another member will read their records again. Raises TransactionFailed for such a member,
    ValueError for invalid offsets."""
    wanted = to_commit(offsets)
    if isinstance(group, str):
        return OffsetsOfGroup(check_name("a group id", group), wanted)
    generation_id, member_id = group.generation_id, group.member_id
    if generation_id < 0:
        sentence = f"the member of {group.group_id!r} is in no generation now: abort, and go on from what is committed"
        raise TransactionFailed(ErrorCode.ILLEGAL_GENERATION, sentence)
    return OffsetsOfGroup(group.group_id, wanted, generation_id, member_id, group.group_instance_id)
