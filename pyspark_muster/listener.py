"""The driver's side: a listener that tells the reader of each query when a batch is finished."""

import json
from collections import Counter
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from py4j.protocol import Py4JError
from pyspark import SparkContext
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.streaming.listener import StreamingQueryListener

from pyspark_muster.control import Finished, send_finished
from pyspark_muster.reports import reports

_MOST_HOSTS = 10


class _NoEvents:
    """Does nothing: no batch is finished when a query starts, an idle query's reader serves its group in any case, and
    Spark itself stops the reader."""

    def onQueryStarted(self, event: Any) -> None: ...  # noqa: N802
    def onQueryIdle(self, event: Any) -> None: ...  # noqa: N802
    def onQueryTerminated(self, event: Any) -> None: ...  # noqa: N802


class _Guard(_NoEvents, StreamingQueryListener):
    """Listener to all queries of a session."""

    def __init__(self, spark: SparkSession) -> None:
        self._session = spark

    @property
    def _jlistener(self) -> Any:
        """Java's side of the listener. Spark's own converts each progress to Python objects field by field. The end of
        each Java collection is an exception there, for which 16 classes are looked up in all jars: about 0.1 s of a
        processor for each batch."""
        if not hasattr(self, "_jlistenerobj"):
            jvm: Any = SparkContext._jvm  # noqa: SLF001  (where Spark's own listener finds it)
            self._jlistenerobj = jvm.PythonStreamingQueryListenerWrapper(_JavaListener(self.tell))
        return self._jlistenerobj

    def onQueryProgress(self, event: Any) -> None:  # noqa: N802  (Spark Connect calls this)
        self.tell(event.progress.json)

    def tell(self, progress_json: str) -> None:
        """Tell the readers of a query that a batch is finished, from the JSON of its progress."""
        progress = json.loads(progress_json)
        sources = [{name: one.get(name) for name in ("latestOffset", "endOffset")} for one in progress["sources"]]
        for report in reports(sources):
            if report["seq"] is not None and "control" in report:
                is_stateful = bool(progress.get("stateOperators"))
                send_finished(report["control"], Finished(report["seq"], is_stateful, self._facts(progress)))

    def _facts(self, progress: dict[str, Any]) -> dict[str, str]:
        facts = {
            "query": progress.get("name") or "(unnamed)",
            "query id": progress["id"],
            "run id": progress["runId"],
            "batch": str(progress["batchId"]),
            "rows a second": f"{progress.get('processedRowsPerSecond', 0):.0f}",  # not a number: left out
        }
        hosts = _executor_hosts(self._session)
        return facts | ({"executors": _in_short(hosts)} if hosts else {})


class _JavaListener(_NoEvents):
    """Receives the events of a session from Java, by Py4J."""

    Java = SimpleNamespace(implements=("org.apache.spark.sql.streaming.PythonStreamingQueryListener",))
    """The interface, where Py4J looks for it."""

    def __init__(self, tell: Callable[[str], None]) -> None:
        self._tell = tell

    def onQueryProgress(self, event: Any) -> None:  # noqa: N802
        self._tell(event.progress().json())


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
