"""The console, the doctor and the API of a daemon that serves 1,000 groups of 10 members with 100,000 offsets, and what
heartbeats notice of somebody who looks: `python -m bench console`.

Each round has a daemon of its own, first without the console, then with one open elsewhere, and then with its own
open: events are gathered for two minutes after the last page is closed, so nobody is without it soon after. The console
of another daemon with the same groups keeps the processors as busy.
"""

import gc
import json
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from typing import NamedTuple

from bench.console_load import GROUPS, MEMBERS_A_GROUP, OFFSETS_A_MEMBER, Load, fill, form
from bench.crowd import Crowd
from bench.processes import QUICK_GROUPS, Daemon, scratch
from bench.report import Options, Sheet, Value, median
from bench.wire import Wire, WireMember

_GOAL_MS = 100.0
_GOAL_DRAWN_MS = 5_000.0
_GOAL_RATIO = 1.5
_SETTINGS = {**QUICK_GROUPS, "max.connections": "12000"}
_LOOKED_AT = "group-7"
_END_S = 60.0
_WITHOUT, _ELSEWHERE, _OPEN = "without", "elsewhere", "open"


class Round(NamedTuple):
    """Measurements at one daemon: latencies in ms."""

    beats: dict[str, list[float]]
    """Heartbeats by where a console is open."""
    cpu: dict[str, float]
    pages: dict[str, list[float]]
    drawn: dict[str, list[float]]
    """Times in Chromium; empty without it."""
    pages_a_second: float


def measure(options: Options) -> list[Sheet]:
    seconds, samples = (5.0, 20) if options.quick else (20.0, 100)
    rounds = [_round(seconds, samples) for _ in range(options.rounds)]
    return [_pages(rounds), _drawn(rounds), _heartbeats(rounds)]


def _round(seconds: float, samples: int) -> Round:
    with scratch() as folder, ExitStack() as stack:
        daemon, other = (stack.enter_context(Daemon(folder / name, _SETTINGS)) for name in ("data", "other"))
        crowds: list[Crowd] = []
        for one in (other, daemon):
            fill(one)
            crowds.append(form(one))
            stack.callback(crowds[-1].close)
        load = Load(crowds[-1])
        with _restarts(daemon.native), _quiet():
            load.run(_lasting(seconds / 2))  # to warm up
            return _measured(daemon, other, load, seconds, samples)


def _measured(daemon: Daemon, other: Daemon, load: Load, seconds: float, samples: int) -> Round:
    beats: dict[str, list[float]] = {}
    cpu: dict[str, float] = {}
    pages_a_second = 0.0
    for where, looked_at in ((_WITHOUT, None), (_ELSEWHERE, other), (_OPEN, daemon)):
        with nullcontext() if looked_at is None else _viewer(looked_at, "open", _LOOKED_AT) as viewer:
            load.run(_lasting(2.0))  # until its pages are there
            cpu_s, began = daemon.cpu_s(), time.perf_counter()
            beats[where] = load.run(_lasting(seconds))
            took = time.perf_counter() - began
            cpu[where] = (daemon.cpu_s() - cpu_s) / took
            if viewer is not None:
                seen = json.loads(viewer.communicate(timeout=_END_S)[0])
                if not seen["pages"] or (where == _OPEN and not seen["events"]):
                    raise RuntimeError(f"the console was not open: {seen}")
                pages_a_second = seen["pages"] / (took + 2.0)
    timed, drawn = (_seen(daemon, load, what, count) for what, count in (("time", samples), ("draw", samples // 10)))
    return Round(beats, cpu, timed, drawn, pages_a_second)


def _seen(daemon: Daemon, load: Load, what: str, samples: int) -> dict[str, list[float]]:
    """Return the milliseconds of each page, measured by a viewer under load."""
    with _viewer(daemon, what, _LOOKED_AT, str(samples)) as viewer:
        load.run(lambda: viewer.poll() is None)
        found: dict[str, list[float]] = json.loads(viewer.communicate(timeout=_END_S)[0])
        return found


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


def _drawn(rounds: list[Round]) -> Sheet:
    rows: list[tuple[Value, ...]] = []
    for name in rounds[0].drawn:
        found = [one.drawn[name] for one in rounds]
        longest = median([max(some) for some in found])
        rows.append((name, median([median(some) for some in found]), longest, _GOAL_DRAWN_MS))
    notes = ("With an empty cache, until the page shows its data.",) if rows else ("There is no Chromium here.",)
    return Sheet(
        "The same pages in Chromium, on the processors of the load",
        ("page", "p50 ms", "longest ms", "goal ms"),
        rows,
        notes,
    )


def _heartbeats(rounds: list[Round]) -> Sheet:
    rows = [_row(rounds, where) for where in (_WITHOUT, _ELSEWHERE, _OPEN)]
    shown = median([one.pages_a_second for one in rounds])
    return Sheet(
        "Heartbeats with the console open: the list and a group's page, each with its stream of events",
        ("console", "p50 ms", "p99 ms", "longest ms", "CPU %", "p99 / without", "p99 / elsewhere", "goal"),
        rows,
        (
            f"The open pages were asked for {shown:.1f} times a second; a member came and went each second.",
            "elsewhere: the same pages of another daemon with the same groups. The processors are as busy.",
        ),
    )


def _row(rounds: list[Round], where: str) -> tuple[Value, ...]:
    found = [one.beats[where] for one in rounds]
    p50, p99 = median([median(some) for some in found]), median([_p99(some) for some in found])
    bases = {_WITHOUT: (), _ELSEWHERE: (_WITHOUT,), _OPEN: (_WITHOUT, _ELSEWHERE)}[where]
    ratios: list[Value] = [median([_p99(one.beats[where]) / _p99(one.beats[base]) for one in rounds]) for base in bases]
    ratios += [None] * (2 - len(ratios))
    cpu = median([one.cpu[where] for one in rounds]) * 100
    return (
        where,
        p50,
        p99,
        median([max(some) for some in found]),
        cpu,
        *ratios,
        _GOAL_RATIO if where == _OPEN else None,
    )


def _p99(values: list[float]) -> float:
    return statistics.quantiles(values, n=100, method="inclusive")[98]
