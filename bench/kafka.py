"""The Kafka dialect in both builds, beside Apache Kafka and franz-go's kfake: what a request, a rebalance and an idle
member cost.

`groupload.c` makes the load and checks every answer; the server's processor time comes from the scheduler's counters.
The servers take turns test by test, so that what else the machine does meets them all. Each is asked everything before
anything is measured, all for the same time: Kafka's machine code is made while it runs.
"""

import json
import os
import resource
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any, NamedTuple

from bench import builds, peers
from bench.builds import NotHere
from bench.peers import COMPILED, KAFKA, KFAKE, OFFSETS_TOPIC, PURE, RECORDS_TOPIC, TOPICS, Peer
from bench.processes import scratch
from bench.report import Options, Sheet, Value, median

GROUPS = 50
IDLE_MEMBERS = 1_000
DELAY_MS = 500
_RUN_S = 120.0
_PATIENCE = 20
_WARM_UP_S, _WARM_UP_QUICK_S = 20.0, 0.3
"""Time for which each server is asked each request before anything is measured."""


class Test(NamedTuple):
    """Requests of one kind. `goal` and `compiled_goal`: the most that the processor time of musterd's pure and of its
    compiled build may be of Kafka's."""

    scenario: str
    name: str
    connections: int
    arguments: tuple[str, ...]
    goal: float
    compiled_goal: float


_OFFSETS = ("--topic", OFFSETS_TOPIC, "--groups", str(GROUPS))
_RECORDS = ("--topic", RECORDS_TOPIC, "--partitions", str(TOPICS[RECORDS_TOPIC]))
REQUESTS = (
    Test("heartbeat", "Heartbeat", 50, _OFFSETS, 0.45, 0.4),
    Test("heartbeat", "Heartbeat", 500, _OFFSETS, 0.6, 0.5),
    Test("consumer_heartbeat", "ConsumerGroupHeartbeat", 50, ("--topic", OFFSETS_TOPIC), 0.5, 0.5),
    Test("consumer_heartbeat", "ConsumerGroupHeartbeat", 500, ("--topic", OFFSETS_TOPIC), 0.5, 0.5),
    Test("commit", "OffsetCommit, 1 partition", 50, _OFFSETS, 0.65, 0.5),
    Test("commit", "OffsetCommit, 1 partition", 500, _OFFSETS, 0.8, 0.6),
    Test("commit", "OffsetCommit, 10 partitions", 50, (*_OFFSETS, "--partitions", "10"), 0.6, 0.5),
    Test("commit", "OffsetCommit, 10 partitions", 500, (*_OFFSETS, "--partitions", "10"), 0.6, 0.5),
    Test("fetch_offsets", "OffsetFetch, 1 partition", 50, _OFFSETS, 0.6, 0.5),
    Test("produce", "Produce, 1 MiB", 4, _RECORDS, 2.0, 2.0),
    Test("fetch", "Fetch, 1 MiB", 4, _RECORDS, 2.0, 2.0),
)
REBALANCES: Mapping[int, tuple[float, float]] = {10: (1.5, 1.2), 100: (1.5, 1.2), 1_000: (1.1, 0.9)}
"""Sizes of groups, and the goals of both builds for the time of a rebalance."""

Answers = dict[tuple[str, str], list[dict[str, Any]]]
"""Results of groupload, by test and server."""


class Failed(Exception):
    """A server's answers were not what they must be, or none came."""


