"""Who gets which partition: pure functions that the leader of a group runs (docs/spec/group-protocol.md#6.2 to #6.6,
docs/spec/consumer-client.md#F).

What every assignor promises: each partition of a subscribed topic goes to exactly one member that subscribed to it
(but for what a cooperative one holds back until its owner has let go), every member has an entry, possibly empty, and
the same input gives the same answer wherever it runs and in whatever order members are named. `register` adds one.
"""

from muster.assignors.cooperative import UnsafeAssignment, verify_cooperative
from muster.assignors.model import (
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
from muster.assignors.ranges import assign_range
from muster.assignors.registry import by_name, common_protocol, register
from muster.assignors.round_robin import assign_round_robin
from muster.assignors.sticky import assign_cooperative_sticky, assign_sticky

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
