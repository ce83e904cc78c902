"""Members named in a command's arguments."""

from collections.abc import Sequence

from muster.admin.asking import NotFound
from protocol.messages.groups import DescribedGroup, DescribedMember


def named_members(
    group: DescribedGroup,
    member_ids: Sequence[str] | None,
    client_ids: Sequence[str] | None,
    instance_ids: Sequence[str] | None = None,
) -> list[DescribedMember]:
    """Return the members with one of these ids. Raises NotThere if there are none."""
    found = [
        one
        for one in group.members
        if one.member_id in (member_ids or ())
        or one.client_id in (client_ids or ())
        or (one.group_instance_id is not None and one.group_instance_id in (instance_ids or ()))
    ]
    if not found:
        raise NotFound(f"group {group.group_id!r} has no such member: see `muster groups describe`")
    return found
