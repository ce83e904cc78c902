"""Histories from seeds: six clients that mostly do what their libraries would, and now and then something else."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from random import Random
from typing import Any

from interop.compare.pair import OLDEST
from interop.differential.steps import (
    ASKS,
    Ask,
    Beat,
    Commit,
    Delete,
    DeleteOffsets,
    Describe,
    Fetch,
    Find,
    GoOn,
    History,
    Join,
    Leave,
    List,
    Restart,
    Step,
    Sync,
    Wait,
)
from interop.differential.views import NO_TOPIC, REBALANCE_PART, SESSION_PART, TICK_MS, TOPICS, Generation, Profile, Who
from protocol.apis import BY_MESSAGE

CLIENTS = 6


def versions(ask: type[Ask]) -> range:
    """From the oldest to the newest that both servers speak."""
    api = BY_MESSAGE[ask.api]
    return range(max(OLDEST.get(api.key, 0), api.request.oldest), api.request.newest + 1)


def draw(seed: int) -> History:
    """The same for the same seed, always."""
    return _Drawing(seed).history()


def session_ms(ticks: int) -> int:
    return round((ticks + SESSION_PART) * TICK_MS)


def rebalance_ms(ticks: int) -> int:
    return round((ticks + REBALANCE_PART) * TICK_MS)


class Drawing:
    """One history on its way. Which kinds of odd steps it has at all is drawn first: so some have only one of them.

    `odd` makes a step of each kind; a subclass says what members do (`_go_on`) and how a history ends.
    """

    def __init__(self, seed: int, odd: Mapping[str, Callable[[Any], Step]], kinds: Sequence[str]) -> None:
        self._seed = seed
        self._random = Random(seed)
        self._odd_steps = odd
        self._active = self._random.sample(range(CLIENTS), self._random.choice((1, 2, 2, 3, 3, 4, 4, 5, 5, 6)))
        self._kinds = self._random.sample(kinds, self._random.randint(1, len(kinds)))
        self._oddity = self._random.choice((0.1, 0.3, 0.6))
        self._newest = self._random.random() < 0.3

    def _tick(self, profiles: tuple[Profile, ...]) -> list[Step]:
        random = self._random
        steps: list[Step] = []
        for _ in range(self._rounds()):
            clients = random.sample(self._active, len(self._active))
            steps += [self._go_on(client, profiles[client]) for client in clients if random.random() < 0.85]
        for _ in range(sum(random.random() < self._oddity for _ in range(5))):
            steps.insert(random.randint(0, len(steps)), self._odd())
        return steps

    def _rounds(self) -> int:
        """Return how often each client may act in a tick."""
        return self._random.choice((1, 1, 2, 2, 3))

    def _go_on(self, client: int, profile: Profile) -> Step:
        """Do what a classic client's library would."""
        return GoOn(
            client=client,
            group=self._group(),
            join_version=self.version(Join),
            sync_version=self.version(Sync),
            heartbeat_version=self.version(Beat),
        )

    def _odd(self) -> Step:
        step = self._odd_steps[self._random.choice(self._kinds)](self)
        return replace(step, client=self._random.choice(self._active), group=self._group())

    def _group(self) -> int:
        return int(self._random.random() < 0.04)

    def version(self, ask: type[Ask]) -> int:
        known = versions(ask)
        return known[-1] if self._newest else self._random.choice(known)

    def who(self) -> Who:
        return self._random.choice((Who.OWN, Who.OWN, Who.OWN, Who.NONE, Who.BOGUS, Who.OTHER))


