"""Problems of groups, and the evidence for them."""

import enum
from collections.abc import Iterable, Mapping
from typing import Final

import msgspec
from msgspec.structs import replace

from diagnosis.assignments import Key
from diagnosis.growth import Growth
from protocol.messages.groups import DescribedGroup, DescribedMember, ListedNote, Origin, RefusedRequest


class Kind(enum.StrEnum):
    """Kinds of problems. Metric labels: add to them, never rename."""

    JOIN_HELD_UP = "join_held_up"
    SYNC_HELD_UP = "sync_held_up"
    REVOCATION_HELD_UP = "revocation_held_up"
    INSTANCE_FOUGHT_OVER = "instance_fought_over"
    REBALANCE_LOOP = "rebalance_loop"
    SILENT_MEMBER = "silent_member"
    JOIN_REFUSED = "join_refused"
    CONSUMPTION_STOPPED = "consumption_stopped"
    CONSUMPTION_STALLED = "consumption_stalled"
    CONSUMPTION_REWOUND = "consumption_rewound"
    OFFSETS_OUT_OF_RANGE = "offsets_out_of_range"
    IDLE_MEMBERS = "idle_members"
    UNOWNED_PARTITIONS = "unowned_partitions"
    OFFSETS_EXPIRE = "offsets_expire"


class GroupProblem(msgspec.Struct, frozen=True):
    """A problem of a group: `sentence` names the problem, its culprit and its beginning; `partitions` and `records` are
    its cost; `command` is the command to run next. `since_ms` is a wall time, -1 if unknown; `seen_ms` is then the time
    at which the process that looks first saw the problem, -1 if it does not remember."""

    kind: Kind
    group_id: str
    sentence: str
    member_id: str = ""
    client_id: str = ""
    client_host: str = ""
    client_port: int = -1
    since_ms: int = -1
    seen_ms: int = -1
    partitions: int = 0
    records: int = 0
    command: str = ""


class Progress(msgspec.Struct, frozen=True):
    """Progress of a group in one partition; None is unknown. `is_overdue`: the first unread record is older than
    `OVERDUE_MS`. `is_moving`: the commit changed between two observations, for servers that do not report the time of a
    commit."""

    topic: str
    partition: int
    committed: int | None
    begin: int | None
    end: int | None
    committed_ms: int | None = None
    is_overdue: bool = False
    is_moving: bool | None = None
    previous: int | None = None
    """Offset of the commit before the last."""
    repeated_since_ms: int = -1
    """Wall time of the first commit of this offset if later ones repeated it, else -1."""
    written_ms: int | None = None
    """Time of the first unread record, if it is later than that of the commit that reached it."""

    @property
    def lag(self) -> int:
        """Records left to read, 0 if unknown."""
        start = self.first_unread
        return 0 if self.end is None or start is None else max(0, self.end - start)

    @property
    def first_unread(self) -> int | None:
        """Offset of the first unread record, None if unknown."""
        return self.begin if self.committed is None else self.committed

    @property
    def reached_ms(self) -> int | None:
        """Time at which the group reached the committed offset, None if unknown."""
        return self.committed_ms if self.repeated_since_ms < 0 else self.repeated_since_ms

    def waits_since_ms(self, stable_since_ms: int) -> int:
        """Return the time from which on the group could have read the first unread record and did not, -1 if unknown.
        Without a commit its members have that chance since the group is stable."""
        reached_ms = self.reached_ms if self.committed is not None else max(stable_since_ms, -1)
        if reached_ms is None or reached_ms < 0 or (self.committed is None and self.written_ms is None):
            return -1
        return reached_ms if self.written_ms is None else max(reached_ms, self.written_ms)