class Bench:
    """The servers, and the generator that asks them."""

    def __init__(self, generator: Path, servers: Sequence[Peer], options: Options) -> None:
        self.servers = servers
        self.options = options
        self.notes: list[str] = []
        self._generator = generator
        self._runs = 0

    def ask(self, server: Peer, scenario: str, *arguments: str) -> dict[str, Any]:
        """One run of the generator. Raises Failed."""
        self._runs += 1
        prefix = f"{scenario[:4]}-{self._runs}"
        command = [str(self._generator), scenario, "--port", str(server.port), "--pid", str(server.pid)]
        command += ["--group-prefix", prefix, "--label", server.name, *arguments]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=_RUN_S, check=False)
        except subprocess.TimeoutExpired:
            raise Failed(f"{server.name}, {scenario}: no end within {_RUN_S:.0f} s") from None
        answer: dict[str, Any] = json.loads(done.stdout) if done.stdout else {}
        if not answer.get("ok"):
            why = answer.get("why") or answer.get("error_codes") or done.stderr.strip()
            raise Failed(f"{server.name}, {scenario}: {why}")
        if answer.get("retries"):
            self.notes.append(
                f"{server.name}, {scenario}: refused {answer['retries']} times for want of room, and done."
            )
        return answer

    def in_turn(self, key: str, rounds: int, ask: Callable[[Peer], dict[str, Any]]) -> Answers:
        """Every server, round by round. One that fails is asked no more, and noted."""
        found: Answers = {}
        failed: set[str] = set()
        for _ in range(rounds):
            for server in self.servers:
                if server.name in failed:
                    continue
                try:
                    found.setdefault((key, server.name), []).append(ask(server))
                except Failed as failure:
                    failed.add(server.name)
                    self.notes.append(str(failure))
        return found


def measure(options: Options) -> list[Sheet]:
    """Skipped, with a sentence, where there is no C compiler; without the peers that are not here."""
    try:
        generator = builds.groupload()
    except NotHere as reason:
        return [Sheet("The Kafka dialect: skipped", ("why",), [(str(reason),)])]
    wanted = options.only or SCENARIOS
    others = _Others()
    with ExitStack() as stack:
        folder = stack.enter_context(scratch())
        servers, absent = _start(stack, folder, options)
        bench = Bench(generator, servers, options)
        for server in servers:
            _warm_up(bench, server, [test for test in REQUESTS if test.scenario in wanted])
        sheets = [sheet for name, part in _PARTS.items() if name in wanted for sheet in part(bench)]
        requests = _requests(bench, [test for test in REQUESTS if test.scenario in wanted])
        sheets[:0] = requests
        if requests:
            sheets.append(_memory(bench))
        if "first" in wanted:
            sheets.append(_first_assignment(generator, folder, options))
        sheets[0].notes += (*absent, *bench.notes)
    sheets[0].notes += (others.seen(),)
    return sheets


class _Others:
    """Processor time of all that runs on the machine meanwhile, but of this process and its children."""

    def __init__(self) -> None:
        self._load = os.getloadavg()[0]
        self._began = _machine_s()
        self._own = _own_s()

    def seen(self) -> str:
        """Say it, once all children have ended."""
        busy, total = _machine_s()
        share = (busy - self._began[0] - (_own_s() - self._own)) / max(total - self._began[1], 0.01)
        load = f"load {self._load:.1f} before and {os.getloadavg()[0]:.1f} at the end"
        return f"What else ran took {max(share, 0.0):.0%} of the machine's processors ({load})."


def _machine_s() -> tuple[float, float]:
    """Seconds of all processors since the start of the machine: those at work, and all."""
    user, nice, system, idle, waiting, *rest = (int(each) for each in Path("/proc/stat").read_text().split()[1:9])
    busy = user + nice + system + sum(rest)
    a_second = os.sysconf("SC_CLK_TCK")
    return busy / a_second, (busy + idle + waiting) / a_second


def _own_s() -> float:
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in used)


def _start(stack: ExitStack, folder: Path, options: Options) -> tuple[list[Peer], list[str]]:
    servers, absent = [stack.enter_context(peers.musterd(folder, tree=builds.pure_tree()))], []
    try:
        tree = builds.compiled_tree()
        servers.append(stack.enter_context(peers.musterd(folder, name=COMPILED, tree=tree)))
    except NotHere as reason:
        absent.append(f"Left out: {reason}.")
    for start in (peers.apache_kafka, peers.kfake):
        try:
            servers.append(stack.enter_context(start(folder, may_fetch=options.may_fetch)))
        except NotHere as reason:
            absent.append(f"Left out: {reason}.")
    return servers, absent


