"""Worlds of a network: each says what was seen, or raises Broken."""

import time
from collections.abc import Callable, Mapping
from pathlib import Path

from bench.faults import check
from bench.faults.clients import PARTITIONS, SESSION_MS, Crew, Served, Watch, within
from bench.faults.network import HERE, OtherMachine

_IDLE_MS = 10_000
_SHORT_S = 2.0
_CONNECTIONS = 60
_KEEPALIVE_S = 150.0
"""Two minutes are promised."""


def _served(folder: Path, **settings: object) -> Served:
    plain = {"group_initial_rebalance_delay_ms": 200, "offsets_topic_num_partitions": 2}
    return Served(folder / "data", folder / "log", ("--native", f"{HERE}:0", "--open-to-network"), **plain, **settings)


def vanishes(folder: Path) -> str:
    """A machine full of clients vanishes: members, and connections up to the most there may be."""
    with (
        OtherMachine() as other,
        _served(folder, connections_max_idle_ms=_IDLE_MS, max_connections=_CONNECTIONS) as served,
        Crew(served.bootstrap, 2) as crew,
    ):
        crew.await_all()
        other.start("members", served.bootstrap, "2")
        within(20, lambda: sum(crew.assigned) == PARTITIONS // 2, "four members did not share")
        other.start("crowd", served.bootstrap)
        check(not _is_served(served), "there was still room for a connection")
        began = time.monotonic()
        other.vanish()
        crew.await_all(seconds=SESSION_MS / 1_000 + 10)
        evicted_s = time.monotonic() - began
        within(_IDLE_MS / 1_000 + 5, lambda: _is_served(served), "nobody new was let in: who vanished stays for ever,")
        back_s = time.monotonic() - began
        within(10, lambda: served.gauge("connections") < 10, "connections of who vanished were kept")
        causes = Watch(served, from_start=True).causes()
        check(causes.count("session expired") + causes.count("member did not rejoin in time") == 2, f"{causes}")
    return f"2 members were evicted within {evicted_s:.1f} s, there was room for others within {back_s:.1f} s"


def _is_served(served: Served) -> bool:
    try:
        served.gauge("connections")
    except OSError:
        return False
    return True


def waits(folder: Path) -> str:
    """Clients that wait for an answer vanish: they are not idle, and TCP finds that they are gone."""
    late = 3_600_000
    with OtherMachine() as other, _served(folder, connections_max_idle_ms=_IDLE_MS, fetch_max_wait_ms=late) as served:
        other.start("waiting", served.bootstrap, "20")
        time.sleep(_IDLE_MS / 1_000 + 3)
        there = served.gauge("connections")
        check(there >= 20, f"of 20 clients that wait for an answer {there} were left: who waits is not idle")
        other.vanish()
        began = time.monotonic()
        within(_KEEPALIVE_S, lambda: served.gauge("connections") < 5, "clients that vanished waiting were kept")
    return f"20 clients that vanished while they waited were closed after {time.monotonic() - began:.0f} s"


def flickers(folder: Path) -> str:
    """The cable is out for a moment, again and again: nobody is evicted, and everybody goes on."""
    with OtherMachine() as other, _served(folder) as served, Crew(served.bootstrap, 2) as crew:
        other.start("members", served.bootstrap, "2")
        within(20, lambda: sum(crew.assigned) == PARTITIONS // 2, "four members did not share")
        watch = Watch(served)
        for _ in range(4):
            other.cut()
            time.sleep(_SHORT_S)
            other.connect()
            time.sleep(2 * _SHORT_S)
        watch.nobody_was_evicted(f"while the network was away for {_SHORT_S:g} s at a time")
    return f"4 times {_SHORT_S:g} s without a network, nobody was evicted"


PEER_WORLDS: Mapping[str, Callable[[Path], str]] = {"vanishes": vanishes, "waits": waits, "flickers": flickers}
