"""Progress of a query, besides what Spark reports about any source."""

import json
from collections.abc import Mapping
from typing import Any

from pyspark.sql.streaming.query import StreamingQuery

from muster import TopicPartition


def lags(ends: Mapping[TopicPartition, int], done: Mapping[TopicPartition, int]) -> dict[str, float]:
    """Return the lag after the planned batch, under the names of Spark's Kafka source; empty without partitions."""
    behind = [max(0, end - done[partition]) for partition, end in ends.items() if partition in done]
    if not behind:
        return {}
    return {
        "minOffsetsBehindLatest": min(behind),
        "avgOffsetsBehindLatest": sum(behind) / len(behind),
        "maxOffsetsBehindLatest": max(behind),
    }


def progress(query: StreamingQuery) -> list[dict[str, Any]]:
    """Return the reports of a query's members in its newest progress, one for each source of this format: `state`,
    `ends`, `member`, `generation`, `avgOffsetsBehindLatest` and so on. Empty before the first progress.
    """
    newest = query.lastProgress
    return [] if newest is None else reports(newest["sources"])


def reports(sources: list[Any]) -> list[dict[str, Any]]:
    """Return the reports among the sources of a progress."""
    found = []
    for source in sources:
        report = _parsed(source["latestOffset"])
        if isinstance(report, dict) and "state" in report and "member" in report:
            plan = _parsed(source["endOffset"])
            found.append(report | {"seq": plan["seq"] if isinstance(plan, dict) and "seq" in plan else None})
    return found


def _parsed(offset: Any) -> Any:
    try:
        return json.loads(offset) if isinstance(offset, str) else offset
    except ValueError:
        return None