def _warm_up(bench: Bench, server: Peer, tests: Sequence[Test]) -> None:
    """Ask until the server's coordinators are there, then everything that will be measured."""
    for _ in range(_PATIENCE):
        with suppress(Failed):
            _load(bench, server, REQUESTS[1], 0.1)
            break
    for test in tests:
        with suppress(Failed):
            _load(bench, server, test, _WARM_UP_QUICK_S if bench.options.quick else _WARM_UP_S)
    with suppress(Failed):
        _rebalance(bench, server, "100")


# ------------------------------------------------------------------------------------------------------------ requests


def _requests(bench: Bench, tests: Sequence[Test]) -> list[Sheet]:
    if not tests:
        return []
    rows = [_request_row(bench, test) for test in tests]
    names = [server.name for server in bench.servers]
    columns = [
        "request",
        "connections",
        *(f"{name}: CPU us" for name in names),
        *(f"{name}: a second" for name in names),
    ]
    return [
        Sheet(
            "The Kafka dialect: requests, one outstanding on each connection",
            (*columns, *_RATIOS),
            rows,
            (
                _BUILDS,
                "CPU us: microseconds of the server's processors a request. musterd's commits and records are on disk",
                "(one fdatasync for all that wait) when they are answered; Kafka's and kfake's are in memory.",
            ),
        )
    ]


def _request_row(bench: Bench, test: Test) -> tuple[Value, ...]:
    key = f"{test.name} {test.connections}"
    found = bench.in_turn(key, bench.options.rounds, lambda server: _load(bench, server, test, bench.options.seconds))
    cpu = _medians(bench, found, key, lambda answer: answer["server_us_per_req"])
    a_second = _medians(bench, found, key, lambda answer: answer["rps"])
    return (
        test.name,
        test.connections,
        *cpu.values(),
        *a_second.values(),
        *_ratios(cpu, test.goal, test.compiled_goal),
    )


def _load(bench: Bench, server: Peer, test: Test, seconds: float) -> dict[str, Any]:
    warm_up = 0.3
    if server.name == KFAKE and test.scenario == "produce":
        seconds, warm_up = seconds / 4, 0.05
    arguments = ["--conns", str(test.connections), "--seconds", str(seconds), "--warmup", str(warm_up)]
    return bench.ask(server, test.scenario, *arguments, *test.arguments)


def _medians(
    bench: Bench, found: Answers, key: str, figure: Callable[[dict[str, Any]], float]
) -> dict[str, float | None]:
    """By server, in the order of the columns."""
    of = {server.name: found.get((key, server.name)) for server in bench.servers}
    return {name: median([figure(answer) for answer in answers]) if answers else None for name, answers in of.items()}


_RATIOS = (f"{PURE} / {KAFKA}", "goal", f"{COMPILED} / {KAFKA}", "goal")
_BUILDS = f"{PURE}: the pure build; {COMPILED}: musterd with its hot path compiled by mypyc."


def _ratios(values: Mapping[str, float | None], goal: Value, compiled_goal: Value) -> tuple[Value, ...]:
    """The columns of `_RATIOS`."""
    kafkas = values.get(KAFKA)
    pure, compiled = (
        ours / kafkas if ours is not None and kafkas else None for ours in map(values.get, (PURE, COMPILED))
    )
    return pure, goal, compiled, compiled_goal


# ------------------------------------------------------------------------------------------------- groups, idle, memory