class Evidence(msgspec.Struct, frozen=True):
    """All that servers report about a group. A Kafka broker reports no notes, refusals, expiry or times of members.
    `held_up_ms`: time for which the group was observed to rebalance, if the server reports no phase."""

    group: DescribedGroup
    now_ms: int
    notes: tuple[ListedNote, ...] = ()
    progress: tuple[Progress, ...] = ()
    refusals: tuple[RefusedRequest, ...] = ()
    counts: Mapping[str, int] = {}
    """Numbers of partitions, by topic."""
    expires_ms: int = -1
    held_up_ms: int = -1
    grown: Mapping[str, Growth] = {}
    """Topics of the group that have got partitions, as far as looks are remembered."""

    def began_ms(self, duration_ms: int) -> int:
        """Return the wall time at which a state began that had lasted `duration_ms` when the group was described."""
        # Where many groups are looked at, the last of them are described seconds after `now_ms`.
        return (self.now_ms if self.group.described_ms < 0 else self.group.described_ms) - duration_ms


OVERDUE_MS = 300_000
"""Age from which an unread record counts as waiting too long, and time without a commit."""
_SAME_MS: Final = 1_000
"""Difference of two beginnings of one problem that is taken for an error of measurement."""
_OF_GROUPS: Final = (Kind.OFFSETS_OUT_OF_RANGE, Kind.IDLE_MEMBERS, Kind.UNOWNED_PARTITIONS, Kind.OFFSETS_EXPIRE)
"""Kinds that a group has once: a member that is named with one may change while the problem lasts."""


def blame(problem: GroupProblem, member: DescribedMember | None) -> GroupProblem:
    """Return the problem with the member as its culprit."""
    if member is None:
        return problem
    problem = replace(problem, member_id=member.member_id, client_id=member.client_id)
    return replace(problem, client_host=member.client_host.lstrip("/"), client_port=member.client_port)


def blame_client(problem: GroupProblem, client: Origin | RefusedRequest | None) -> GroupProblem:
    """Return the problem with the client as its culprit."""
    if client is None:
        return problem
    host = client.client_host.lstrip("/")
    return replace(problem, client_id=client.client_id, client_host=host, client_port=client.client_port)


def cost(problem: GroupProblem, progress: tuple[Progress, ...], keys: frozenset[Key] | None = None) -> GroupProblem:
    """Return the problem with its cost: the partitions that are not read meanwhile (default: all), and their lag."""
    lines = [one for one in progress if keys is None or (one.topic, one.partition) in keys]
    return replace(problem, partitions=len(lines), records=sum(one.lag for one in lines))


def continued(found: Iterable[GroupProblem], before: Iterable[GroupProblem], now_ms: int = -1) -> list[GroupProblem]:
    """Return the problems found now, with the beginnings known from the look before: one that is computed from an age
    differs by some milliseconds each time. A problem of unknown beginning is seen since `now_ms` if it is new."""
    known = {_with_member(one): one for one in before}
    return [_continued(one, known.get(_with_member(one)), now_ms) for one in found]


def _continued(one: GroupProblem, before: GroupProblem | None, now_ms: int) -> GroupProblem:
    if one.since_ms < 0 and before is not None and before.since_ms >= 0:
        return replace(one, since_ms=before.since_ms)
    if one.since_ms < 0:
        return replace(one, seen_ms=now_ms if before is None or before.seen_ms < 0 else before.seen_ms)
    if before is not None and abs(one.since_ms - before.since_ms) <= _SAME_MS:
        return replace(one, since_ms=before.since_ms)
    return one


def identity(problem: GroupProblem) -> tuple[str, ...]:
    """Return what an open problem is known by from look to look. Clients that join again have another member id."""
    if problem.kind in _OF_GROUPS:
        return problem.group_id, problem.kind
    return problem.group_id, problem.kind, problem.client_id, problem.client_host


def _with_member(problem: GroupProblem) -> tuple[str, ...]:
    """Return the identity, by which members of one client are told apart too: each has a beginning of its own."""
    known_by = identity(problem)
    return known_by if problem.kind in _OF_GROUPS else (*known_by, problem.member_id)
