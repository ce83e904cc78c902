"""Fetching, without I/O: requests to nodes, and the handling of their replies (docs/spec/consumer-client.md#B2 to #B6,
#C).

`Fetcher` sends requests and takes replies, `FetchBuffer` keeps records until the application gets them,
`FetchedRecords` are the records of one partition in one reply, `Leaders` finds the node to ask, `PositionQuestions`
finds start positions. A consumer's positions are in `muster.core.positions`, its fetch sessions in
`muster.core.fetching.sessions`.
"""

from typing import TYPE_CHECKING

from muster._on_demand import names_on_demand

if TYPE_CHECKING:
    from muster.core.fetching.fetcher import Fetcher
    from muster.core.fetching.records import ConsumerRecord
    from muster.core.fetching.settings import Deserializer, FetchSettings, Grants, Isolation
else:
    __getattr__ = names_on_demand(
        globals(),
        {
            "muster.core.fetching.fetcher": "Fetcher",
            "muster.core.fetching.records": "ConsumerRecord",
            "muster.core.fetching.settings": "Deserializer FetchSettings Grants Isolation",
        },
    )

__all__ = ["ConsumerRecord", "Deserializer", "FetchSettings", "Fetcher", "Grants", "Isolation"]
