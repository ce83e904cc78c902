"""Requests about several groups, divided among the nodes that serve these, and the merging of their replies. Pure."""

from collections.abc import Callable, Sequence
from itertools import chain
from typing import Any, Final, TypeVar

from msgspec.structs import replace

from protocol.messages import Message
from protocol.messages.balanced import ConsumeFromMax, DescribeBalanced
from protocol.messages.groups import (
    ApplyOffsets,
    DescribeGroups,
    HoldGroup,
    LeaveGroup,
    ListGroups,
    ListGroupsReply,
    ListNotes,
    ListRefusals,
)
from protocol.messages.offsets import DescribeExpiry, ListGroupOffsets, OffsetDelete, OffsetFetch
from protocol.messages.ownership import DescribeOwnership
from protocol.messages.reports import DrainMembers

_OF_ONE_GROUP: Final = (
    ApplyOffsets,
    DescribeExpiry,
    DescribeOwnership,
    DrainMembers,
    HoldGroup,
    LeaveGroup,
    ListNotes,
    OffsetDelete,
)
_OF_GROUPS: Final = (ConsumeFromMax, DescribeBalanced, DescribeGroups, ListGroupOffsets, ListRefusals, OffsetFetch)
SHARED_REQUESTS: Final[tuple[type[Message], ...]] = (*_OF_ONE_GROUP, *_OF_GROUPS, ListGroups)
"""Requests that nodes send each other: those of pages about groups."""
_OF_ALL_IF_UNNAMED: Final = (DescribeBalanced, ListGroups, ListRefusals)
N = TypeVar("N")


def named_groups(message: Message) -> tuple[str, ...]:
    """Return the groups that a request names; empty if it is about no group, or about all."""
    if isinstance(message, _OF_ONE_GROUP):
        return (message.group_id,)
    if isinstance(message, _OF_GROUPS):
        return tuple(map(_group_id, message.groups or ()))
    return ()


def is_about_all(message: Message) -> bool:
    """Return whether each node has a part of the answer."""
    return isinstance(message, _OF_ALL_IF_UNNAMED) and not named_groups(message)


def divided(message: Any, node_of: Callable[[str], N]) -> dict[N, Message]:
    """Return a request for each node with only the node's groups, in their order."""
    shares: dict[N, list[Any]] = {}
    for one in message.groups:
        shares.setdefault(node_of(_group_id(one)), []).append(one)
    return {node: replace(message, groups=tuple(some)) for node, some in shares.items()}


def joined(message: Message, replies: Sequence[Message]) -> Message:
    """Merge the replies to the parts of a request. A list of groups is sorted by id, cut to its limit, and has each
    group once, also if it moved meanwhile and two nodes returned it; named groups are in the order of the request."""
    first = replies[0]
    lists = [name for name in first.__struct_fields__ if isinstance(getattr(first, name), tuple)]
    fields: dict[str, Any] = {
        name: tuple(chain.from_iterable(getattr(reply, name) for reply in replies)) for name in lists
    }
    if isinstance(message, ListGroups) and isinstance(first, ListGroupsReply):
        groups = {one.group_id: one for one in fields["groups"]}
        limit = message.limit if message.limit >= 0 else len(groups)
        fields["groups"] = tuple(groups[group_id] for group_id in sorted(groups)[:limit])
    elif "groups" in fields:
        order = {group_id: number for number, group_id in enumerate(named_groups(message))}
        fields["groups"] = tuple(sorted(fields["groups"], key=lambda one: (order.get(one.group_id, 0), one.group_id)))
    return replace(first, **fields)


def _group_id(named: Any) -> str:
    """Return the id of a group in a request, which is the id itself or an object with it."""
    return named if isinstance(named, str) else named.group_id
