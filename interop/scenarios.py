"""Stories that the harness runs with members of a client: one for each capability, the same for every client."""

import itertools
import json
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple, Protocol

from interop.judge import Judge
from interop.processes import Crowd, Failed, Member, Program, crowd
from interop.server import Musterd, Server

PARTITIONS = 6
SESSION_MS = 6000  # the least a server allows by default
STATIC_SESSION_MS = 20000  # a killed program must be back before this
SETTLE_S = 40.0
COMMITS, SMALL_SEGMENT = 1_500, 65_536  # enough for some segments that are closed, and so have indexes
_CAPABILITY_S = 150.0
EAGER, COOPERATIVE = "range", "cooperative-sticky"


class Scenario(NamedTuple):
    """A topic and a group of a story's own."""

    program: Program
    companion: Program
    server: Server
    judge: Judge
    topic: str
    group: str
    logs: Path


def play(scenario: Scenario, capability: str) -> str:
    """Plays one story; what was seen. Raises Failed where it went otherwise."""
    with crowd(scenario.logs) as members:
        return _STORIES[capability](scenario, Actors(scenario, members))


class Actors:
    """Starts members of a scenario, and checks that they share its partitions."""

    def __init__(
        self, scenario: Scenario, members: Crowd, partitions: int = PARTITIONS, *, settle_s: float = SETTLE_S
    ) -> None:
        self.crowd = members
        self.settle_s = settle_s
        self._partitions = range(partitions)
        self.scenario = scenario
        self._fed = itertools.count()

    def member(
        self, *extra: str, assignor: str = EAGER, session_ms: int = SESSION_MS, program: Program | None = None
    ) -> Member:
        scenario = self.scenario
        arguments = ["--bootstrap", scenario.judge.bootstrap, "--topic", scenario.topic, "--group", scenario.group]
        arguments += ["--assignor", assignor, "--session-timeout-ms", str(session_ms), *extra]
        return self.crowd.start(program or scenario.program, arguments)

    def settle(self, what: str, *members: Member) -> None:
        """Returns once every partition has one owner among these members, as many each."""
        share = len(self._partitions) // len(members)

        def shared() -> bool:
            owned = [partition for member in members for partition in member.owned]
            return sorted(owned) == list(self._partitions) and all(len(m.owned) == share for m in members)

        self.crowd.wait(shared, what, self.settle_s)

    def feed(self, *members: Member) -> None:
        """A record for every partition; each must reach the partition's owner."""
        records = {partition: f"fed-{next(self._fed)}" for partition in self._partitions}
        self.scenario.judge.produce(self.scenario.topic, list(records.items()))

        def arrived() -> bool:
            return all(
                any(record.partition == partition and record.value == value for record in member.records)
                for member in members
                for partition, value in records.items()
                if partition in member.owned
            )

        self.crowd.wait(arrived, "a record for every partition reaches its owner", self.settle_s)


def _rebalance_eager(scenario: Scenario, actors: Actors) -> str:
    _grow(scenario, actors, EAGER)
    return "1, 2, 3 members, one left, one was killed: every partition had one owner each time"


def _rebalance_cooperative(scenario: Scenario, actors: Actors) -> str:
    kept = _grow(scenario, actors, COOPERATIVE)
    return f"1, 2, 3 members, one left, one was killed; {kept} times a partition stayed, and was never taken meanwhile"


def _grow(scenario: Scenario, actors: Actors, assignor: str) -> int:
    scenario.judge.create(scenario.topic, PARTITIONS)
    return grow_and_shrink(actors, assignor, [partial(actors.member, assignor=assignor)] * 3)


def grow_and_shrink(actors: Actors, assignor: str, joins: Sequence[Callable[[], Member]]) -> int:
    """Start members one after the other, stop the last and kill the one before. Return the number of partitions kept;
    with the cooperative assignor none of these may have been revoked.
    """
    watch = Keeping(assignor)
    members: list[Member] = []
    for count, join in enumerate(joins, 1):
        members.append(join())
        actors.settle(f"{count} members", *members)
        watch.check(members)
    actors.feed(*members)
    members.pop().stop()
    actors.settle("one has left", *members)
    watch.check(members)
    actors.feed(*members)
    members.pop().kill()
    actors.settle("one was killed", *members)
    watch.check(members)
    actors.feed(*members)
    return watch.kept


