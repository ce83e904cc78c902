"""Start of streaming queries on machines that are busy."""

import time
from collections.abc import Callable

from pyspark.sql.streaming.query import StreamingQuery

TRIES = 5
_INITIALIZING = "Initializing"
TOO_SLOW = "failed to connect back"


def started(start: Callable[[], StreamingQuery]) -> StreamingQuery:
    """Return the query that `start` starts, once the processes of its sources run. Spark gives each 10 s to begin,
    which no setting changes, and fails the query if the machine is too busy for it: then it is started again."""
    for _ in range(TRIES - 1):
        query = start()
        while query.isActive and query.status["message"].startswith(_INITIALIZING):
            time.sleep(0.05)
        if query.isActive or TOO_SLOW not in str(query.exception()):
            return query
    return start()
