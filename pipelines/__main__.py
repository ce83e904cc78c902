"""`python -m pipelines --bootstrap HOST:PORT`: runs all jobs once, and writes the page."""

import argparse
import sys
from pathlib import Path

from muster import MusterError
from pipelines.report import LATE_AFTER_S, run
from pyspark_muster.java import NoJava
from pyspark_muster.session import local_session


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m pipelines",
        description="Append what the coordinator has noted since the last run to Parquet tables, and write a page of "
        "what rebalances cost, who began them, how far groups are behind, and which offsets expire or stand for "
        "nothing.",
    )
    parser.add_argument("--bootstrap", metavar="HOST:PORT", default="127.0.0.1:9390", help="a musterd (%(default)s)")
    parser.add_argument("--data", metavar="DIR", type=Path, default=Path("muster-report"), help="tables (%(default)s)")
    parser.add_argument("--page", metavar="FILE", type=Path, default=Path("report.html"), help="(%(default)s)")
    parser.add_argument(
        "--late-after",
        metavar="SECONDS",
        type=int,
        default=LATE_AFTER_S,
        help="a group is late while a record that it has not read is older (%(default)s)",
    )
    parser.add_argument(
        "--set", metavar="NAME=VALUE", action="append", default=[], help="an option of the source, such as security"
    )
    given = parser.parse_args()
    options = dict(one.partition("=")[::2] for one in given.set) | {"bootstrap": given.bootstrap}
    try:
        spark = local_session("muster report")
        try:
            run(spark, options, given.data.absolute(), given.page, given.late_after)
        finally:
            spark.stop()
    except (MusterError, NoJava) as failure:
        print(f"failed: {failure}", file=sys.stderr)
        return 1
    print(f"wrote {given.page}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
