"""Cost of a musterd in front of an Apache Kafka: the same requests direct and through it.

`groupload.c` makes the load; both ways take turns. Goals: half of the direct throughput at 1 MiB, 0.3 ms more at the
median of 1 KiB.
"""

from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

from bench import builds, peers, slow_readers
from bench.builds import NotHere
from bench.kafka import Answers, Bench, Failed
from bench.peers import RECORDS_TOPIC, TOPICS, Peer
from bench.processes import Daemon, scratch
from bench.report import Options, Sheet, Value, median
from tests.edges.musterd import free_port

DIRECT, THROUGH = "direct", "through"


class Test(NamedTuple):
    """Requests of one kind, one outstanding on each connection."""

    name: str
    scenario: str
    connections: int
    batch_bytes: int


TESTS = (
    Test("Fetch, 1 MiB", "fetch", 1, 1 << 20),
    Test("Fetch, 1 MiB", "fetch", 4, 1 << 20),
    Test("Produce, 1 MiB", "produce", 1, 1 << 20),
    Test("Produce, 1 MiB", "produce", 4, 1 << 20),
    Test("Fetch, 1 KiB", "fetch", 1, 1 << 10),
    Test("Produce, 1 KiB", "produce", 1, 1 << 10),
)


def measure(options: Options) -> list[Sheet]:
    """Skipped, with a sentence, where there is no C compiler or no Apache Kafka."""
    with ExitStack() as stack:
        folder = stack.enter_context(scratch())
        try:
            generator = builds.groupload()
            kafka = stack.enter_context(peers.apache_kafka(folder, may_fetch=options.may_fetch))
        except NotHere as reason:
            return [Sheet("In front of a broker: skipped", ("why",), [(str(reason),)])]
        front = stack.enter_context(_front(folder, kafka))
        through = Peer(THROUGH, front.addresses["kafka"][1], front.pid)
        if options.slow:
            alone = Bench(generator, [through], options)
            return [
                slow_readers.measure(kafka, through, lambda seconds: _load(alone, through, TESTS[4], seconds), options)
            ]
        bench = Bench(generator, [Peer(DIRECT, kafka.port, kafka.pid), through], options)
        for test in TESTS:
            for server in bench.servers:
                _load(bench, server, test, 0.3 if options.quick else 2.0)
        rows = [_row(bench, test) for test in TESTS]
        memory = through.resident_bytes() / 1e6
    notes = (f"musterd in front of it had {memory:.0f} MB of memory in the end.", *bench.notes)
    columns = (
        "request",
        "connections",
        "direct: MB/s",
        "through: MB/s",
        "of direct",
        "direct: ms",
        "through: ms",
        "more",
    )
    return [Sheet("In front of a broker: the same requests direct and through", columns, rows, notes)]


def _front(folder: Path, kafka: Peer) -> Daemon:
    settings = {"upstream.servers": f"127.0.0.1:{kafka.port}", "upstream.listener.ports": str(free_port())}
    return Daemon(folder / "front", settings, http=False)


def _load(bench: Bench, server: Peer, test: Test, seconds: float) -> dict[str, Any]:
    arguments = ["--conns", str(test.connections), "--seconds", str(seconds), "--warmup", "0.3"]
    arguments += ["--batch-bytes", str(test.batch_bytes), "--record-bytes", str(min(1_000, test.batch_bytes // 2))]
    arguments += ["--topic", RECORDS_TOPIC, "--partitions", str(TOPICS[RECORDS_TOPIC])]
    return bench.ask(server, test.scenario, *arguments)


def _row(bench: Bench, test: Test) -> tuple[Value, ...]:
    key = f"{test.name} {test.connections}"
    found = bench.in_turn(key, bench.options.rounds, lambda server: _load(bench, server, test, bench.options.seconds))
    direct, through = (_median(found, key, way, lambda one: one["rps"]) for way in (DIRECT, THROUGH))
    size = test.batch_bytes / 1e6
    before, after = (_median(found, key, way, lambda one: one["lat_us"]["p50"] / 1_000) for way in (DIRECT, THROUGH))
    share = through / direct if direct else None
    return (test.name, test.connections, direct * size, through * size, share, before, after, after - before)


def _median(found: Answers, key: str, way: str, figure: Callable[[dict[str, Any]], float]) -> float:
    answers = found.get((key, way))
    if not answers:
        raise Failed(f"{key}, {way}: no answer")
    return median([figure(answer) for answer in answers])
