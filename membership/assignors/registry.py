"""The assignors that a group can agree on, by name."""

from collections.abc import Iterable

from membership.assignors.model import Assignor, RebalanceProtocol
from membership.assignors.ranges import assign_range
from membership.assignors.round_robin import assign_round_robin
from membership.assignors.sticky import assign_cooperative_sticky, assign_sticky
from membership.assignors.user_data import cooperative_user_data, sticky_user_data


def register(assignor: Assignor) -> None:
    """Make an assignor known under its name. Raises ValueError if the name is taken."""
    if assignor.name in _BY_NAME:
        raise ValueError(f"an assignor named {assignor.name!r} is registered already")
    _BY_NAME[assignor.name] = assignor


def by_name(name: str) -> Assignor:
    """Return the assignor of this name. Raises ValueError with the known names."""
    if name not in _BY_NAME:
        raise ValueError(f"there is no assignor named {name!r}; known are {', '.join(sorted(_BY_NAME))}")
    return _BY_NAME[name]


def common_protocol(names: Iterable[str]) -> RebalanceProtocol:
    """Return the rebalance protocol of a member with these assignors: the highest that all of them support
    (docs/spec/group-protocol.md#6.2). Raises ValueError for an unknown name, for no name, and if they share none.
    """
    offered = [by_name(name) for name in names]
    common = [each for each in RebalanceProtocol if offered and all(each in one.rebalance_protocols for one in offered)]
    if not common:
        raise ValueError(f"no way to rebalance is common to the assignors {[one.name for one in offered]}")
    return max(common)


_BY_NAME: dict[str, Assignor] = {}

register(Assignor("range", assign_range))
register(Assignor("roundrobin", assign_round_robin))
register(Assignor("sticky", assign_sticky, user_data=sticky_user_data))
register(
    Assignor(
        "cooperative-sticky",
        assign_cooperative_sticky,
        (RebalanceProtocol.COOPERATIVE, RebalanceProtocol.EAGER),
        cooperative_user_data,
    )
)
