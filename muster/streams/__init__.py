"""Queues and streams: `from muster.streams import StreamsConnector` (consumer-client parts D and E).

`steps` is a rebalance in its exact order, `holdings` what is owned, `pump` and `queue` the way of a message, `kind` and
`assignment` how a group shares out: none of them does I/O. `connector`, `stream` and `caller` are the edge.
"""

from muster.streams.assignment import Shares
from muster.streams.connector import RebalanceListener, StreamsConnector
from muster.streams.events import Owned
from muster.streams.settings import StreamsSettings
from muster.streams.stream import MessageStream

__all__ = ["MessageStream", "Owned", "RebalanceListener", "Shares", "StreamsConnector", "StreamsSettings"]
