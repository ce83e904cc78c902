"""`python -m interop.consumer`: others' consumers with `group.protocol=consumer`, at Apache Kafka 4.3.1 and musterd.

* `python -m interop.consumer`: all clients that can, all stories, both servers side by side
* `python -m interop.consumer java --only static --server muster`: a part of it
* `python -m interop.consumer --write`: and the table goes into docs/interop.md
"""

import argparse
import sys
import tempfile
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path

from bench import peers
from bench.builds import NotHere
from bench.processes import QUICK_GROUPS
from interop import rows
from interop.consumer import stories
from interop.consumer.page import MARK, table
from interop.processes import Failed, Program
from interop.server import Musterd, Server
from interop.table import PAGE, Result, Verdict, spliced

CLIENTS = ("java", "confluent-kafka", "go-franz")
KAFKA, MUSTERD = "Apache Kafka 4.3.1", "musterd"
SERVERS = {"kafka": KAFKA, "muster": MUSTERD}
COMPANIONS: Mapping[str, str] = {"java": "confluent-kafka", "confluent-kafka": "go-franz", "go-franz": "java"}
"""Clients whose members are in the group of the story `mixed`, too."""
NOT_OFFERED: Mapping[tuple[str, str], str] = {
    (
        "go-franz",
        "static",
    ): "a static member says nothing when it is closed, so its successor waits for its session to end"
}
"""Stories that a client cannot play at any server."""


def main() -> int:
    given = _options()
    with tempfile.TemporaryDirectory(prefix="muster-interop-") as scratch:
        found = _run(given, given.keep or Path(scratch))
    text = table(found, tuple(given.server or SERVERS), SERVERS)
    print(f"\n{text}")
    if given.write:
        PAGE.write_text(spliced(PAGE.read_text(), text, MARK))
    failed = [result for results in found.values() for result in results.values() if result.verdict is Verdict.FAILED]
    print(f"{len(failed)} failed" if failed else "all of it passed")
    return 1 if failed else 0


Found = dict[tuple[str, str], dict[str, Result]]


def _run(given: argparse.Namespace, work: Path) -> Found:
    """By client and story, then by server. The servers side by side: most of a story is waiting."""
    chosen = [(client, story) for client in given.clients or CLIENTS for story in given.only or stories.STORIES]
    found: Found = {one: {} for one in chosen}
    programs = {client: _program(client) for client in CLIENTS}

    def all_at(key: str, server: Server) -> None:
        for client, story in chosen:
            found[client, story][key] = _tried(programs, client, story, server, work)
            rows.say(f"{client}, {story}, at {SERVERS[key]}", found[client, story][key])

    with ExitStack() as stack, ThreadPoolExecutor() as pool:
        waiting = []
        for key in given.server or SERVERS:
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
    for program in (built, companion) if story == "mixed" else (built,):
        if isinstance(program, Failed):
            is_absent = isinstance(program, rows.NotHere)
            return Result(story, Verdict.NOT_HERE if is_absent else Verdict.FAILED, str(program))
    assert isinstance(built, Program)
    other = companion if isinstance(companion, Program) else built
    stage = rows.staged(built, other, server, f"848-{story}", work)
    return rows.tried(story, lambda: stories.play(stage, story))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m interop.consumer", description="Others' consumers in groups that the server balances."
    )
    parser.add_argument("clients", nargs="*", help=f"of {', '.join(CLIENTS)}; all without any")
    parser.add_argument("--only", action="append", choices=stories.STORIES, help="one story; may be given again")
    parser.add_argument("--server", action="append", choices=SERVERS, help="may be given again; both without any")
    parser.add_argument("--write", action="store_true", help="put the table into docs/interop.md")
    parser.add_argument("--keep", type=Path, help="a folder for what the servers and the programs leave and say")
    options = parser.parse_args()
    if unknown := set(options.clients) - set(CLIENTS):
        parser.error(f"no such client: {', '.join(sorted(unknown))}")
    return options


if __name__ == "__main__":
    sys.exit(main())
