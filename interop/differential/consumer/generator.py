"""Histories from seeds of groups that the coordinator balances: members that mostly follow the protocol, classic
clients beside them, and now and then something else."""

from collections.abc import Callable, Mapping

from interop.differential.consumer.orders import member_ids
from interop.differential.consumer.steps import (
    UNCHANGED_MS,
    WRONGS,
    Configure,
    DescribeMembers,
    Epoch,
    Follow,
    MemberBeat,
    MemberFetch,
    Owned,
    ShowSettings,
)
from interop.differential.generator import CLIENTS, Drawing, rebalance_ms, session_ms
from interop.differential.steps import (
    Beat,
    Commit,
    Delete,
    DeleteOffsets,
    Describe,
    History,
    Join,
    Leave,
    List,
    Restart,
    Step,
    Sync,
    Wait,
)
from interop.differential.views import MORE_TOPICS, NO_TOPIC, TICK_MS, TOPICS, Generation, Profile, Who

SESSION_MS = session_ms(2)
IDS = member_ids(CLIENTS, 2)
_TOPICS = (*TOPICS, *MORE_TOPICS)
_PATTERNS = ("differential-.*", "differential-[ab]", "differential-c|x", "nothing.*", "differential")
_ASSIGNORS = ("uniform", "range")
_STATES = ("Stable", "Empty", "assigning", "Reconciling", "PreparingRebalance", "Dead", "nope")


def draw(seed: int) -> History:
    """The same for the same seed, always."""
    return _Drawing(seed, alone=False).history()


def draw_alone(seed: int) -> History:
    """The same without clients of the classic protocol."""
    return _Drawing(seed, alone=True).history()


