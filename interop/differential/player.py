"""One history, put to both servers in step.

Time goes in ticks. What a history asks in a tick is asked at its beginning, within `WINDOW` of it; timeouts are
chosen (`steps.SESSION_PART`) so that whatever they end, directly or one after another, ends in the rest of the tick.
So no request meets a timeout by chance: a run that could not keep to its windows is `late`, and says nothing.

After each request the player waits until both servers have answered the same requests, with a barrier and a moment of
grace while some stay parked. A request that one of them answers and the other does not is a difference.
"""

import asyncio
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from interop.differential.allowed import Case, Rule, first_that_holds
from interop.differential.answers import Unlike, brief, normal, unlike
from interop.differential.connections import Connections
from interop.differential.members import SAYS_WHERE_IT_STANDS, Member, Names
from interop.differential.steps import (
    GROUPS,
    TICK_MS,
    Ask,
    Generation,
    GoOn,
    History,
    Join,
    Phase,
    Restart,
    Step,
    Sync,
    Wait,
    Who,
)
from protocol.messages import Message
from protocol.messages.groups import Heartbeat, JoinGroup, JoinGroupReply

TICK_S = TICK_MS / 1_000
WINDOW = 0.15
"""Of a tick."""
PATIENCE_S, GRACE_S = 0.25, 0.008


class Server(NamedTuple):
    """One of the two: its address, and the ids it gave to the topics."""

    host: str
    port: int
    topic_ids: Mapping[str, bytes]


class Exchange:
    """One request, as each server was asked it, and what each said; `step` is its number in the history."""

    def __init__(self, step: int, ask: Ask, requests: tuple[Message, Message]) -> None:
        self.step = step
        self.ask = ask
        self.requests = requests
        self.answers: list[Message | str | None] = [None, None]
        self.is_over = False
        self.is_superseded = False  # a later request of its kind came from the same member

    @property
    def is_answered(self) -> bool:
        return None not in self.answers

    @property
    def is_in_step(self) -> bool:
        return (self.answers[0] is None) == (self.answers[1] is None)


class Seen(NamedTuple):
    """A difference: the step it showed at, the API and its version, and the rule that allows it, if one does."""

    step: int
    api: str
    version: int
    unlike: Unlike
    rule: Rule | None

    @property
    def kind(self) -> str:
        """The same for differences that have one cause, most likely."""
        if self.rule is not None:
            return self.rule.name
        return f"{self.api}, {re.sub(r'[0-9]+', 'N', self.unlike.text())}"


class Outcome(NamedTuple):
    """What came of one run: its requests by API, differences, and a line an answer. `ended` is the step after which
    there was nothing to compare any more, or None."""

    asked: Mapping[str, int]
    seen: tuple[Seen, ...]
    lines: tuple[str, ...] = ()
    ended: int | None = None
    is_late: bool = False

    @property
    def unexplained(self) -> Seen | None:
        return next((one for one in self.seen if one.rule is None), None)


class Side:
    """All that one server was told and said in this run."""

    def __init__(self, server: Server, history: History, unique: str) -> None:
        self.names = Names(server.topic_ids)
        self.connections = Connections((server.host, server.port))
        group_ids = tuple(f"{unique}g{number}" for number in range(GROUPS))
        self.members = [
            [Member(profile, self.names, client, group, group_ids) for group in range(GROUPS)]
            for client, profile in enumerate(history.profiles)
        ]
        for client, members in enumerate(self.members):
            for group, member in enumerate(members):
                member.neighbour = self.members[(client + 1) % len(self.members)][group]
        self.leaders: list[str | None] = [None] * GROUPS
        self.latest: dict[tuple[int, int], Exchange] = {}

    def member(self, step: Step) -> Member:
        return self.members[step.client][step.group]


class Late(Exception):
    """The run did not keep to its windows."""


