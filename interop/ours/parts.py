"""The three parts of what is tried with our own client, at a musterd and at an Apache Kafka that are begun for it."""

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import msgspec

from bench.builds import NotHere
from interop import builds, catalogue, rows
from interop.catalogue import CAPABILITIES
from interop.ours import mixed, page, suite
from interop.processes import Failed, Program
from interop.server import Server, apache_kafka, serving
from interop.table import PAGE, Result, Row, Verdict, failures, spliced

OURS = ("muster", "muster-aio")
MUSTERD, KAFKA = "musterd", "Apache Kafka 4.3.1"
SERVERS: Mapping[str, str] = {"musterd": MUSTERD, "kafka": KAFKA}
PARTS = ("tests", "row", "mixed")
OTHERS: Mapping[str, tuple[str, ...]] = {
    "java": ("java",),
    "confluent-kafka": ("confluent-kafka",),
    "both": ("java", "confluent-kafka"),
}
LED_BY_AIO = ("confluent-kafka",)
"""Groups in which the first of ours is the one for event loops; the one with threads comes later."""


class Choice(msgspec.Struct, frozen=True):
    """Selection of parts to run; everything by default."""

    parts: tuple[str, ...] = PARTS
    servers: tuple[str, ...] = tuple(SERVERS)
    others: tuple[str, ...] = tuple(OTHERS)
    assignors: tuple[str, ...] = ()

    def groups(self) -> Iterator[tuple[str, str]]:
        """(with whom, assignor) of each group."""
        for others in self.others:
            for assignor in mixed.common(OTHERS[others]):
                if not self.assignors or assignor in self.assignors:
                    yield others, assignor


def run(choice: Choice, work: Path, *, write: bool) -> list[str]:
    """Prints each part, and writes it into docs/interop.md if it shall; a line for each failure. What cannot be run
    here, for want of Java, is said and fails nothing.
    """
    failed: list[str] = []
    work = work / "ours"
    with contextlib.ExitStack() as open_servers:
        servers: dict[str, Server | str] = {}
        for key in choice.servers:
            began = serving(None, work / "musterd") if key == "musterd" else apache_kafka(work / "apache-kafka")
            try:
                servers[SERVERS[key]] = open_servers.enter_context(began)
            except NotHere as why:
                servers[SERVERS[key]] = str(why)
                print(f"{SERVERS[key]}: not here: {why}", flush=True)
        for part in choice.parts:
            text, wrong = _PARTS[part](choice, servers, work)
            print(f"\n{text}", flush=True)
            failed += wrong
            if write:
                PAGE.write_text(spliced(PAGE.read_text(), text, f"printed by make interop, {part}"))
    return failed


def _tests(_choice: Choice, servers: Mapping[str, Server | str], work: Path) -> tuple[str, list[str]]:
    outcomes: dict[str, str | suite.Suite] = {}
    for name, server in servers.items():
        if isinstance(server, str):
            outcomes[name] = server
            continue
        # At home they begin a musterd of their own: some want its native listener too.
        outcomes[name] = found = _suite(None if server.is_ours else server.bootstrap, work / f"tests-{name}")
        print(f"{suite.TESTS} at {name}: {found.passed} passed, {len(found.failed)} failed", flush=True)
    wrong = [
        f"{name}: {case.name}: {case.why}"
        for name, found in outcomes.items()
        if isinstance(found, suite.Suite)
        for case in found.failed
    ]
    return page.suites(outcomes), wrong


def _suite(bootstrap: str | None, logs: Path) -> suite.Suite:
    try:
        return suite.run(bootstrap, logs)
    except Failed as failure:
        return suite.Suite(0, failed=(suite.Case("all of them", str(failure)),))


def _row(_choice: Choice, servers: Mapping[str, Server | str], work: Path) -> tuple[str, list[str]]:
    """At the Apache Kafka alone: the rows at musterd are in the table of all clients."""
    server = servers.get(KAFKA, "not chosen")
    found: list[Row] = []
    for name in OURS:
        folder = builds.CLIENTS / name
        if isinstance(server, str):
            found.append(Row(catalogue.read((folder / "client.toml").read_bytes()), ()))
        else:
            found.append(rows.row(folder, server, CAPABILITIES, work))
    wrong = [f"{KAFKA}: {one}" for one in failures(found)]
    why_not = server if isinstance(server, str) else None
    return "\n".join(page.capabilities(one, KAFKA, why_not) for one in found), wrong


def _mixed(choice: Choice, servers: Mapping[str, Server | str], work: Path) -> tuple[str, list[str]]:
    """The servers side by side: most of a story is waiting for sessions to end."""
    found: dict[tuple[str, str], dict[str, Result]] = {group: {} for group in choice.groups()}
    ours = [rows.program(name) for name in OURS]
    programs = {name: _built(name) for others in choice.others for name in OTHERS[others]}

    def all_of(name: str, server: Server) -> None:
        for (others, assignor), results in found.items():
            here = [programs[one] for one in OTHERS[others]]
            results[name] = _group(ours, others, here, assignor, server, work)
            rows.say(f"mixed with {others}, {assignor}, at {name}", results[name])

    here = {name: server for name, server in servers.items() if isinstance(server, Server)}
    with ThreadPoolExecutor() as pool:
        for ended in [pool.submit(all_of, *one) for one in here.items()]:
            ended.result()
    for name in servers.keys() - here.keys():
        for results in found.values():
            results[name] = Result("mixed", Verdict.NOT_HERE)
    wrong = [
        f"mixed with {others}, {assignor}, at {name}: {result.detail}"
        for (others, assignor), results in found.items()
        for name, result in results.items()
        if result.verdict is Verdict.FAILED
    ]
    return page.groups(found, tuple(servers)), wrong


def _built(name: str) -> Program | Failed:
    try:
        return rows.program(name)
    except Failed as failure:
        return failure


def _group(
    ours: Sequence[Program],
    others: str,
    programs: Sequence[Program | Failed],
    assignor: str,
    server: Server,
    work: Path,
) -> Result:
    for failure in programs:
        if isinstance(failure, Failed):
            is_absent = isinstance(failure, rows.NotHere)
            return Result("mixed", Verdict.NOT_HERE if is_absent else Verdict.FAILED, str(failure))
    built = [program for program in programs if isinstance(program, Program)]
    first, second = reversed(ours) if others in LED_BY_AIO else ours
    scenario = rows.new_scenario(first, built[0], server, f"mixed-{others}-{assignor}", work)
    return rows.tried("mixed", lambda: mixed.play(scenario, (first, second), built, assignor))


_PARTS: Mapping[str, Callable[[Choice, Mapping[str, Server | str], Path], tuple[str, list[str]]]] = {
    "tests": _tests,
    "row": _row,
    "mixed": _mixed,
}
