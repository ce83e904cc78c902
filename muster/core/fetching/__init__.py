"""Fetching, without I/O: which node to ask for what, and what to make of the answers
(docs/spec/consumer-client.md#B2 to #B6, #C).

`Fetcher` asks and hears, `FetchBuffer` keeps what came until it is handed out, `FetchedRecords` is one partition's
share of one answer, `Leaders` knows where to ask, `PositionQuestions` finds positions out. Where a consumer
stands is in `muster.core.positions`, what nodes remember of it in `muster.core.fetching.sessions`.
"""

from muster.core.fetching.fetcher import Fetcher
from muster.core.fetching.records import ConsumerRecord
from muster.core.fetching.settings import Deserializer, FetchSettings, Grants, Isolation

__all__ = ["ConsumerRecord", "Deserializer", "FetchSettings", "Fetcher", "Grants", "Isolation"]
