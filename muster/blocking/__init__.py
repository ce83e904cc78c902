"""EDGE: the client for programs with threads and no event loop.

Most applications use `Consumer` and `Producer`, which build on `GroupMember` and `RangeReader`; `ClusterClient` sends
any request of the protocol to a node.
"""

from typing import TYPE_CHECKING

from muster._on_demand import names_on_demand

if TYPE_CHECKING:
    from muster.blocking.cluster import ClusterClient
    from muster.blocking.consumer import Consumer
    from muster.blocking.group_member import GroupMember
    from muster.blocking.producer import Producer
    from muster.blocking.range_reader import RangeReader
    from muster.blocking.sent import Sent
    from muster.core.producing.handles import Written
else:
    __getattr__ = names_on_demand(
        globals(),
        {
            "muster.blocking.cluster": "ClusterClient",
            "muster.blocking.consumer": "Consumer",
            "muster.blocking.group_member": "GroupMember",
            "muster.blocking.producer": "Producer",
            "muster.blocking.range_reader": "RangeReader",
            "muster.blocking.sent": "Sent",
            "muster.core.producing.handles": "Written",
        },
    )

__all__ = ["ClusterClient", "Consumer", "GroupMember", "Producer", "RangeReader", "Sent", "Written"]