class _Drawing(Drawing):
    """A history of members of both protocols."""

    def __init__(self, seed: int, *, alone: bool) -> None:
        super().__init__(seed, _ODD, [kind for kind in _ODD if not alone or kind not in _CLASSIC])
        self._classic = 0.0 if alone else self._random.choice((0.0, 0.0, 0.0, 0.2, 0.5))
        self._patterns = self._random.random() < 0.25
        self._delays = self._random.random() < 0.35
        self._lazy = self._random.choice((0.0, 0.2, 0.5))

    def history(self) -> History:
        profiles = self._profiles()
        steps: list[Step] = []
        if self._delays:
            steps += [self._configure("consumer.assignment.interval.ms", str(TICK_MS // 2)), Wait()]
        for _ in range(self._random.randint(3, 8)):
            steps += self._tick(profiles)
            steps.append(Wait())
        steps += [Wait(), self._describe(), self._describe_classic()]
        return History(self._seed, profiles, tuple(steps))

    def _profiles(self) -> tuple[Profile, ...]:
        random = self._random
        rebalance = random.choice((0, 1, 2))
        same = random.random() < 0.4
        common = tuple(random.sample(_TOPICS, random.randint(1, len(_TOPICS))))
        assignors = random.choice(((None,), (None,), (None, "range"), _ASSIGNORS, ("range",)))
        return tuple(
            Profile(
                instance=random.choice((None, None, None, "i1", "i2", "i3")),
                session_ms=session_ms(random.choice((1, 2))),
                rebalance_ms=rebalance_ms(random.choice((0, 1))),
                topics=common if same else self.some_topics(),
                is_balanced=random.random() >= self._classic,
                member_ids=IDS[client],
                revocation_ms=rebalance_ms(random.choice((rebalance, rebalance, 0, 1))),
                regex=random.choice((None, *_PATTERNS[:2], *_PATTERNS)) if self._patterns else None,
                assignor=random.choice(assignors),
            )
            for client in range(CLIENTS)
        )

    def _rounds(self) -> int:
        return 1 if self._patterns else super()._rounds()

    def _go_on(self, client: int, profile: Profile) -> Step:
        if not profile.is_balanced:
            return super()._go_on(client, profile)
        is_lazy = self.chance(self._lazy)
        version = self.version(MemberBeat)
        return Follow(client=client, group=self._group(), version=version, lazy=is_lazy, fully=self.chance(0.1))

    def generation(self) -> Generation:
        own = Generation.OWN
        return self._random.choice((own, own, own, Generation.NONE, Generation.OLD, Generation.OLD, Generation.NEW))

    def owned(self) -> Owned:
        told = Owned.TOLD
        return self._random.choice((Owned.UNSAID, told, told, Owned.NONE, Owned.SOME, Owned.STRANGE, Owned.EMPTY_TOPIC))

    def some_topics(self) -> tuple[str, ...]:
        names = [*_TOPICS, *_TOPICS, NO_TOPIC]
        return tuple(sorted({self._random.choice(names) for _ in range(self._random.randint(1, 3))}))

    def some_partitions(self) -> tuple[int, ...]:
        return tuple(self._random.sample((0, 1, 2, 9), self._random.randint(1, 3)))

    def chance(self, part: float = 0.3) -> bool:
        return self._random.random() < part

    def pick(self, *choices: str) -> str:
        return self._random.choice(choices)

    def _describe(self) -> Step:
        return DescribeMembers(version=self.version(DescribeMembers), both_groups=True)

    def _describe_classic(self) -> Step:
        return Describe(version=self.version(Describe), both_groups=True)

    def _configure(self, name: str, value: str | None, *, validate_only: bool = False) -> Configure:
        return Configure(version=self.version(Configure), settings=((name, value),), validate_only=validate_only)

    # --- odd steps of members ---

    def restart(self) -> Step:
        return Restart()

    def leave(self) -> Step:
        return MemberBeat(version=self.version(MemberBeat), epoch=self._random.choice((Epoch.LEAVE, Epoch.AWAY)))

    def rejoin(self) -> Step:
        instance = self.pick("own", "own", "none", "another")
        return MemberBeat(version=self.version(MemberBeat), epoch=Epoch.JOIN, instance=instance)

    def resubscribe(self) -> Step:
        names = () if self.chance(0.15) else self.some_topics()
        return MemberBeat(version=self.version(MemberBeat), names=names, owned=self.owned())

    def match(self) -> Step:
        """Without a pattern it is a heartbeat of another kind."""
        regex = self.pick("", *_PATTERNS) if self._patterns else None
        return MemberBeat(version=self.version(MemberBeat), regex=regex, owned=self.owned())

    def change(self) -> Step:
        return MemberBeat(
            version=self.version(MemberBeat),
            assignor=self._random.choice((None, *_ASSIGNORS)),
            rack=self._random.choice((None, "r1", "r2")),
            timeout_ms=self._random.choice((UNCHANGED_MS, rebalance_ms(0), rebalance_ms(2))),
        )

    def report(self) -> Step:
        return MemberBeat(version=self.version(MemberBeat), owned=self.owned(), full=self.chance())

    def misname(self) -> Step:
        epoch = self._random.choice((Epoch.OWN, Epoch.OLD, Epoch.OLD, Epoch.NEW, Epoch.JOIN, Epoch.LEAVE, Epoch.AWAY))
        return MemberBeat(
            version=self.version(MemberBeat),
            who=self._random.choice((Who.OWN, Who.OWN, Who.BOGUS, Who.OTHER)),
            epoch=epoch,
            owned=self.owned(),
            instance=self.pick("own", "own", "none", "another"),
        )

    def break_off(self) -> Step:
        epoch = self._random.choice((Epoch.OWN, Epoch.JOIN, Epoch.JOIN, Epoch.WRONG, Epoch.LEAVE, Epoch.OLD))
        return MemberBeat(version=self.version(MemberBeat), epoch=epoch, wrong=self.pick(*WRONGS), owned=self.owned())

    def make_id(self) -> Step:
        """Version 0, in which the coordinator may make ids."""
        return MemberBeat(version=0, epoch=Epoch.JOIN, who=Who.NONE)

    # --- odd steps about offsets ---

    def commit(self) -> Step:
        version = self._random.choice((9, 10)) if self.chance(0.8) else self.version(Commit)
        return Commit(
            version=version,
            topic=self._random.choice(_TOPICS),
            partitions=self.some_partitions(),
            offset=self._random.randrange(100),
        )

    def commit_oddly(self) -> Step:
        version = self._random.choice((8, 9, 10)) if self.chance(0.8) else self.version(Commit)
        return Commit(
            version=version,
            who=self.who(),
            generation=self.generation(),
            topic=self._random.choice(_TOPICS),
            partitions=self._random.choice(((0,), (1,), self.some_partitions())),
            offset=self._random.choice((0, 7, -1, -5)),
            metadata=self._random.choice((0, 4_096, 4_097)),
            nowhere=self.chance(),
        )

    def commit_alone(self) -> Step:
        return Commit(version=self.version(Commit), who=Who.NONE, generation=Generation.NONE, offset=11)

    def fetch(self) -> Step:
        return MemberFetch(
            version=self._random.choice((9, 10)) if self.chance(0.7) else self.version(MemberFetch),
            topics=None if self.chance() else self.some_topics(),
            partitions=self.some_partitions(),
            both_groups=self.chance(0.1),
            stable=self.chance(),
            who=self.who(),
            generation=self.generation(),
        )

    def delete_offsets(self) -> Step:
        return DeleteOffsets(
            version=self.version(DeleteOffsets), topics=self.some_topics(), partitions=self.some_partitions()
        )

    # --- odd steps of those who look on ---

    def describe(self) -> Step:
        return DescribeMembers(
            version=self.version(DescribeMembers),
            both_groups=self.chance(),
            operations=self.chance(),
            nobody=self.chance(0.1),
        )

    def describe_classic(self) -> Step:
        return Describe(version=self.version(Describe), both_groups=self.chance(), operations=self.chance())

    def list_groups(self) -> Step:
        wanted = tuple(self._random.sample(_STATES, self._random.randint(0, 2)))
        types = self._random.choice(((), ("consumer",), ("Classic",), ("consumer", "classic")))
        return List(version=self.version(List), states=wanted, types=types)

    def delete(self) -> Step:
        return Delete(version=self.version(Delete), both_groups=self.chance())

    def configure(self) -> Step:
        settings = (
            ("consumer.session.timeout.ms", self._random.choice((session_ms(1), session_ms(3), 100, 70_000))),
            ("consumer.heartbeat.interval.ms", self._random.choice((700, 2_000, 4_879, 100, 20_000))),
            ("consumer.assignment.interval.ms", self._random.choice((0, TICK_MS // 2, -1, 20_000))),
            ("consumer.something.ms", 1),
        )
        name, value = self._random.choice(settings)
        is_unset = self.chance(0.2)
        return self._configure(name, None if is_unset else str(value), validate_only=self.chance(0.1))

    def show_settings(self) -> Step:
        return ShowSettings(version=self.version(ShowSettings), synonyms=self.chance())

    # --- odd steps of clients of the classic protocol ---

    def join(self) -> Step:
        wrong = self.pick("", "", "no protocols", "other type")
        return Join(version=self.version(Join), who=self.who(), wrong=wrong)

    def sync(self) -> Step:
        return Sync(version=self.version(Sync), who=self.who(), generation=self.generation())

    def beat(self) -> Step:
        return Beat(version=self.version(Beat), who=self.who(), generation=self.generation())

    def leave_group(self) -> Step:
        whom = tuple(self.who() for _ in range(self._random.randint(1, 3)))
        return Leave(version=self.version(Leave), whom=whom, by=self.pick("id", "id", "instance", "both"))


_ODD: Mapping[str, Callable[[_Drawing], Step]] = {
    "restart": _Drawing.restart,
    "leave": _Drawing.leave,
    "rejoin": _Drawing.rejoin,
    "resubscribe": _Drawing.resubscribe,
    "match": _Drawing.match,
    "change": _Drawing.change,
    "report": _Drawing.report,
    "misname": _Drawing.misname,
    "break off": _Drawing.break_off,
    "make id": _Drawing.make_id,
    "commit": _Drawing.commit,
    "commit oddly": _Drawing.commit_oddly,
    "commit alone": _Drawing.commit_alone,
    "fetch": _Drawing.fetch,
    "delete offsets": _Drawing.delete_offsets,
    "describe": _Drawing.describe,
    "describe as classic": _Drawing.describe_classic,
    "list": _Drawing.list_groups,
    "delete": _Drawing.delete,
    "configure": _Drawing.configure,
    "show settings": _Drawing.show_settings,
    "join": _Drawing.join,
    "sync": _Drawing.sync,
    "beat": _Drawing.beat,
    "leave group": _Drawing.leave_group,
}
_CLASSIC = {"join", "sync", "beat", "leave group"}
