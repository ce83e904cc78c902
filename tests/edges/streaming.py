"""Start of streaming queries on machines that are busy."""

import time
from collections.abc import Callable

from pyspark.sql.streaming.query import StreamingQuery

_TRIES = 5
_INITIALIZING = "Initializing"
_TOO_SLOW = "failed to connect back"


def started(start: Callable[[], StreamingQuery]) -> StreamingQuery:
    """Return the query that `start` starts, once the processes of its sources run. Spark gives each 10 s to begin,
    which no setting changes, and fails the query if the machine is too busy for it: then it is started again."""
    for _ in range(_TRIES - 1):
        query = start()
        while query.isActive and query.status["message"].startswith(_INITIALIZING):
            time.sleep(0.05)
        if query.isActive or _TOO_SLOW not in str(query.exception()):
            return query
    return start()


def ran_well(run: Callable[[], tuple[int, str]]) -> None:
    """Run a program with queries, which gives its exit code and what it said, again while the machine is too busy."""
    for tries_left in reversed(range(_TRIES)):
        code, said = run()
        if code == 0:
            return
        assert tries_left and _TOO_SLOW in said, said[-4_000:]