def _rebalances(bench: Bench) -> Iterator[Sheet]:
    names = [server.name for server in bench.servers]
    rows = [_rebalance_row(bench, size, goals) for size, goals in REBALANCES.items()]
    yield Sheet(
        "The Kafka dialect: one member is added to a group that stands",
        ("members", *(f"{n}: ms" for n in names), *(f"{n}: CPU ms" for n in names), *_RATIOS),
        rows,
        ("Milliseconds from the last JoinGroup sent to the last assignment received; musterd's are on disk by then.",),
    )


def _rebalance_row(bench: Bench, members: int, goals: tuple[float, float]) -> tuple[Value, ...]:
    size = str(members)
    found = bench.in_turn(size, bench.options.rounds + 1, lambda server: _rebalance(bench, server, size))
    took = _medians(bench, found, size, lambda answer: answer["add"]["coordinator_ms"])
    cpu = _medians(bench, found, size, lambda answer: answer["add"]["server_cpu_s"] * 1e3)
    return (members, *took.values(), *cpu.values(), *_ratios(took, *goals))


def _rebalance(bench: Bench, server: Peer, size: str) -> dict[str, Any]:
    return bench.ask(server, "rebalance", "--members", size, "--topic", OFFSETS_TOPIC, "--skip-kill")


def _idle(bench: Bench) -> Iterator[Sheet]:
    members = IDLE_MEMBERS // 10 if bench.options.quick else IDLE_MEMBERS
    arguments = ["--conns", str(members), "--groups", str(members // 10), "--topic", OFFSETS_TOPIC]
    arguments += ["--seconds", "3" if bench.options.quick else "6", "--warmup", "1"]
    found = bench.in_turn("idle", 1, lambda server: bench.ask(server, "idle", *arguments))
    share = _medians(bench, found, "idle", lambda answer: answer["server_cpu_pct"])
    beat = _medians(bench, found, "idle", lambda answer: answer["server_us_per_hb"])
    rows: list[tuple[Value, ...]] = [
        ("CPU %", *share.values(), *_ratios(share, 0.4, 0.33)),
        ("CPU us a heartbeat", *beat.values(), *_ratios(beat, None, None)),
    ]
    yield Sheet(
        f"The Kafka dialect: {members:,} idle members, a heartbeat each 3 s, groups of ten",
        ("", *(server.name for server in bench.servers), *_RATIOS),
        rows,
    )


_PARTS: Mapping[str, Callable[[Bench], Iterator[Sheet]]] = {"rebalance": _rebalances, "idle": _idle}
SCENARIOS = (*dict.fromkeys([test.scenario for test in REQUESTS]), *_PARTS, "first")


def _memory(bench: Bench) -> Sheet:
    resident: dict[str, float | None] = {server.name: server.resident_bytes() / 1e6 for server in bench.servers}
    return Sheet(
        "The Kafka dialect: resident memory when all that was done, MB",
        (*resident, *_RATIOS),
        [(*resident.values(), *_ratios(resident, 0.1, 0.1))],
    )


def _first_assignment(generator: Path, folder: Path, options: Options) -> Sheet:
    """A daemon of its own, which waits for members. The second to come prolongs the wait, as in Kafka, so it ends at
    twice the delay."""
    settings = {"group.initial.rebalance.delay.ms": str(DELAY_MS)}
    arguments = ("--members", "2", "--skip-kill", "--known-delay-ms", str(2 * DELAY_MS), "--topic", OFFSETS_TOPIC)
    (folder / "first").mkdir()
    with peers.musterd(folder / "first", settings) as server:
        bench = Bench(generator, [server], options)
        late = [bench.ask(server, "rebalance", *arguments)["form_minus_delay_ms"] for _ in range(options.rounds)]
    return Sheet(
        f"The Kafka dialect: first assignment of a fresh group of two, initial delay {DELAY_MS} ms",
        ("ms after the delay", "goal"),
        [(max(late), 100)],
        ("The worst of the rounds. The delay ends at twice its time: the second member prolongs it, as in Kafka.",),
    )
