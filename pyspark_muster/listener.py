"""The driver's side: a listener that tells the reader of each query when a batch is finished."""

from collections import Counter
from typing import Any

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.streaming.listener import StreamingQueryListener

from pyspark_muster.control import Finished, send_finished
from pyspark_muster.reports import reports

_MOST_HOSTS = 10


class _Guard(StreamingQueryListener):
    """Listener to all queries of a session."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark

    def onQueryStarted(self, event: Any) -> None:  # noqa: N802
        """Do nothing: no batch is finished yet."""

    def onQueryProgress(self, event: Any) -> None:  # noqa: N802
        progress = event.progress
        sources = [{"latestOffset": one.latestOffset, "endOffset": one.endOffset} for one in progress.sources]
        is_stateful = bool(progress.stateOperators)
        for report in reports(sources):
            if report["seq"] is not None and "control" in report:
                send_finished(report["control"], Finished(report["seq"], is_stateful, self._facts(progress)))

    def _facts(self, progress: Any) -> dict[str, str]:
        facts = {
            "query": progress.name or "(unnamed)",
            "query id": str(progress.id),
            "run id": str(progress.runId),
            "batch": str(progress.batchId),
            "rows a second": f"{progress.processedRowsPerSecond:.0f}",
        }
        hosts = _executor_hosts(self._spark)
        return facts | ({"executors": _in_short(hosts)} if hosts else {})

    def onQueryIdle(self, event: Any) -> None:  # noqa: N802
        """Do nothing: readers of idle queries serve their group in any case."""

    def onQueryTerminated(self, event: Any) -> None:  # noqa: N802
        """Do nothing: Spark itself stops the reader."""


def _executor_hosts(spark: SparkSession) -> list[str]:
    """Return the hosts of the session's executors, one entry for each; none if the driver does not know them (Spark
    Connect)."""
    try:
        executors = spark.sparkContext._jsc.statusTracker().getExecutorInfos()  # noqa: SLF001  (not in Python's API)
        return [str(one.host()) for one in executors]
    except (PySparkException, AttributeError, Py4JError):
        return []


def _in_short(hosts: list[str]) -> str:
    counted = [host if times == 1 else f"{host} ({times})" for host, times in sorted(Counter(hosts).items())]
    more = len(counted) - _MOST_HOSTS
    return ", ".join(counted[:_MOST_HOSTS]) + (f" and {more} more" if more > 0 else "")


def guard(spark: SparkSession) -> SparkSession:
    """Install the listener in a session, once, and return the session.

    With it a member serves rebalances as soon as its batch is finished, however long the trigger's interval is, and a
    query in a group that keeps state is stopped. `local_session` does this.
    """
    if not any(known is spark for known in _guarded):
        spark.streams.addListener(_Guard(spark))
        _guarded.append(spark)
    return spark


_guarded: list[SparkSession] = []
