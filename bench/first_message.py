"""Time until the first message in client-balanced groups, which need no balancing period, and in classic groups of the
same daemon.

It runs from making the consumer to having the record, which is in the log already, each time in another group.
"""

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from bench.processes import QUICK_GROUPS, Daemon, scratch
from bench.report import Options, Sheet, Value, median
from muster import ClientBalancedConsumer, Consumer, Producer
from muster.balanced import BalancedConfig, Code, rebalance_once

_TOPIC, _PARTITIONS = "flights", 16
_CONFIG = BalancedConfig(consume_position="first")
_SERVER_CONFIG = BalancedConfig(mode="server", consume_position="first")
_PATIENCE_S = 60
_PERIODIC = {"group.initial.rebalance.delay.ms": "30000"}
"""Ordinary groups wait 30 s for members: in the place of a server that balances once in such a period."""
Scenario = Callable[[str, str], float]
"""(bootstrap, group) -> seconds."""


def measure(options: Options) -> list[Sheet]:
    """Every way, in turns, on three daemons: groups form at once, wait as they do by default, and wait for a balancing
    period as the server of the mode's model has it."""
    repeats = options.rounds * (1 if options.quick else 5)
    took: dict[str, list[float]] = {}
    with _daemon(QUICK_GROUPS) as quick, _daemon({}) as usual, _daemon(_PERIODIC) as periodic:
        for turn in range(repeats):
            for number, (name, scenario, where) in enumerate(_scenarios(quick, usual, periodic)):
                if scenario in (_subscribe, _assigned) and turn >= {usual: options.rounds, periodic: 1}.get(
                    where, repeats
                ):
                    continue  # each takes three seconds, or thirty
                took.setdefault(name, []).append(scenario(where, f"g-{turn}-{number}"))
    rows: list[tuple[Value, ...]] = [(name, median(each) * 1e3, max(each) * 1e3) for name, each in took.items()]
    return [
        Sheet(
            "First message: from making a consumer to having a record that is there already",
            ("", "ms", "longest, ms"),
            rows,
            (f"{repeats} times each. The period that the mode was invented to remove is 30,000 ms.",),
        )
    ]


def _scenarios(quick: str, usual: str, periodic: str) -> tuple[tuple[str, Scenario, str], ...]:
    return (
        ("client-balanced: start, connect one partition", _connect_one, quick),
        ("client-balanced: start, a round of the loop over 16", _share_all, quick),
        ("client-balanced: the same beside a member that reads", _join_late, quick),
        ("ordinary: alone, initial delay 0", _subscribe, quick),
        ("ordinary: beside a member that reads", _subscribe_late, quick),
        ("ordinary: alone, initial delay of 3 s (the default)", _subscribe, usual),
        ("client-balanced: a round over 16, with a period of 30 s", _share_all, periodic),
        ("ordinary: alone, with a period of 30 s", _subscribe, periodic),
        ("server-balanced: alone, with a period of 30 s", _assigned, periodic),
    )


@contextmanager
def _daemon(settings: Mapping[str, str]) -> Iterator[str]:
    with scratch(in_memory=True) as folder, Daemon(Path(folder) / "data", settings, http=False) as daemon:
        daemon.create_topic(_TOPIC, _PARTITIONS)
        bootstrap = "{}:{}".format(*daemon.native)
        with Producer(bootstrap) as producer:
            for partition in range(_PARTITIONS):
                producer.send(_TOPIC, b"x", partition=partition)
            producer.flush()
        yield bootstrap


def _connect_one(bootstrap: str, group: str) -> float:
    began = time.perf_counter()
    with ClientBalancedConsumer(bootstrap, group, _CONFIG) as consumer:
        consumer.start({_TOPIC: None})
        consumer.partition_meta()
        consumer.connect_partition(f"1:{_TOPIC}:7")
        return _first(consumer, began)


def _share_all(bootstrap: str, group: str) -> float:
    began = time.perf_counter()
    with ClientBalancedConsumer(bootstrap, group, _CONFIG) as consumer:
        consumer.start({_TOPIC: None}, 1, 0)
        rebalance_once(consumer)
        return _first(consumer, began)


def _join_late(bootstrap: str, group: str) -> float:
    with ClientBalancedConsumer(bootstrap, group, _CONFIG) as other:
        other.start({_TOPIC: None}, 2, 0)
        rebalance_once(other)
        began = time.perf_counter()
        with ClientBalancedConsumer(bootstrap, group, _CONFIG) as consumer:
            consumer.start({_TOPIC: None}, 2, 1)
            rebalance_once(consumer)
            return _first(consumer, began)


def _assigned(bootstrap: str, group: str) -> float:
    began = time.perf_counter()
    with ClientBalancedConsumer(bootstrap, group, _SERVER_CONFIG) as consumer:
        consumer.start({_TOPIC: None})
        return _first(consumer, began)


def _first(consumer: ClientBalancedConsumer, began: float) -> float:
    said = consumer.get_message()
    while said.code == Code.NONE_REGISTERED and time.perf_counter() - began < _PATIENCE_S:
        said = consumer.get_message()
    took = time.perf_counter() - began
    if not said.ok:
        raise RuntimeError(f"no message came: {said.code} {said.msg}")
    return took


def _subscribe(bootstrap: str, group: str) -> float:
    began = time.perf_counter()
    with Consumer(bootstrap, group, auto_offset_reset="earliest", enable_auto_commit=False) as consumer:
        return _first_polled(consumer, began)


def _subscribe_late(bootstrap: str, group: str) -> float:
    """The other polls all the time, as its application would, so that it gives partitions up as soon as it is asked."""
    is_over = threading.Event()
    other = Consumer(bootstrap, group, auto_offset_reset="earliest", enable_auto_commit=False)
    other.subscribe([_TOPIC])
    other.poll(_PATIENCE_S)

    def go_on() -> None:
        while not is_over.is_set():
            other.poll(0.05)
        other.close()

    polling = threading.Thread(target=go_on)
    polling.start()
    try:
        return _subscribe(bootstrap, group)
    finally:
        is_over.set()
        polling.join(_PATIENCE_S)


def _first_polled(consumer: Consumer, began: float) -> float:
    consumer.subscribe([_TOPIC])
    while time.perf_counter() - began < _PATIENCE_S:
        if consumer.poll(1.0):
            return time.perf_counter() - began
    raise RuntimeError(f"no record came in {_PATIENCE_S} s")
