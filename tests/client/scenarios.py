"""The scenarios of the consumer (docs/spec/consumer-client.md#H.1 to #H.99) and of client-balanced groups
(docs/spec/client-balanced-groups.md#17), each with the one test that bears its number. The page has those of
server-driven groups, too (`tests/groups/consumer/scenarios.py`).

python -m tests.client.scenarios        prints docs/scenarios.md
"""

import ast
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import NamedTuple

from tests.client.balanced import scenarios as balanced
from tests.groups.consumer import scenarios as server_driven

ROOT = Path(__file__).parents[2]

THEMES: tuple[tuple[str, tuple[str, ...]], ...] = (
    (
        "Finding the coordinator",
        (
            "the first poll looks the coordinator up once, at an idle node there is a connection to",
            "of two connected nodes, the one with fewer requests in flight is asked",
            "no node is there: a poll ends in its time, without an error",
            "lookups refused for now: pauses of 100, 200, 400 ms (±20 %), the nodes looked at each time, then ready",
            "the coordinator refuses connections: it is forgotten and looked up again",
            "a lookup refused for good is raised once, and tried again by the next poll",
            "a poll and a heartbeat both need the coordinator: one lookup is on the wire",
        ),
    ),
    (
        "Getting and keeping a place",
        (
            "the server asks for a member id: the second join has it, comes at once, and there is one member",
            "a sync meets a new rebalance: the member joins again under its id",
            "a sync of a generation gone: the id is kept, what was owned is lost",
            "a heartbeat of a member unknown: all is reset, the next poll loses, then is assigned",
            "a late answer about an older generation is ignored",
            "the application is busy for 20 s of a rebalance: its heartbeats keep its place until it polls",
            "the coordinator moves: it is found, the generation goes on, nobody is told",
            "the coordinator is killed and started elsewhere: nothing is lost, doubled or reassigned",
            "a fenced static member gets a fatal error from poll",
        ),
    ),
    (
        "Callbacks and rebalances",
        (
            "a wakeup while a join is outstanding: the next poll ends the same join, nothing is prepared twice",
            "what `on_assigned` raises comes out of poll; the assignment stands and is not told again",
            "a wakeup inside `on_assigned`: it is called again with the same partitions",
            "eager, two members and a third: everything is revoked everywhere before anything is assigned",
            "eager, nothing owned: both callbacks come, with nothing",
            "cooperative, one owns six and a second joins: three move, the others are delivered throughout",
            "cooperative, nothing moves: nothing is revoked, `on_assigned` comes with nothing",
            "cooperative, a topic is dropped: its partitions are revoked before the join",
            "an assignment for a topic dropped meanwhile is not told, and the member joins again",
            "a topic grows: only the leader sets off the rebalance, within the age of its metadata, and all get shares",
            "a topic is made that matches a pattern: one rebalance, it is read; one that does not match is not",
            "a follower accepts partitions of a matching topic it had not heard of",
            "two ways of subscribing do not mix",
        ),
    ),
    (
        "Commits",
        (
            "automatic, every second, ten seconds: 9 to 11 commits, each of the position before its poll",
            "an automatic commit refused for now is tried again after 100 ms, without an error",
            "an eager rebalance under load: what is committed is the position, nothing is handed out after, nor twice",
            "the commit before a join is never answered: the join goes ahead after the rebalance timeout",
            "a commit during a rebalance says so, and works after a poll",
            "a commit of a member expelled fails, and the next poll joins again",
            "three asynchronous commits, then a synchronous one: their callbacks come in order before it returns",
            "an asynchronous commit refused for now: the callback hears of it, nothing is sent again",
            "a negative offset is refused before anything is sent",
            "a commit from outside of a group that has members is refused",
        ),
    ),
    (
        "Staying out, closing, threads",
        (
            "a handler takes longer than max.poll.interval: the member leaves, others take over, it hears of the loss",
            "the same, static: it does not leave, its session expels it",
            "close: commit, `on_revoked`, leave, in this order, and the rest rebalance at once",
            "close without a coordinator takes as long as it was given",
            "close twice is nothing; a poll after it is an error",
            "a poll from a second thread is refused, the first goes on",
        ),
    ),
    (
        "Polling",
        (
            "poll(0) hands out what is buffered, without waiting",
            "poll(1 s) returns when a record arrives",
            "the next fetch is on the wire before records are returned",
            "ten at a time of a batch of 95: ten polls in order, no fetch until all are handed out",
            "three partitions on two nodes: two requests",
            "an answer is late, polls go on: one request outstanding a node",
            "answers of two nodes swapped: each partition in order, nothing twice",
            "a leader moves while a fetch is outstanding, both answer: the data comes once",
            "a seek while a fetch is outstanding: the old answer is dropped",
            "a seek while data is buffered: that partition's is dropped",
            "paused with data buffered, resumed: the same records, without a new fetch",
            "a partition revoked with data buffered: never handed out",
        ),
    ),
    (
        "Positions, resets and broken records",
        (
            "out of range: the beginning, the end, or an error with partition and position",
            "out of range at a position meanwhile left: ignored",
            "no committed offset: the beginning, the end, or an error",
            "the answer to a reset comes after a seek: ignored",
            "a batch of nothing but control records: the position moves past it",
            "a record that cannot be read: those before it come, then the error at each poll, until a seek past it",
            "an error for one partition and data for another in one answer: data now, the error next",
        ),
    ),
    (
        "Fetch sessions",
        (
            "polls without new data: later requests and answers name no partition",
            "another assignment: the next request adds and forgets exactly the difference",
            "the server forgot the session: one failed fetch, then a full request, nothing lost",
            "the same incremental request twice: refused, and a new session begins",
            "no room for a session: every request full, all the same correct",
            "close: the session of each node is given back",
        ),
    ),
    (
        "Streams: threads and queues",
        (
            "five partitions over two members with two threads each: P0 P1, P2, P3, P4",
            "eleven threads in one member: thread 2 comes before thread 10",
            "more threads than partitions: the last one waits, without an error",
            "streams are made once, and the listener is set before",
            "two partitions through one queue: each keeps its order",
            "a stream without messages times out after 200 ms, and can be iterated again",
            "a stream that stalls: two chunks are queued, nothing more is fetched, nobody else is held up or expelled",
        ),
    ),
    (
        "Streams: rebalances and the registry",
        (
            "a second member joins under load: nothing twice, nothing missed, nothing handed out after its commit",
            "a hundred joins and leaves: stop, clear, commit, tell, release, claim, tell, fetch, always in this order",
            "the registry all the while: never two owners, never a fetch or a message without a grant",
            "what another still owns is claimed again until a release or its lease frees it; nothing is fetched before",
            "two partitions free and the third owned: none is granted",
            "a claim whose answer was lost is granted again by the same epoch",
            "a release by an older epoch is refused and changes nothing",
            "a claim of what is assigned to somebody else is refused",
            "tries used up at the start: raised after four of them",
            "tries used up later: told to `on_error`, and it recovers by itself",
            "a member stopped for two sessions hands out nothing of what it had, and rejoins",
            "a crash between hand-out and commit: that message comes again, none is lost",
        ),
    ),
    (
        "Streams: endings, topics and other members",
        (
            "after a clean shutdown the next one begins behind the last message",
            "a topic gains partitions: they come out of the streams there are",
            "a topic is made that matches the pattern: its messages come out of the streams there are",
            "shutdown while iterators wait: they end, what is consumed is committed, the others rebalance at once",
            "members that share a topic rebalance together",
            "consumers and streams do not mix in a group",
            "fifty members killed and joining for ten minutes: every record handed out, in order, everything owned",
            "what is committed between the reading of offsets and the claim counts",
            "a release lost on the wire: the join ends the grants, and others claim at the first try",
            "a member stuck in its listener is thrown out: its partitions stay its own until its lease ends",
        ),
    ),
)