class ObservedMember(Protocol):
    """The part of a member that `Keeping` uses."""

    name: str
    history: list[frozenset[int]]

    @property
    def owned(self) -> frozenset[int]: ...


class Keeping:
    """Checks what each member keeps from one step to the next.

    Raises Failed where a cooperative member was without what it kept, for however short a time (KIP-429).
    """

    def __init__(self, assignor: str) -> None:
        self.kept = 0
        self._strict = assignor == COOPERATIVE
        self._seen: dict[str, tuple[int, frozenset[int]]] = {}

    def check(self, members: Sequence[ObservedMember]) -> None:
        for member in members:
            since, before = self._seen.get(member.name, (0, frozenset()))
            kept = before & member.owned
            self.kept += len(kept)
            for owned in member.history[since:] if self._strict else ():
                if not kept <= owned:
                    raise Failed(f"{member.name} kept {sorted(kept)} but was without {sorted(kept - owned)} meanwhile")
            self._seen[member.name] = (len(member.history), member.owned)


def _static_member(scenario: Scenario, actors: Actors) -> str:
    scenario.judge.create(scenario.topic, PARTITIONS)
    first = actors.member("--instance", "a", session_ms=STATIC_SESSION_MS)
    second = actors.member("--instance", "b", session_ms=STATIC_SESSION_MS)
    actors.settle("two static members", first, second)
    actors.feed(first, second)
    owned, noticed = first.owned, len(second.history)
    first.kill()
    again = actors.member("--instance", "a", session_ms=STATIC_SESSION_MS)
    actors.settle("the killed one is back", again, second)
    if again.owned != owned:
        raise Failed(f"it owned {sorted(owned)} and came back to {sorted(again.owned)}")
    actors.feed(again, second)
    if len(second.history) != noticed:
        raise Failed(f"the other member was given {len(second.history) - noticed} assignments meanwhile")
    return f"killed and back with partitions {sorted(owned)}; the other member noticed nothing"


def commit_resume(scenario: Scenario, actors: Actors) -> str:
    """Play the story; what was seen."""
    scenario.judge.create(scenario.topic, PARTITIONS)
    count, half = 360, 150
    scenario.judge.produce(scenario.topic, [(i % PARTITIONS, str(i)) for i in range(count)])
    seen: list[str] = []
    for limit in (half, count - half):
        member = actors.member("--limit", str(limit))
        member.join(actors.settle_s)
        if not member.committed:
            raise Failed(f"{member.name} ended without a commit")
        if len(member.records) != limit:
            raise Failed(f"{member.name} handed out {len(member.records)} records, not {limit}; {actors.crowd.state()}")
        seen += [record.value for record in member.records]
        committed = scenario.judge.committed_total(scenario.group, scenario.topic, PARTITIONS)
        if committed != len(seen):
            raise Failed(f"{len(seen)} records were handed out, but the commits add up to {committed}")
    _all_once(seen, count)
    return f"{half} of {count} records, a commit, a restart, then exactly the other {count - half}"


def _produce_consume(scenario: Scenario, actors: Actors) -> str:
    scenario.judge.create(scenario.topic, PARTITIONS)
    each = 120
    for compression in scenario.program.client.compressions:
        _produce(scenario, each, "--compression", compression)
    total = each * len(scenario.program.client.compressions)
    member = actors.member("--limit", str(total))
    member.join(SETTLE_S)
    for value in range(each):
        partitions = [record.partition for record in member.records if record.value == str(value)]
        if partitions != [value % PARTITIONS] * len(scenario.program.client.compressions):
            raise Failed(f"record {value} came from partitions {partitions}")
    _in_order(member)
    return f"{total} records ({', '.join(scenario.program.client.compressions)})"


