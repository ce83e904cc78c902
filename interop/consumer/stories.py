"""Stories of members that leave the assignment to the server (KIP-848), the same for every client."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial

from interop.compare import pair
from interop.consumer.rolling import CLASSIC, CONSUMER, Rolling
from interop.processes import Failed, Member, Program, crowd
from interop.scenarios import COOPERATIVE, PARTITIONS, Actors, Scenario, commit_resume, grow_and_shrink, run_to_end
from protocol.errors import ErrorCode
from protocol.messages.configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigs,
    IncrementalAlterConfigsReply,
    ResourceType,
)

SESSION_MS = 6_000
"""Session timeout of groups in which a member is killed; others have the servers' own, 45 s."""
SETTINGS: Mapping[str, str] = {
    "group.coordinator.rebalance.protocols": "classic,consumer",
    "group.consumer.heartbeat.interval.ms": "1000",
    "group.consumer.min.heartbeat.interval.ms": "1000",
    "group.consumer.min.session.timeout.ms": str(SESSION_MS),
}
"""Settings of both servers."""
_SETTLE_S = 180.0


class BalancedActors(Actors):
    """Starts members whose `--protocol` is `consumer`."""

    def member(
        self, *extra: str, assignor: str = "", session_ms: int = SESSION_MS, program: Program | None = None
    ) -> Member:
        """`session_ms` is not told to the program: the server decides."""
        scenario = self.scenario
        arguments = ["--bootstrap", scenario.judge.bootstrap, "--topic", scenario.topic, "--group", scenario.group]
        arguments += ["--protocol", "consumer", *(("--assignor", assignor) if assignor else ()), *extra]
        return self.crowd.start(program or scenario.program, arguments)


def play(scenario: Scenario, story: str) -> str:
    """Play one; what was seen. Raises Failed where it went otherwise."""
    with crowd(scenario.logs) as members:
        return _STORIES[story](scenario, BalancedActors(scenario, members, settle_s=_SETTLE_S))


def _subscribe(scenario: Scenario, actors: Actors) -> str:
    """Members come, one leaves, one is killed; what a member keeps is never taken from it."""
    scenario.judge.create(scenario.topic, PARTITIONS)
    shorten_sessions(scenario)
    kept = _grow(actors, [scenario.program] * 3)
    return f"1, 2, 3 members, one left, one was killed; {kept} times a partition stayed, and was never taken meanwhile"


def _mixed(scenario: Scenario, actors: Actors) -> str:
    scenario.judge.create(scenario.topic, PARTITIONS)
    shorten_sessions(scenario)
    _grow(actors, [scenario.companion, scenario.program, scenario.companion])
    return f"one group with {scenario.companion.client.name}: 1, 2, 3 members, one left, one was killed"


def _grow(actors: Actors, programs: Sequence[Program]) -> int:
    return grow_and_shrink(actors, COOPERATIVE, [partial(actors.member, program=program) for program in programs])


def _upgrade(scenario: Scenario, actors: Actors) -> str:
    return _rolling(scenario, actors, [scenario.program] * 3, kills=False)


def _upgrade_killed(scenario: Scenario, actors: Actors) -> str:
    """The first, which leads the classic group, and the last are another client's."""
    shorten_sessions(scenario)
    seen = _rolling(scenario, actors, [scenario.companion, scenario.program, scenario.companion], kills=True)
    return f"with {scenario.companion.client.name}: {seen}"


def _rolling(scenario: Scenario, actors: Actors, programs: Sequence[Program], *, kills: bool) -> str:
    classic = Actors(scenario, actors.crowd, settle_s=actors.settle_s)
    joins = {
        CLASSIC: lambda program: classic.member("--commit", assignor=COOPERATIVE, program=program),
        CONSUMER: lambda program: actors.member("--commit", program=program),
    }
    return Rolling(scenario, actors, joins, programs, kills=kills).play()


def _range(scenario: Scenario, actors: Actors) -> str:
    """Both ask for the assignor `range`, so shares are consecutive."""
    scenario.judge.create(scenario.topic, PARTITIONS)
    members = [actors.member(assignor="range") for _ in range(2)]
    actors.settle("two members", *members)
    shares = sorted(sorted(member.owned) for member in members)
    half = PARTITIONS // 2
    if shares != [list(range(half)), list(range(half, PARTITIONS))]:
        raise Failed(f"the shares are {shares}")
    actors.feed(*members)
    return f"two members with {shares[0]} and {shares[1]}"


def _pattern(scenario: Scenario, actors: Actors) -> str:
    """Two members subscribe by a regular expression before any topic matches it."""
    members = [actors.member("--pattern", f"{scenario.topic}.*") for _ in range(2)]
    scenario.judge.create(scenario.topic, PARTITIONS)
    actors.settle("the topic was made", *members)
    actors.feed(*members)
    return "two members by a pattern, the topic made later"


def _static(scenario: Scenario, actors: Actors) -> str:
    """A static member is stopped in good order, and started again before its session is over."""
    scenario.judge.create(scenario.topic, PARTITIONS)
    first, second = actors.member("--instance", "a"), actors.member("--instance", "b")
    actors.settle("two static members", first, second)
    actors.feed(first, second)
    owned, noticed = first.owned, len(second.history)
    first.stop()
    again = actors.member("--instance", "a")
    actors.settle("the stopped one is back", again, second)
    if again.owned != owned:
        raise Failed(f"it owned {sorted(owned)} and came back to {sorted(again.owned)}")
    actors.feed(again, second)
    if len(second.history) != noticed:
        raise Failed(f"the other member was given {len(second.history) - noticed} assignments meanwhile")
    return f"stopped and back with {len(owned)} partitions; the other member noticed nothing"


def _admin(scenario: Scenario, _actors: Actors) -> str:
    """The program's own capability."""
    asked = ["--bootstrap", scenario.judge.bootstrap, "--topic", scenario.topic, "--group", scenario.group]
    return run_to_end(scenario, ["admin_consumer_groups", *asked])


def shorten_sessions(scenario: Scenario) -> None:
    """Give the group a session timeout of its own. Raises Failed."""
    config = AlterableConfig("consumer.session.timeout.ms", 0, str(SESSION_MS))
    resource = AlterConfigsResource(ResourceType.GROUP, scenario.group, (config,))
    server = pair.Server(scenario.judge.bootstrap)
    try:
        reply = server.ask(IncrementalAlterConfigs((resource,)), 1)
    finally:
        server.close()
    if not isinstance(reply, IncrementalAlterConfigsReply) or reply.responses[0].error_code is not ErrorCode.NONE:
        raise Failed(f"the session timeout of {scenario.group} could not be set: {reply}")


_STORIES: Mapping[str, Callable[[Scenario, Actors], str]] = {
    "subscribe": _subscribe,
    "range": _range,
    "pattern": _pattern,
    "static": _static,
    "resume": commit_resume,
    "mixed": _mixed,
    "upgrade": _upgrade,
    "upgrade-killed": _upgrade_killed,
    "admin": _admin,
}
STORIES = tuple(_STORIES)
WITH_COMPANION = frozenset({"mixed", "upgrade-killed"})
"""Stories with members of another client."""
