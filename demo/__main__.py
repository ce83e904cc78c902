"""`python -m demo`: see `--help`. Exits with 0 if everything came out as it must, else with 1."""

import argparse
import contextlib
import shutil
import signal
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from types import FrameType
from typing import NoReturn

from rich.console import Console

from demo import flights, story
from demo.flights import NoFlights
from demo.input import Input
from demo.processes import Daemon, ProcessEnded
from demo.show import Show
from demo.spark_member import Session
from muster import MusterError
from pipelines import report as pipelines
from pyspark_muster.java import NoJava
from pyspark_muster.session import NotDrained

LATE_AFTER_S = 10
"""Age from which a flight that is not read counts as late in the report: some samples."""


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m demo",
        description="Every flight that left New York in 2013, through one group: a Spark query, a plain consumer and "
        "one of Kafka's share it, another joins, one is killed. What they read together must average to what the "
        "file says.",
    )
    parser.add_argument("--bootstrap", metavar="HOST:PORT", help="a running musterd; left out: one of the demo's own")
    parser.add_argument("--group", default="delays", help="the group they share (%(default)s)")
    parser.add_argument("--topic", default="flights", help="where the flights go; must not exist yet (%(default)s)")
    parser.add_argument("--partitions", type=int, default=8, help="of the topic (%(default)s)")
    parser.add_argument("--keep", action="store_true", help="leave data, sink and logs where they are, and say where")
    parser.add_argument("--report", metavar="FILE", type=Path, help="at the end, write a page of what the groups did")
    return parser.parse_args()


def main() -> int:
    given = arguments()
    signal.signal(signal.SIGTERM, _interrupted)
    folder = Path(tempfile.mkdtemp(prefix="muster-demo-"))
    console = Console()
    try:
        return run(given, folder, console)
    except KeyboardInterrupt:
        console.print("\ninterrupted")
        return 130
    except (ProcessEnded, MusterError, NoFlights, NoJava, NotDrained) as failure:
        console.print(f"\nfailed: {failure}", style="bold red", markup=False, highlight=False, soft_wrap=True)
        return 1
    finally:
        if given.keep:
            console.print(f"kept: {folder}", highlight=False)
        else:
            shutil.rmtree(folder, ignore_errors=True)


def run(given: argparse.Namespace, folder: Path, console: Console) -> int:
    began = time.monotonic()
    with ExitStack() as ends:
        session = Session(folder / "spark.log")
        ends.callback(session.stop)
        daemon = None
        if given.bootstrap is None:
            daemon = Daemon(folder)
            ends.callback(daemon.end)
        setting = story.Setting(
            given.bootstrap or (daemon.bootstrap if daemon else ""), given.group, given.topic, given.partitions, folder
        )
        lines = flights.read(flights.find())
        with Show(console) as show:
            where = ", ".join(f"{kind} {address}" for kind, address in daemon.addresses.items()) if daemon else ""
            show.say(f"{len(lines):,} flights; musterd at {where or setting.bootstrap}; Spark is starting")
            flow = Input(setting.bootstrap, setting.topic, setting.partitions, lines, show)
            ends.callback(flow.close)
            told = story.Story(setting, flow, session, show, ends)
            show.say(f"{_sharing(told)} are to share the group {setting.group!r}")
            told.tell(daemon)
            show.say("everything is read and committed; the members leave")
            told.leave()
            show.say("a Spark batch job counts what they wrote")
            found = story.count(session, setting)
        wrong = story.report(told, found, flights.straight_from_the_file(lines), show)
        story.explain(setting, show)
        _report(session, setting, given.report, show)
    took = time.monotonic() - began
    for sentence in wrong:
        console.print(f"wrong: {sentence}", style="bold red", markup=False, highlight=False, soft_wrap=True)
    if not wrong:
        console.print(f"\n[bold green]all as it must be[/bold green], after {took:.0f} s", highlight=False)
    return 1 if wrong else 0


def _report(session: Session, setting: story.Setting, page: Path | None, show: Show) -> None:
    """Have pipelines read what the coordinator knows, print their figures, and write the page if one is wanted."""
    console = show.console
    console.print("\nSpark reads what the coordinator knows of its groups, lag and rebalances", highlight=False)
    options = {"bootstrap": setting.bootstrap}
    written = page or setting.folder / "report.html"
    table = show.table("report", "")
    figures = pipelines.run(session.get(), options, setting.folder / "report", written, LATE_AFTER_S)
    for meaning, figure in figures.items():
        table.add_row(meaning, figure)
    console.print(table)
    told = "what each rebalance cost, who began it, and how far the group was behind by hour"
    where = f"wrote {page}: {told}" if page is not None else f"`make report` writes the page as well: {told}"
    console.print(where, highlight=False, soft_wrap=True)


def _sharing(told: story.Story) -> str:
    if told.kafka is None:
        return f"a Spark query and {story.FIRST}"
    return f"a Spark query, {story.FIRST} and a confluent-kafka consumer"


def _interrupted(_signal: int, _frame: FrameType | None) -> NoReturn:
    raise KeyboardInterrupt


if __name__ == "__main__":
    with contextlib.suppress(BrokenPipeError):
        sys.exit(main())