SERIES: Mapping[str, tuple[tuple[str, tuple[str, ...]], ...]] = {"h": THEMES, "cb": balanced.THEMES}
_TITLES = {
    "h": "Consuming (docs/spec/consumer-client.md#H)",
    "cb": "Client-balanced groups (docs/spec/client-balanced-groups.md#17)",
}

_NAME = re.compile(r"test_(h|cb)(\d+)_")


class Found(NamedTuple):
    """A test that bears a number."""

    series: str
    number: int
    path: Path
    name: str


@cache
def numbered() -> tuple[Found, ...]:
    return tuple(_numbered())


def _numbered() -> Iterator[Found]:
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        text = path.read_text()
        for node in ast.walk(ast.parse(text)) if _NAME.search(text) else ():
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and (match := _NAME.match(node.name)):
                yield Found(match[1], int(match[2]), path, node.name)


def by_number(series: str) -> dict[int, list[Found]]:
    found: dict[int, list[Found]] = defaultdict(list)
    for one in numbered():
        if one.series == series:
            found[one.number].append(one)
    return found


def page() -> str:
    """docs/scenarios.md."""
    lines = [
        "# Scenarios",
        "",
        "Printed from the tests by `make scenarios`: each number is a scenario, and has one test, which asserts what",
        "is said here; those of server-driven groups may have several, and are quoted from their specification, which",
        "explains the letters. Tests of `tests/client/` and `tests/groups/` run on a simulated clock and network.",
    ]
    for series, themes in SERIES.items():
        lines += ["", f"## {_TITLES[series]}", *_part(series, themes)]
    lines += ["", f"## {server_driven.TITLE}", *server_driven.part()]
    return "\n".join(lines) + "\n"


def _part(series: str, themes: tuple[tuple[str, tuple[str, ...]], ...]) -> Iterator[str]:
    found, number = by_number(series), 0
    for theme, scenarios in themes:
        yield from ("", f"### {theme}", "", "| # | what happens, and what must come of it | test |", "|---|---|---|")
        for text in scenarios:
            number += 1
            where = ", ".join(f"[{one.path.stem}](../{_place(one.path)}) `{one.name}`" for one in found[number])
            yield f"| {number} | {text} | {where} |"


def _place(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


if __name__ == "__main__":
    print(page(), end="")
