"""One history, put to both servers in step.

Time goes in ticks. What a history asks in a tick is asked at its beginning, within `WINDOW` of it; timeouts are
chosen (`steps.SESSION_PART`) so that whatever they end, directly or one after another, ends in the rest of the tick.
So no request meets a timeout by chance: a run that could not keep to its windows is `late`, and says nothing.

After each request the player waits until both servers have answered the same requests, with a barrier and a moment of
grace while some stay parked. A request that one of them answers and the other does not is a difference.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from typing import NamedTuple

from interop.differential.allowed import RULES, Rule
from interop.differential.answers import Unlike
from interop.differential.comparing import Comparison, Seen
from interop.differential.connections import Connections
from interop.differential.consumer.steps import Configure, DescribeMembers, Follow, MemberBeat, ShowSettings
from interop.differential.exchanges import Exchange, Server, Side, is_own
from interop.differential.steps import Ask, GoOn, History, Join, Restart, Step, Sync, Wait
from interop.differential.views import GROUPS, TICK_MS, Generation, Phase, Who
from protocol.messages import Message
from protocol.messages.configs import DescribeConfigsReply
from protocol.messages.consumer_groups import ConsumerGroupDescribeReply
from protocol.messages.groups import Heartbeat, JoinGroup, LeaveGroup, SyncGroup

TICK_S = TICK_MS / 1_000
WINDOW = 0.15
"""The fraction of a tick in which requests are made."""
PATIENCE_S, GRACE_S = 0.25, 0.008
SILENCE_S = 3.0
"""After this a server is not slow: it does not answer."""
SPREADING_S, RESOLVING_S = 0.1, 0.03
"""Time that a setting takes to hold in all of a broker that shows it, and a pattern to be looked up, mostly."""
_INTERVAL = "heartbeat_interval_ms"


class Outcome(NamedTuple):
    """The outcome of one run: its requests by API, differences, and a line an answer. `ended` is the step after which
    there was nothing to compare any more, or None."""

    asked: Mapping[str, int]
    seen: tuple[Seen, ...]
    lines: tuple[str, ...] = ()
    ended: int | None = None
    is_late: bool = False

    @property
    def unexplained(self) -> Seen | None:
        return next((one for one in self.seen if one.rule is None), None)


class Late(Exception):
    """The run did not keep to its windows."""


class Player:
    """One run of one history."""

    def __init__(
        self, history: History, sides: tuple[Side, Side], unique: str, rules: tuple[Rule, ...] = RULES
    ) -> None:
        self._history = history
        self._sides = sides
        self._open: list[Exchange] = []
        self._changed = asyncio.Event()
        self._tick_began = 0.0
        self._configures = False
        self._has_patterns = any(profile.regex is not None for profile in history.profiles)
        self._instances: list[set[str]] = [set() for _ in range(GROUPS)]
        self._comparison = Comparison(history.profiles, self._sides, unique, rules)

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
        found = self._comparison
        return Outcome(found.asked, tuple(found.seen), tuple(found.lines), ended, is_late)

    async def _do(self, number: int, step: Step) -> bool:
        """False once what follows cannot be compared."""
        if isinstance(step, Wait):
            await self._until_next_tick()
        elif isinstance(step, Restart):
            for side in self._sides:
                side.member(step).restart()
            return True
        else:
            asked = [self._made(number, one) for one in self._expanded(step)]
            for index in range(len(self._sides)):
                await self._send_all([one for one in asked if one is not None], index)
        await self._settle()
        took = asyncio.get_running_loop().time() - self._tick_began
        if took > WINDOW * TICK_S and not self._has_silence:
            raise Late
        self._configures = any(isinstance(one.ask, Configure) for one in self._open) or (
            self._configures and not isinstance(step, Wait)
        )
        may_go_on = self._comparison.compare(number, self._open)
        if self._configures and any(one.unlike.path == _INTERVAL for one in self._comparison.seen):
            raise Late  # a broker shows a setting before its groups have it
        self._open = [one for one in self._open if one.answers == [None, None]]
        return may_go_on

    @property
    def _has_silence(self) -> bool:
        """Return whether a request is unanswered that no server ever parks."""
        return any(one.answers.count(None) == 1 and not isinstance(one.ask, Join | Sync) for one in self._open)

    async def _until_next_tick(self) -> None:
        loop = asyncio.get_running_loop()
        self._tick_began += TICK_S
        await asyncio.sleep(self._tick_began - loop.time())

    # --- asking ---

    def _leaders_differ(self, group: int) -> bool:
        kafka, muster = self._comparison.leaders(group)
        return kafka != muster

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
        return [replace(step, client=client) for client in owing]

    def _syncs(self, step: Step) -> bool:
        if not any(side.member(step).phase is Phase.JOINED for side in self._sides):
            return False
        is_plain = isinstance(step, Sync) and (step.who, step.generation, step.wrong) == (Who.OWN, Generation.OWN, "")
        return is_plain or isinstance(step, GoOn)

    def _made(self, number: int, step: Step) -> Exchange | None:
        """Return the request to both servers; None if there is none."""
        asks = [step.ask(side.member(step)) if isinstance(step, GoOn | Follow) else step for side in self._sides]
        ask = asks[0]
        if ask != asks[1]:
            difference = Unlike("the next request", *[type(one).__name__ for one in asks])
            self._comparison.seen.append(Seen(number, "client", 0, difference, None))
            return None
        if not isinstance(ask, Ask):
            return None
        if isinstance(ask, Join) and (ask.changed or self._leads_at_one_server(ask)):
            for side in self._sides:
                side.member(ask).revision += 1
        requests = [ask.request(side.member(ask)) for side in self._sides]
        if requests[0] is None or requests[1] is None:
            return None
        exchange = Exchange(number, ask, (requests[0], requests[1]))
        self._open.append(exchange)
        if exchange.instance is not None:
            exchange.is_return = exchange.instance in self._instances[ask.group]
            self._instances[ask.group].add(exchange.instance)
        return exchange

    async def _send_all(self, exchanges: list[Exchange], index: int) -> None:
        """Put the leader's SyncGroup last: its assignments are for all that have asked."""
        side = self._sides[index]
        leading = [one for one in exchanges if side.member(one.ask).leads]
        for exchange in exchanges:
            if exchange not in leading:
                await self._send(exchange, index, side)
        if leading and len(exchanges) > 1:
            await self._barrier(side)
        for exchange in leading:
            await self._send(exchange, index, side)

    def _leads_at_one_server(self, ask: Ask) -> bool:
        """A leader that joins again begins a rebalance, a follower only with other metadata."""
        ids = {self._sides[0].names.of(self._sides[0].member(ask).member_id)}
        return self._leaders_differ(ask.group) and bool(ids & {side.leaders[ask.group] for side in self._sides})

    async def _send(self, exchange: Exchange, index: int, side: Side) -> None:
        ask, message = exchange.ask, exchange.requests[index]
        for older in self._open:
            older.is_superseded |= older is not exchange and _is_same_member(older.requests[index], message)
        leaving = [one.member_id for one in message.members] if isinstance(message, LeaveGroup) else []
        exchange.names_pending |= not side.pending.isdisjoint(leaving)
        if isinstance(message, JoinGroup):
            side.pending.discard(message.member_id)
        if is_own(ask):
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
            await self._settle_behind(ends)
            return
        await asyncio.gather(*[self._barrier(side) for side in self._sides])
        await asyncio.sleep(GRACE_S)
        await self._until_in_step(ends, is_whole=False, at_most_s=PATIENCE_S)
        if self._has_silence:
            await self._until_in_step(loop.time() + SILENCE_S, is_whole=True, at_most_s=SILENCE_S)

    async def _settle_behind(self, ends: float) -> None:
        """Give both the time for what they do once they have answered: settings spread, patterns are resolved. A broker
        shows a setting before its groups have it: it gets as long again. Raise Late if it does not show it in time."""
        asks = [exchange.ask for exchange in self._open]
        if configured := {ask.group for ask in asks if isinstance(ask, Configure)}:
            loop = asyncio.get_running_loop()
            began = loop.time()
            if not await self._until_alike(self._settings, configured, ends):
                raise Late
            await asyncio.sleep(max(SPREADING_S, loop.time() - began))
        if not self._has_patterns or not any(isinstance(ask, MemberBeat | Join) for ask in asks):
            return
        await asyncio.sleep(RESOLVING_S)
        await self._until_alike(self._epoch, {ask.group for ask in asks}, ends)

    @staticmethod
    async def _settings(side: Side, group: int) -> object:
        asked = ShowSettings(version=4)
        answer = await side.connections.call("barrier", asked.request(side.members[0][group]), asked.version)
        assert isinstance(answer, DescribeConfigsReply)
        return sorted((one.name, one.value) for one in answer.results[0].configs)

    @staticmethod
    async def _epoch(side: Side, group: int) -> object:
        asked = DescribeMembers(version=0, group=group)
        answer = await side.connections.call("barrier", asked.request(side.members[0][group]), asked.version)
        assert isinstance(answer, ConsumerGroupDescribeReply)
        return answer.groups[0].group_epoch

    async def _until_alike(
        self, shown: Callable[[Side, int], Awaitable[object]], groups: set[int], ends: float
    ) -> bool:
        """Until both servers show the same of each of these groups, or time ends. Return whether they do."""
        kafka, muster = self._sides
        apart = groups
        for _ in range(round((ends - asyncio.get_running_loop().time()) / GRACE_S)):
            apart = {group for group in apart if await shown(kafka, group) != await shown(muster, group)}
            if not apart:
                return True
            await asyncio.sleep(GRACE_S)
        return False

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


def _is_same_member(older: Message, message: Message) -> bool:
    if type(older) is not type(message) or not isinstance(older, JoinGroup | SyncGroup):
        return False
    assert isinstance(message, JoinGroup | SyncGroup)
    return bool(older.member_id) and older.member_id == message.member_id and older.group_id == message.group_id


async def play(
    history: History, servers: tuple[Server, Server], unique: str, rules: tuple[Rule, ...] = RULES
) -> Outcome:
    """Put it to both, in groups whose ids begin with `unique`."""
    kafka, muster = (
        Side(Connections((server.host, server.port)), server.topic_ids, history, unique) for server in servers
    )
    return await Player(history, (kafka, muster), unique, rules).play()
