"""The console, the doctor and the API of a daemon that serves 1,000 groups of 10 members with 100,000 offsets, and what
heartbeats notice of somebody who looks: `python -m bench console`.

Each round has a daemon of its own, first without and then with the console open: events are gathered for two minutes
after the last page is closed, so nobody is without it soon after.
"""

import gc
import json
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

from bench.console_load import GROUPS, MEMBERS_A_GROUP, OFFSETS_A_MEMBER, Load, fill, form
from bench.processes import QUICK_GROUPS, Daemon, scratch
from bench.report import Options, Sheet, Value, median
from bench.wire import Wire, WireMember

_GOAL_MS = 100.0
_GOAL_RATIO = 1.5
_SETTINGS = {**QUICK_GROUPS, "max.connections": "12000"}
_LOOKED_AT = "group-7"
_END_S = 60.0


class Round(NamedTuple):
    """Measurements at one daemon: latencies in ms."""

    without: list[float]
    with_console: list[float]
    pages: dict[str, list[float]]
    cpu_without: float
    cpu_with: float
    pages_a_second: float


def measure(options: Options) -> list[Sheet]:
    seconds, samples = (5.0, 20) if options.quick else (20.0, 100)
    rounds = [_round(seconds, samples) for _ in range(options.rounds)]
    return [_pages(rounds), _heartbeats(rounds)]


def _round(seconds: float, samples: int) -> Round:
    with scratch() as folder, Daemon(folder / "data", _SETTINGS) as daemon:
        fill(daemon)
        crowd = form(daemon)
        try:
            load = Load(crowd)
            with _restarts(daemon.native), _quiet():
                load.run(_lasting(seconds / 2))  # to warm up
                return _measured(daemon, load, seconds, samples)
        finally:
            crowd.close()


def _measured(daemon: Daemon, load: Load, seconds: float, samples: int) -> Round:
    cpu, began = daemon.cpu_s(), time.perf_counter()
    without = load.run(_lasting(seconds))
    cpu_without = (daemon.cpu_s() - cpu) / (time.perf_counter() - began)
    with _viewer(daemon, "open", _LOOKED_AT) as viewer:
        load.run(_lasting(2.0))  # until its pages are there
        cpu, began = daemon.cpu_s(), time.perf_counter()
        with_console = load.run(_lasting(seconds))
        took = time.perf_counter() - began
        cpu_with = (daemon.cpu_s() - cpu) / took
        shown, _ = viewer.communicate(timeout=_END_S)
    seen = json.loads(shown)
    if not seen["pages"] or not seen["events"]:
        raise RuntimeError(f"the console was not open: {seen}")
    with _viewer(daemon, "time", _LOOKED_AT, str(samples)) as viewer:
        load.run(lambda: viewer.poll() is None)
        timed, _ = viewer.communicate(timeout=_END_S)
    return Round(without, with_console, json.loads(timed), cpu_without, cpu_with, seen["pages"] / (took + 2.0))


def _lasting(seconds: float) -> Callable[[], bool]:
    ends = time.perf_counter() + seconds
    return lambda: time.perf_counter() < ends


@contextmanager
def _viewer(daemon: Daemon, *arguments: str) -> Iterator["subprocess.Popen[str]"]:
    host, port = daemon.addresses["http"]
    command = [sys.executable, "-m", "bench.console_viewer", f"http://{host}:{port}", *arguments]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as viewer:
        try:
            yield viewer
        finally:
            viewer.kill()


@contextmanager
def _restarts(address: tuple[str, int]) -> Iterator[None]:
    """Have a member come and go each second, so that there are events to tell."""
    ending = threading.Event()

    def come_and_go() -> None:
        with Wire(address) as wire:
            number = 0
            while not ending.wait(1.0):
                member = WireMember(wire, f"restarts-{number % 20}")
                member.join()
                wire.call("LeaveGroup", group_id=member.group_id, members=[{"member_id": member.member_id}])
                number += 1

    thread = threading.Thread(target=come_and_go)
    thread.start()
    try:
        yield
    finally:
        ending.set()
        thread.join()


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep the generator's own garbage collection out of the latencies."""
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def _pages(rounds: list[Round]) -> Sheet:
    rows: list[tuple[Value, ...]] = []
    for name in rounds[0].pages:
        found = [one.pages[name] for one in rounds]
        rows.append((name, median([median(some) for some in found]), median([_p99(some) for some in found]), _GOAL_MS))
    offsets = GROUPS * MEMBERS_A_GROUP * OFFSETS_A_MEMBER
    return Sheet(
        f"Pages of a daemon with {GROUPS:,} groups of {MEMBERS_A_GROUP} members and {offsets:,} offsets, under load",
        ("page", "p50 ms", "p99 ms", "goal ms"),
        rows,
        (
            "The load: a heartbeat each 3 s and a commit of 10 partitions each 5 s of each member.",
            "In 20 groups a member is silent: its connection is closed, and its session lasts.",
        ),
    )


def _heartbeats(rounds: list[Round]) -> Sheet:
    ratio = median([_p99(one.with_console) / _p99(one.without) for one in rounds])
    rows: list[tuple[Value, ...]] = [
        _row("without", [one.without for one in rounds], [one.cpu_without for one in rounds], None, None),
        _row("open", [one.with_console for one in rounds], [one.cpu_with for one in rounds], ratio, _GOAL_RATIO),
    ]
    shown = median([one.pages_a_second for one in rounds])
    return Sheet(
        "Heartbeats with the console open: the list and a group's page, each with its stream of events",
        ("console", "p50 ms", "p99 ms", "longest ms", "CPU %", "p99 / without", "goal"),
        rows,
        (f"The open pages were asked for {shown:.1f} times a second; a member came and went each second.",),
    )


def _row(
    name: str, found: list[list[float]], cpu: list[float], ratio: float | None, goal: float | None
) -> tuple[Value, ...]:
    p50, p99 = median([median(some) for some in found]), median([_p99(some) for some in found])
    return (name, p50, p99, median([max(some) for some in found]), median(cpu) * 100, ratio, goal)


def _p99(values: list[float]) -> float:
    return statistics.quantiles(values, n=100, method="inclusive")[98]
