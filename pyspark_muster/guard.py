"""The driver's side: a listener that tells the reader of each query when a batch is finished."""

from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.streaming.listener import StreamingQueryListener

from pyspark_muster.control import Finished, tell_finished
from pyspark_muster.progress import reports


class _Guard(StreamingQueryListener):
    """Hears of every batch of a session."""

    def onQueryStarted(self, event: Any) -> None:  # noqa: N802
        """Do nothing: no batch is finished yet."""

    def onQueryProgress(self, event: Any) -> None:  # noqa: N802
        progress = event.progress
        sources = [{"latestOffset": one.latestOffset, "endOffset": one.endOffset} for one in progress.sources]
        is_stateful = bool(progress.stateOperators)
        for report in reports(sources):
            if report["seq"] is not None and "control" in report:
                tell_finished(report["control"], Finished(report["seq"], is_stateful))

    def onQueryIdle(self, event: Any) -> None:  # noqa: N802
        """Do nothing: readers of idle queries serve their group anyway."""

    def onQueryTerminated(self, event: Any) -> None:  # noqa: N802
        """Do nothing: a reader hears of its end from Spark."""


def guard(spark: SparkSession) -> SparkSession:
    """Install the listener in a session, once, and return the session.

    With it a member serves rebalances as soon as its batch is finished, however long the trigger's interval is, and a
    query that keeps state in a shared group is ended. `local_session` does this.
    """
    if not any(known is spark for known in _guarded):
        spark.streams.addListener(_Guard())
        _guarded.append(spark)
    return spark


_guarded: list[SparkSession] = []
