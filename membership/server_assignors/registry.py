"""Server-side assignors by their names in the configuration."""

from collections.abc import Mapping, Sequence

from membership.server_assignors.heterogeneous import assign_heterogeneous
from membership.server_assignors.homogeneous import assign_homogeneous
from membership.server_assignors.ranges import assign_range
from membership.server_assignors.spec import Computation, ServerAssignor, SubscribedMember, SubscribedTopic


def assign_uniform(
    members: Sequence[SubscribedMember], topics: Mapping[bytes, SubscribedTopic], is_homogeneous: bool, /
) -> Computation:
    """Assign evenly; members keep their partitions as far as possible."""
    assign = assign_homogeneous if is_homogeneous else assign_heterogeneous
    return assign(members, topics)


ASSIGNORS: Mapping[str, ServerAssignor] = {"uniform": assign_uniform, "range": assign_range}
