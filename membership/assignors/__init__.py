"""The assignors: pure functions run by the leader of a group (docs/spec/group-protocol.md#6.2 to #6.6,
docs/spec/consumer-client.md#F).

Every assignor guarantees: each partition of a subscribed topic is assigned to exactly one member that subscribed to it
(except that a cooperative assignor withholds it until its owner has revoked it), every member has an entry, possibly
empty, and the same input gives the same result on every machine and for any order of members. `register` adds one.
"""

from membership.assignors.cooperative import UnsafeAssignment, verify_cooperative
from membership.assignors.model import (
    NO_RACKS,
    Assign,
    Assignment,
    Assignor,
    Racks,
    RebalanceProtocol,
    Subscriber,
    UserData,
    in_member_order,
)
from membership.assignors.ranges import assign_range
from membership.assignors.registry import by_name, common_protocol, register
from membership.assignors.round_robin import assign_round_robin
from membership.assignors.sticky import assign_cooperative_sticky, assign_sticky

__all__ = [
    "NO_RACKS",
    "Assign",
    "Assignment",
    "Assignor",
    "Racks",
    "RebalanceProtocol",
    "Subscriber",
    "UnsafeAssignment",
    "UserData",
    "assign_cooperative_sticky",
    "assign_range",
    "assign_round_robin",
    "assign_sticky",
    "by_name",
    "common_protocol",
    "in_member_order",
    "register",
    "verify_cooperative",
]