class Player:
    """One run of one history."""

    def __init__(self, history: History, servers: tuple[Server, Server], unique: str) -> None:
        self._history = history
        self._unique = unique
        self._sides = (Side(servers[0], history, unique), Side(servers[1], history, unique))
        self._open: list[Exchange] = []
        self._changed = asyncio.Event()
        self._tick_began = 0.0
        self._asked: Counter[str] = Counter()
        self._seen: list[Seen] = []
        self._lines: list[str] = []

    async def play(self) -> Outcome:
        """To the end, or until a difference leaves nothing to compare."""
        ended = None
        is_late = False
        try:
            for side in self._sides:
                await self._barrier(side)
            self._tick_began = asyncio.get_running_loop().time()
            for number, step in enumerate(self._history.steps):
                if not await self._do(number, step):
                    ended = number
                    break
        except Late:
            is_late = True
        finally:
            for side in self._sides:
                side.connections.close()
        return Outcome(self._asked, tuple(self._seen), tuple(self._lines), ended, is_late)

    async def _do(self, number: int, step: Step) -> bool:
        """False once what follows cannot be compared."""
        if isinstance(step, Wait):
            await self._until_next_tick()
        elif isinstance(step, Restart):
            for side in self._sides:
                side.member(step).forget()
            return True
        else:
            for one in self._expanded(step):
                await self._ask(number, one)
        await self._settle()
        took = asyncio.get_running_loop().time() - self._tick_began
        if took > WINDOW * TICK_S:
            raise Late
        return self._compare(number)

    async def _until_next_tick(self) -> None:
        loop = asyncio.get_running_loop()
        self._tick_began += TICK_S
        await asyncio.sleep(self._tick_began - loop.time())

    # --- asking ---

    def _leaders_differ(self, group: int) -> bool:
        return self._sides[0].leaders[group] != self._sides[1].leaders[group]

    def _expanded(self, step: Step) -> list[Step]:
        """While the servers have chosen different leaders all members that owe a SyncGroup send it together: one alone
        would be the leader's at one server and a follower's at the other."""
        if not self._leaders_differ(step.group) or not self._syncs(step):
            return [step]
        owing = [
            client
            for client in range(len(self._history.profiles))
            if any(side.members[client][step.group].phase is Phase.JOINED for side in self._sides)
        ]
        return [msgspec.structs.replace(step, client=client) for client in owing]

    def _syncs(self, step: Step) -> bool:
        if not any(side.member(step).phase is Phase.JOINED for side in self._sides):
            return False
        is_plain = isinstance(step, Sync) and (step.who, step.generation, step.wrong) == (Who.OWN, Generation.OWN, "")
        return is_plain or isinstance(step, GoOn)

    async def _ask(self, number: int, step: Step) -> None:
        asks = [step.ask(side.member(step)) if isinstance(step, GoOn) else step for side in self._sides]
        ask = asks[0]
        if ask != asks[1]:
            self._note(number, Unlike("the next request", *[type(one).__name__ for one in asks]), None, None)
            return
        if not isinstance(ask, Ask):
            return
        if isinstance(ask, Join) and (ask.changed or self._leads_at_one_server(ask)):
            for side in self._sides:
                side.member(ask).revision += 1
        requests = [ask.request(side.member(ask)) for side in self._sides]
        if requests[0] is None or requests[1] is None:
            return
        exchange = Exchange(number, ask, (requests[0], requests[1]))
        self._open.append(exchange)
        for index, side in enumerate(self._sides):
            await self._send(exchange, index, side)

    def _leads_at_one_server(self, ask: Ask) -> bool:
        """A leader that joins again begins a rebalance, a follower only with other metadata."""
        ids = {self._sides[0].names.of(self._sides[0].member(ask).member_id)}
        return self._leaders_differ(ask.group) and bool(ids & {side.leaders[ask.group] for side in self._sides})

    async def _send(self, exchange: Exchange, index: int, side: Side) -> None:
        ask, message = exchange.ask, exchange.requests[index]
        if is_own(ask):
            older = side.latest.get((ask.client, ask.group))
            if older is not None and type(older.requests[index]) is type(message):
                older.is_superseded = True
            side.latest[ask.client, ask.group] = exchange
            side.member(ask).asks(message)

        def heard(answer: Message | str) -> None:
            exchange.answers[index] = answer
            self._changed.set()

        await side.connections.ask(f"c{ask.client + 1}", message, ask.version, heard)

    # --- hearing ---

    async def _settle(self) -> None:
        """Until both have answered the same requests, or patience ends."""
        loop = asyncio.get_running_loop()
        ends = loop.time() + PATIENCE_S
        await self._until_in_step(ends, is_whole=True, at_most_s=GRACE_S / 2)
        if all(exchange.is_answered for exchange in self._open):
            return
        await asyncio.gather(*[self._barrier(side) for side in self._sides])
        await asyncio.sleep(GRACE_S)
        await self._until_in_step(ends, is_whole=False, at_most_s=PATIENCE_S)

    async def _until_in_step(self, ends: float, *, is_whole: bool, at_most_s: float) -> None:
        """`is_whole`: until all are answered."""
        loop = asyncio.get_running_loop()
        ends = min(ends, loop.time() + at_most_s)
        while not all(one.is_answered or (one.is_in_step and not is_whole) for one in self._open):
            self._changed.clear()
            left = ends - loop.time()
            if left <= 0:
                return
            try:
                await asyncio.wait_for(self._changed.wait(), left)
            except TimeoutError:
                return

    async def _barrier(self, side: Side) -> None:
        """An answer about the same group: what was asked before has been looked at."""
        beat = Heartbeat(side.members[0][0].group_id, 1, "barrier")
        await side.connections.call("barrier", beat, 4)

    def _compare(self, number: int) -> bool:
        """What has come since; False if the states are apart now."""
        fresh = [exchange for exchange in self._open if any(one is not None for one in exchange.answers)]
        self._open = [exchange for exchange in self._open if exchange not in fresh]
        before = [list(side.leaders) for side in self._sides]
        for exchange in fresh:
            for index, side in enumerate(self._sides):
                self._learn_ids(exchange, index, side)
        for exchange in fresh:
            for index, side in enumerate(self._sides):
                self._learn(exchange, index, side)
        leaders = [list(side.leaders) for side in self._sides]
        for exchange in fresh:
            self._compare_one(number, exchange, before, leaders)
        return not any(one.rule is None or one.rule.ends for one in self._seen)

    @staticmethod
    def _learn_ids(exchange: Exchange, index: int, side: Side) -> None:
        answer = exchange.answers[index]
        if isinstance(answer, JoinGroupReply) and is_own(exchange.ask):
            side.member(exchange.ask).name(answer.member_id)

    @staticmethod
    def _learn(exchange: Exchange, index: int, side: Side) -> None:
        answer, ask = exchange.answers[index], exchange.ask
        if not isinstance(answer, msgspec.Struct) or not is_own(ask):
            return
        if side.latest.get((ask.client, ask.group)) is exchange:
            side.member(ask).hears(answer)
        if isinstance(answer, JoinGroupReply) and answer.generation_id >= 0:
            side.leaders[ask.group] = side.names.of(answer.leader)

    def _compare_one(
        self, number: int, exchange: Exchange, before: Sequence[list[str | None]], leaders: Sequence[list[str | None]]
    ) -> None:
        self._asked[type(exchange.ask).api.__name__] += 1
        kafka, muster = (
            normal(answer, side.names, self._unique) for answer, side in zip(exchange.answers, self._sides, strict=True)
        )
        group = exchange.ask.group
        said = brief(kafka) if brief(kafka) == brief(muster) else f"Kafka {brief(kafka)}, Muster {brief(muster)}"
        later = "" if exchange.step == number else f" (asked at {exchange.step})"
        self._lines.append(f"{number}: c{exchange.ask.client + 1} {type(exchange.ask).api.__name__}{later}: {said}")
        for difference in unlike(kafka, muster):
            case = Case(
                exchange.ask,
                difference,
                kafka,
                muster,
                is_superseded=exchange.is_superseded,
                leaders_before=(before[0][group], before[1][group]),
                leaders=(leaders[0][group], leaders[1][group]),
            )
            self._note(number, difference, exchange, first_that_holds(case))

    def _note(self, number: int, difference: Unlike, exchange: Exchange | None, rule: Rule | None) -> None:
        api, version = ("a client", 0) if exchange is None else (type(exchange.ask).api.__name__, exchange.ask.version)
        self._seen.append(Seen(number, api, version, difference, rule))


def is_own(ask: Ask) -> bool:
    """Whether the client asked as itself, so that the answer says where it stands."""
    if type(ask).api not in SAYS_WHERE_IT_STANDS:
        return False
    who: Any = getattr(ask, "who", Who.OWN)
    generation: Any = getattr(ask, "generation", Generation.OWN)
    is_plain = generation is Generation.OWN and not getattr(ask, "wrong", "")
    return is_plain and (who is Who.OWN or (who is Who.NONE and type(ask).api is JoinGroup))


async def play(history: History, servers: tuple[Server, Server], unique: str) -> Outcome:
    """Put it to both, in groups whose ids begin with `unique`."""
    return await Player(history, servers, unique).play()