class _Drawing(Drawing):
    """A history of classic clients."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed, _ODD, list(_ODD))

    def history(self) -> History:
        profiles = self._profiles()
        steps: list[Step] = []
        for _ in range(self._random.randint(3, 8)):
            steps += self._tick(profiles)
            steps.append(Wait())
        steps += [Wait(), self._describe()]
        return History(self._seed, profiles, tuple(steps))

    def _profiles(self) -> tuple[Profile, ...]:
        random = self._random
        session, rebalance = random.choice((1, 2)), random.choice((0, 1, 2))
        both = ("range", "roundrobin")
        protocols = (both,) if random.random() < 0.7 else (both, both, both[:1], both[::-1])
        return tuple(
            Profile(
                instance=random.choice((None, None, "i1", "i2", "i3")),
                session_ms=session_ms(random.choice((session, session, 1, 2))),
                rebalance_ms=rebalance_ms(random.choice((rebalance, rebalance, 0, 1))),
                protocols=random.choice(protocols),
                topics=tuple(random.sample(list(TOPICS), random.randint(1, len(TOPICS)))),
            )
            for _ in range(CLIENTS)
        )

    def generation(self) -> Generation:
        own = Generation.OWN
        return self._random.choice((own, own, own, Generation.NONE, Generation.OLD, Generation.NEW))

    def some_topics(self) -> tuple[str, ...]:
        names = [*TOPICS, NO_TOPIC]
        return tuple(self._random.sample(names, self._random.randint(1, 2)))

    def some_partitions(self) -> tuple[int, ...]:
        return tuple(self._random.sample((0, 1, 2, 9), self._random.randint(1, 3)))

    def chance(self, part: float = 0.3) -> bool:
        return self._random.random() < part

    def pick(self, *choices: str) -> str:
        return self._random.choice(choices)

    def _describe(self) -> Describe:
        return Describe(version=self.version(Describe), both_groups=True)

    # --- odd steps ---

    def restart(self) -> Step:
        return Restart()

    def join_otherwise(self) -> Step:
        who = self._random.choice((Who.OWN, Who.OWN, Who.NONE))
        return Join(version=self.version(Join), who=who, changed=self.chance(0.5))

    def join_wrongly(self) -> Step:
        kinds = ("no protocols", "other protocols", "other type", "no type", "short session", "no group")
        return Join(version=self.version(Join), who=self.who(), wrong=self.pick("", *kinds))

    def sync(self) -> Step:
        wrong = self.pick("", "", "no protocol", "other type", "other protocol")
        return Sync(version=self.version(Sync), who=self.who(), generation=self.generation(), wrong=wrong)

    def beat(self) -> Step:
        instance = self.pick("own", "own", "own", "none", "another")
        return Beat(version=self.version(Beat), who=self.who(), generation=self.generation(), instance=instance)

    def leave(self) -> Step:
        return Leave(version=self.version(Leave), by=self.pick("id", "instance", "both"))

    def leave_oddly(self) -> Step:
        whom = tuple(self.who() for _ in range(self._random.randint(0, 3)))
        return Leave(version=self.version(Leave), whom=whom or (Who.OWN,), by=self.pick("id", "instance", "both"))

    def commit(self) -> Step:
        return Commit(
            version=self.version(Commit),
            topic=self._random.choice(list(TOPICS)),
            partitions=self.some_partitions(),
            offset=self._random.randrange(100),
            metadata=self._random.choice((0, 0, 3)),
        )

    def commit_oddly(self) -> Step:
        return Commit(
            version=self.version(Commit),
            who=self.who(),
            generation=self.generation(),
            partitions=self.some_partitions(),
            offset=self._random.choice((0, 7, -1, -5)),
            metadata=self._random.choice((0, 4_096, 4_097)),
            nowhere=self.chance(),
        )

    def commit_alone(self) -> Step:
        return Commit(version=self.version(Commit), who=Who.NONE, generation=Generation.NONE, offset=11)

    def fetch(self) -> Step:
        return Fetch(
            version=self.version(Fetch),
            topics=None if self.chance() else self.some_topics(),
            partitions=self.some_partitions(),
            both_groups=self.chance(),
            stable=self.chance(),
        )

    def delete_offsets(self) -> Step:
        return DeleteOffsets(
            version=self.version(DeleteOffsets), topics=self.some_topics(), partitions=self.some_partitions()
        )

    def describe(self) -> Step:
        return Describe(version=self.version(Describe), both_groups=self.chance(), operations=self.chance())

    def list_groups(self) -> Step:
        states = ("Stable", "Empty", "preparingrebalance", "CompletingRebalance", "Dead", "nope")
        wanted = tuple(self._random.sample(states, self._random.randint(0, 2)))
        return List(version=self.version(List), states=wanted, types=("classic",) if self.chance() else ())

    def delete(self) -> Step:
        return Delete(version=self.version(Delete), both_groups=self.chance())

    def find(self) -> Step:
        return Find(version=self.version(Find))


_ODD: Mapping[str, Callable[[_Drawing], Step]] = {
    "restart": _Drawing.restart,
    "join otherwise": _Drawing.join_otherwise,
    "join wrongly": _Drawing.join_wrongly,
    "sync": _Drawing.sync,
    "beat": _Drawing.beat,
    "leave": _Drawing.leave,
    "leave oddly": _Drawing.leave_oddly,
    "commit": _Drawing.commit,
    "commit oddly": _Drawing.commit_oddly,
    "commit alone": _Drawing.commit_alone,
    "fetch": _Drawing.fetch,
    "delete offsets": _Drawing.delete_offsets,
    "describe": _Drawing.describe,
    "list": _Drawing.list_groups,
    "delete": _Drawing.delete,
    "find": _Drawing.find,
}


def unspoken(spoken: Mapping[int, range], asks: Sequence[type[Ask]] = ASKS) -> list[str]:
    """Return the APIs that histories need and a server does not speak."""
    return [
        f"{ask.api.__name__} v{version}"
        for ask in asks
        for version in versions(ask)
        if version not in spoken.get(BY_MESSAGE[ask.api].key, ())
    ]
