"""Queues and streams: `from muster.streams import StreamsConnector` (docs/spec/consumer-client.md#D and #E).

`steps` is a rebalance in its exact order, `holdings` has the owned partitions, `stream_fetcher` and `queue` pass
messages on, `group_protocol` and `assignment` assign partitions: none of them does I/O. `connector`, `stream` and
`caller` are the edge.
"""

from muster.errors import ConsumerTimeout, MessageTooLarge, OffsetGap, RebalanceFailed, StreamsExist
from muster.streams.assignment import Shares
from muster.streams.connector import RebalanceListener, StreamsConnector
from muster.streams.events import Owned
from muster.streams.settings import StreamsSettings
from muster.streams.stream import MessageStream

__all__ = [
    "ConsumerTimeout",
    "MessageStream",
    "MessageTooLarge",
    "OffsetGap",
    "Owned",
    "RebalanceFailed",
    "RebalanceListener",
    "Shares",
    "StreamsConnector",
    "StreamsExist",
    "StreamsSettings",
]
