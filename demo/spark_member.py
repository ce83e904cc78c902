"""The Spark member of the group: a streaming query in this process's session, and the session itself."""

import os
import sys
import threading
from pathlib import Path

from pyspark.sql import SparkSession

from demo.plain_member import SESSION_TIMEOUT_MS
from demo.processes import ProcessEnded
from demo.sink import write_batch
from pyspark_muster.java import NoJava
from pyspark_muster.session import drain, local_session

NAME = "spark"


class Session:
    """A session that starts in the background: it takes ten seconds, which the loading needs anyway."""

    def __init__(self, log: Path) -> None:
        self.log = log
        self._session: SparkSession | None = None
        self._failure: Exception | None = None
        self._standard_error = os.dup(2)
        self._thread = threading.Thread(target=self._start, daemon=True)
        self._thread.start()

    def _start(self) -> None:
        # Java inherits standard error, and says there what nobody asked; so do Spark's Python workers through it.
        sys.stderr.flush()
        with self.log.open("ab") as log:
            os.dup2(log.fileno(), 2)
        try:
            self._session = local_session("muster demo")
        except Exception as failure:  # noqa: BLE001  (raised again by `get`)
            self._failure = failure
        finally:
            self._give_back_standard_error()

    def get(self) -> SparkSession:
        """Waits for it. Raises `NoJava`, or `ProcessEnded`."""
        while self._thread.is_alive():
            self._thread.join(0.2)  # in slices, so that Ctrl-C is heard
        if isinstance(self._failure, NoJava):
            raise self._failure
        if self._session is None:
            raise ProcessEnded(f"Spark did not start: {self._failure}\n{self.log.read_text()[-2_000:]}")
        return self._session

    def _give_back_standard_error(self) -> None:
        os.dup2(self._standard_error, 2)

    def stop(self) -> None:
        self._give_back_standard_error()  # whatever went wrong while Spark was starting can still be told
        if self._session is not None:
            self._session.stop()


class SparkMember:
    """One streaming query: reads as a member of the group, writes each micro-batch into the sink."""

    def __init__(
        self, spark: SparkSession, bootstrap: str, group: str, topic: str, sink: Path, folder: Path, batch: int
    ) -> None:
        self._drain_file = folder / "spark.drain"
        self._rows: dict[int, int] = {}
        options: dict[str, str | int] = {
            "bootstrap": bootstrap,
            "group": group,
            "topics": topic,
            "clientId": NAME,
            "sessionTimeoutMs": SESSION_TIMEOUT_MS,
            "heartbeatIntervalMs": 1_000,
            "maxRecordsPerBatch": batch,
            "drainFile": str(self._drain_file),
        }
        stream = spark.readStream.format("muster").options(**options).load()
        writer = stream.writeStream.option("checkpointLocation", str(folder / "checkpoint"))
        self.query = writer.foreachBatch(lambda batch, _number: write_batch(batch, sink, NAME)).start()

    @property
    def read(self) -> int:
        """Rows of the batches that are finished."""
        self._rows |= {progress["batchId"]: progress["numInputRows"] for progress in self.query.recentProgress}
        return sum(self._rows.values())

    def check(self) -> None:
        """Raises `ProcessEnded`."""
        if not self.query.isActive:
            raise ProcessEnded(f"the Spark query ended: {self.query.exception()}")

    def end(self) -> None:
        """Reads no further, commits what it has read, and leaves the group. Raises `NotDrained`."""
        drain(self.query, self._drain_file)

    def stop(self) -> None:
        """At once."""
        self.query.stop()
