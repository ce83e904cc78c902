"""A member of a group that the coordinator balances (KIP-848, docs/spec/consumer-group-protocol.md#17), without I/O.

It has the interface of `membership.core.Membership`: one request replaces JoinGroup, SyncGroup, Heartbeat and
LeaveGroup, and the coordinator sets the partitions that the member may own.
"""

from collections.abc import Callable, Iterable

from membership.core import Membership
from membership.member import MemberSettings
from membership.server_driven.auto import AutoMembership
from membership.server_driven.core import ServerDrivenMembership

__all__ = ["AutoMembership", "ServerDrivenMembership", "make_membership"]

_CORES: dict[str, type[Membership]] = {
    "classic": Membership,
    "consumer": ServerDrivenMembership,
    "auto": AutoMembership,
}


def make_membership(settings: MemberSettings, topics: Iterable[str], jitter: Callable[[], float]) -> Membership:
    """Make a member for the configured group protocol."""
    return _CORES[settings.group_protocol](settings, topics, jitter)