def _idempotent(scenario: Scenario, actors: Actors) -> str:
    scenario.judge.create(scenario.topic, PARTITIONS)
    count = 3000
    _produce(scenario, count, "--compression", "none", "--idempotent")
    written = scenario.judge.everything(scenario.topic, PARTITIONS)
    _all_once([value for _, value in written], count)
    if scenario.judge.producers(written, PARTITIONS) != [count // PARTITIONS] * PARTITIONS:
        raise Failed("the records are not evenly spread")
    return f"{count} records, each once"


def _mixed(scenario: Scenario, actors: Actors) -> str:
    scenario.judge.create(scenario.topic, PARTITIONS)
    other = actors.member(program=scenario.companion)
    actors.settle("confluent-kafka alone", other)
    own = actors.member()
    actors.settle("led by confluent-kafka", other, own)
    actors.feed(other, own)
    other.stop()
    actors.settle("alone", own)
    again = actors.member(program=scenario.companion)
    actors.settle("led by the client", own, again)
    actors.feed(own, again)
    again.kill()
    actors.settle("confluent-kafka was killed", own)
    return "one group with confluent-kafka, led by either"


def _server_crash(scenario: Scenario, actors: Actors) -> str:
    scenario.judge.create(scenario.topic, PARTITIONS)
    members = [actors.member(session_ms=STATIC_SESSION_MS) for _ in range(2)]
    actors.settle("two members", *members)
    actors.feed(*members)
    assigned = sum(len(member.history) for member in members)
    for _ in range(2):
        scenario.server.crash()
        actors.feed(*members)
        actors.settle("after the crash", *members)
    more = sum(len(member.history) for member in members) - assigned
    return f"two kill -9 of the server: both members read on, with {more} new assignments"


def _offsets_log(scenario: Scenario, actors: Actors) -> str:
    """A musterd of its own, whose segments are small, is stopped in good order; the program looks at what it left."""
    server = Musterd(scenario.logs / "server", f"offsets.topic.segment.bytes={SMALL_SEGMENT}")
    try:
        judge = Judge(server.bootstrap)
        judge.create(scenario.topic, PARTITIONS)
        judge.commit(scenario.group, scenario.topic, range(1, COMMITS + 1))
        server.stop()
    finally:
        server.end()
    arguments = ["offsets_log", "--bootstrap", server.bootstrap, "--topic", scenario.topic, "--group", scenario.group]
    return run_to_end(scenario, [*arguments, "--folder", str(server.data)])


def run_to_end(scenario: Scenario, arguments: Sequence[str]) -> str:
    """Runs the program to its end, and believes its last line."""
    last = scenario.program.answer(arguments, scenario.logs / "stderr.log", _CAPABILITY_S)
    try:
        said = json.loads(last)
        ok, detail = bool(said["ok"]), str(said["detail"])
    except (ValueError, KeyError, TypeError):
        raise Failed(f"its last line is not what the README asks for: {last!r}") from None
    if not ok:
        raise Failed(detail)
    return detail


def _produce(scenario: Scenario, count: int, *extra: str) -> None:
    arguments = ["produce", "--bootstrap", scenario.judge.bootstrap, "--topic", scenario.topic]
    arguments += ["--count", str(count), "--partitions", str(PARTITIONS), *extra]
    scenario.program.answer(arguments, scenario.logs / "produce.log", SETTLE_S)


def _all_once(values: Sequence[str], count: int) -> None:
    missing = {str(i) for i in range(count)} - set(values)
    if missing or len(values) != count:
        raise Failed(f"{len(values)} records of {count}, {len(missing)} missing, e.g. {sorted(missing)[:5]}")


def _in_order(member: Member) -> None:
    for partition in range(PARTITIONS):
        offsets = [record.offset for record in member.records if record.partition == partition]
        if offsets != list(range(len(offsets))):
            raise Failed(f"{member.name} was handed offsets {offsets[:10]}... of partition {partition}")


_STORIES: dict[str, Callable[[Scenario, Actors], str]] = {
    "produce_consume": _produce_consume,
    "rebalance_eager": _rebalance_eager,
    "rebalance_cooperative": _rebalance_cooperative,
    "static_member": _static_member,
    "commit_resume": commit_resume,
    "idempotent": _idempotent,
    "mixed": _mixed,
    "server_crash": _server_crash,
    "offsets_log": _offsets_log,
}
