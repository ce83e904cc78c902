"""Plays the stories of some clients at an Apache Kafka and a musterd, both begun for it, side by side."""

from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path

import msgspec

from bench import peers
from bench.builds import NotHere
from bench.processes import QUICK_GROUPS
from interop import rows
from interop.consumer import stories
from interop.consumer.page import MARK, Outcomes, table
from interop.processes import Failed, Program
from interop.server import Musterd, Server
from interop.table import PAGE, Result, Verdict, spliced

CLIENTS = ("java", "confluent-kafka", "go-franz")
KAFKA, MUSTERD = "Apache Kafka 4.3.1", "musterd"
SERVERS: Mapping[str, str] = {"kafka": KAFKA, "muster": MUSTERD}
OURS = "muster"
COMPANIONS: Mapping[str, str] = {"java": "confluent-kafka", "confluent-kafka": "go-franz", "go-franz": "java"}
"""Clients whose members are in the groups of some stories, too."""
NOT_OFFERED: Mapping[tuple[str, str], str] = {
    (
        "go-franz",
        "static",
    ): "a static member says nothing when it is closed, so its successor waits for its session to end"
}
"""Stories that a client cannot play at any server."""
Found = dict[tuple[str, str], dict[str, Result]]


class Choice(msgspec.Struct, frozen=True):
    """Selection of what to play, and where; everything by default."""

    clients: tuple[str, ...] = CLIENTS
    stories: tuple[str, ...] = stories.STORIES
    servers: tuple[str, ...] = tuple(SERVERS)


def run(choice: Choice, work: Path, *, write: bool) -> list[str]:
    """Prints the table, and writes it into docs/interop.md if it shall; a line for each failure at musterd. What Apache
    Kafka does otherwise stands in the table, and fails nothing.
    """
    found = _played(choice, work / "balanced")
    text = table(found, choice.servers, SERVERS)
    print(f"\n{text}", flush=True)
    if write:
        PAGE.write_text(spliced(PAGE.read_text(), text, MARK))
    return failures(found)


def failures(found: Outcomes) -> list[str]:
    """A line for each story that failed at musterd."""
    return [
        f"{client}, {story}: {results[OURS].detail}"
        for (client, story), results in found.items()
        if OURS in results and results[OURS].verdict is Verdict.FAILED
    ]


def _played(choice: Choice, work: Path) -> Found:
    """By client and story, then by server. The servers side by side: most of a story is waiting."""
    chosen = [(client, story) for client in choice.clients for story in choice.stories]
    found: Found = {one: {} for one in chosen}
    programs = {client: _program(client) for client in CLIENTS}

    def all_at(key: str, server: Server) -> None:
        for client, story in chosen:
            found[client, story][key] = _tried(programs, client, story, server, work)
            rows.say(f"{client}, {story}, at {SERVERS[key]}", found[client, story][key])

    with ExitStack() as stack, ThreadPoolExecutor() as pool:
        waiting = []
        for key in choice.servers:
            try:
                server = stack.enter_context(_serving(key, work / key))
            except NotHere as why:
                print(f"{SERVERS[key]}: not here: {why}", flush=True)
                for results in found.values():
                    results[key] = Result("", Verdict.NOT_HERE, str(why))
                continue
            waiting.append(pool.submit(all_at, key, server))
        for one in waiting:
            one.result()
    return found


@contextmanager
def _serving(key: str, folder: Path) -> Iterator[Server]:
    folder.mkdir(parents=True, exist_ok=True)
    if key == "kafka":
        with peers.apache_kafka(
            folder, may_fetch=True, settings={**QUICK_GROUPS, **stories.SETTINGS}, heap="512m"
        ) as peer:
            yield Server(f"127.0.0.1:{peer.port}")
        return
    ours = Musterd(folder, *[f"{name}={value}" for name, value in stories.SETTINGS.items()])
    try:
        yield ours
    finally:
        ours.end()


def _program(name: str) -> Program | Failed:
    try:
        return rows.program(name)
    except Failed as failure:
        return failure


def _tried(programs: Mapping[str, Program | Failed], client: str, story: str, server: Server, work: Path) -> Result:
    if reason := NOT_OFFERED.get((client, story)):
        return Result(story, Verdict.NOT_OFFERED, reason)
    built, companion = programs[client], programs[COMPANIONS[client]]
    for program in (built, companion) if story in stories.WITH_COMPANION else (built,):
        if isinstance(program, Failed):
            is_absent = isinstance(program, rows.NotHere)
            return Result(story, Verdict.NOT_HERE if is_absent else Verdict.FAILED, str(program))
    assert isinstance(built, Program)
    other = companion if isinstance(companion, Program) else built
    scenario = rows.new_scenario(built, other, server, f"848-{story}", work)
    return rows.tried(story, lambda: stories.play(scenario, story))
