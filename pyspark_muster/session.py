"""A Spark session on this machine only, for small jobs and tests."""

import os
import tempfile
import time
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from pyspark_muster.control import DRAINED
from pyspark_muster.java import use_installed_pyspark, use_java
from pyspark_muster.listener import guard


class NotDrained(Exception):
    """Raised if the query ended, or was not drained in time."""


def local_session(name: str, *, cores: int = 2, settings: dict[str, Any] | None = None) -> SparkSession:
    """Return a session without a web interface that listens on loopback only and logs only errors. A failed task is
    tried four times, as on a cluster. Raises `NoJava`.
    """
    use_java()
    use_installed_pyspark()
    # Without it Spark warns on every machine whose name resolves to loopback.
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    builder = SparkSession.builder.appName(name).master(f"local[{cores},4]")
    for key, value in (_SETTINGS | (settings or {})).items():
        builder = builder.config(key, value)
    return guard(builder.getOrCreate())


_QUIET = Path(__file__).with_name("log4j2.properties")
_SETTINGS: dict[str, Any] = {
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile={_QUIET.as_uri()}",
    "spark.driver.host": "127.0.0.1",
    # Else each task waits 40 ms: Spark sends it in two small writes, and TCP holds the second back for an ACK.
    "spark.python.unix.domain.socket.enabled": True,
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": 2,
    "spark.sql.warehouse.dir": str(Path(tempfile.gettempdir()) / "muster-spark-warehouse"),  # unused
    "spark.ui.enabled": False,
    "spark.ui.showConsoleProgress": False,
}


def drain(query: StreamingQuery, drain_file: Path, *, timeout_s: float = 60.0) -> None:
    """Stop a query whose option `drainFile` is `drain_file`, so that no record is lost or read again.

    The query plans no further batch, commits all that it has read, and leaves the group. Raises `NotDrained`; the query
    is stopped then, too.
    """
    drain_file.touch()
    deadline = time.monotonic() + timeout_s
    try:
        while drain_file.read_text() != DRAINED:
            if not query.isActive:
                raise NotDrained("the query ended before it was drained")
            if time.monotonic() > deadline:
                raise NotDrained(f"the query was not drained in {timeout_s} s")
            time.sleep(0.05)
    finally:
        query.stop()
        drain_file.unlink(missing_ok=True)
