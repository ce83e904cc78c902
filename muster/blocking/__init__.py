"""EDGE: the client for programs with threads and no event loop.

`GroupMember` and `RangeReader` are what the rest stands on; `Consumer` and `Producer` are what most people want;
`Connection` asks a node anything the native protocol knows.
"""

from muster.blocking.cluster import Cluster
from muster.blocking.connection import Connection
from muster.blocking.consumer import Consumer
from muster.blocking.group_member import GroupMember
from muster.blocking.producer import Producer
from muster.blocking.range_reader import RangeReader
from muster.blocking.sent import Sent
from muster.core.producing.handles import Written

__all__ = ["Cluster", "Connection", "Consumer", "GroupMember", "Producer", "RangeReader", "Sent", "Written"]
