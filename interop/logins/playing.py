"""Tries clients at two musterd that want a login, one with TLS and one without, side by side."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import msgspec

from interop import builds, catalogue, rows
from interop.logins import story
from interop.logins.beside import beside, brokers
from interop.logins.guarded import MECHANISMS, PASSWORD, PROTOCOLS, USER, ProtectedMusterd, guarded
from interop.logins.identity_provider import IdentityProvider, serving
from interop.logins.page import MARK, MARK_BESIDE, Cell, failures, table
from interop.processes import Failed, Program
from interop.table import PAGE, Result, Verdict, spliced

CLIENTS = ("confluent-kafka", "aiokafka", "kafka-python", "java", "go-franz", "go-sarama")


class Choice(msgspec.Struct, frozen=True):
    """Selection of what to try; everything by default."""

    clients: tuple[str, ...] = CLIENTS
    protocols: tuple[str, ...] = PROTOCOLS
    mechanisms: tuple[str, ...] = MECHANISMS
    is_beside: bool = False
    """True: in front of an Apache Kafka, whose brokers know the users."""

    def cells(self) -> Iterator[Cell]:
        """The table's lines, by the folders of the clients. A client's own mechanisms alone."""
        for name in self.clients:
            client = catalogue.read((builds.CLIENTS / name / "client.toml").read_bytes())
            for protocol in self.protocols:
                for mechanism in (one for one in self.mechanisms if one in client.mechanisms):
                    yield name, protocol, mechanism


def run(choice: Choice, work: Path, *, write: bool) -> list[str]:
    """Prints the table, and writes it into docs/interop.md if it shall; a line for each failure."""
    found = _played(choice, work.resolve() / "logins")
    text = table(found)
    print(f"\n{text}", flush=True)
    if write:
        PAGE.write_text(spliced(PAGE.read_text(), text, MARK_BESIDE if choice.is_beside else MARK))
    return failures(found)


def _played(choice: Choice, work: Path) -> dict[Cell, list[Result]]:
    """The protocols side by side: most of a story is waiting for logins to end. Beside brokers, whose log tells of the
    logins of both, one after the other."""
    cells = list(choice.cells())
    found: dict[Cell, list[Result]] = {cell: [] for cell in cells}
    programs = {name: _program(name) for name in choice.clients}

    def all_at(server: ProtectedMusterd) -> None:
        for cell in (one for one in cells if one[1] == server.protocol):
            found[cell] = _tried(programs[cell[0]], server, cell, work)
            for result in found[cell]:
                rows.say(f"{' '.join(cell)}, {result.capability}", result)

    with ExitStack() as stack, ThreadPoolExecutor(1 if choice.is_beside else None) as pool:
        provider = stack.enter_context(serving(IdentityProvider(USER, PASSWORD)))
        servers: list[ProtectedMusterd] = []
        if choice.is_beside:
            kafka = stack.enter_context(brokers(work / "kafka", provider))
            servers += [stack.enter_context(beside(work / one, one, provider, kafka)) for one in choice.protocols]
        else:
            servers += [stack.enter_context(guarded(work / one, one, provider)) for one in choice.protocols]
        for ended in [pool.submit(all_at, server) for server in servers]:
            ended.result()
    return found


def _program(name: str) -> Program | Failed:
    try:
        return rows.program(name)
    except Failed as failure:
        return failure


def _tried(program: Program | Failed, server: ProtectedMusterd, cell: Cell, work: Path) -> list[Result]:
    if isinstance(program, Failed):
        verdict = Verdict.NOT_HERE if isinstance(program, rows.NotHere) else Verdict.FAILED
        return [Result(column, verdict, str(program)) for column in story.COLUMNS]
    _, protocol, mechanism = cell
    scenario = rows.new_scenario(program, program, server, f"{protocol}-{mechanism}".lower(), work)
    return story.play(scenario, server, mechanism)
