"""Rules about rebalances that repeat, and requests that are refused."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from msgspec.structs import replace

from diagnosis import people
from diagnosis.assignments import assigned_partitions
from diagnosis.commands import command
from diagnosis.phases import is_stopped
from diagnosis.problem import Evidence, GroupProblem, Kind, blame_client, cost
from protocol.client_text import client_text
from protocol.errors import ErrorCode
from protocol.messages.groups import DescribedMember, ListedNote, RefusedRequest
from protocol.words import counted

RECENT_MS: Final = 600_000
"""Notes older than this are ignored."""
REFUSED_MS: Final = 120_000
"""A refused client that has not sent a request for this long has stopped or was fixed."""
MOST_REFUSED: Final = 20
"""Refused clients that are problems of their own, of a group and of all groups that do not exist: a client can name
itself, and groups, without end."""
_DEPARTURES: Final = ("member left", "session expired", "member did not rejoin in time", "member never synced")
_JOIN: Final = "member joined"
_REJOINS: Final = ("leader rejoined", "member metadata changed", "assignment could not be stored")
_PROVEN, _EXPIRED, _REJOINED = 2, 3, 5
"""Numbers of repetitions in `RECENT_MS` that are a loop, for signs that are more or less distinct from a restart."""
_FIGHTS, _FIGHT_GAP_MS = 3, 60_000
_COMMIT_MS: Final = 6_000
"""Time by which the last poll may lie behind the last commit: Kafka's auto.commit.interval.ms, and a beat."""
_OF_INSTANCES: Final = (ErrorCode.FENCED_INSTANCE_ID, ErrorCode.UNRELEASED_INSTANCE_ID)
"""Refusals that are a fight, or that end with the member that has the instance id."""
_POLL_TIMEOUT: Final = "poll timeout"
"""Reason that Kafka's clients give if a member left because its application did not poll (KIP-800)."""


def loops(evidence: Evidence) -> Iterator[GroupProblem]:
    """Rebalances that the same member causes again and again."""
    recent = [note for note in evidence.notes if evidence.now_ms - note.wall_ms <= RECENT_MS]
    proven = _repeated(recent, lambda note: note.cause in _DEPARTURES and is_max_poll(note), _PROVEN)
    if proven is not None:
        name, notes = proven
        timeout = people.duration(notes[-1].rebalance_timeout_ms)
        why = f"its application did not poll within its rebalance timeout (max.poll.interval.ms) of {timeout}"
        yield _loop(evidence, notes, f"{name} was lost {_times(notes)}: {why}")
    elif (expired := _repeated(recent, lambda note: note.cause == "session expired", _EXPIRED)) is not None:
        name, notes = expired
        yield _loop(evidence, notes, f"{name} lost its session {_times(notes)}")
    rejoined = Counter(note.initiator for note in recent if note.cause in _REJOINS)
    for initiator, count in rejoined.items():
        if count >= _REJOINED:
            notes = [note for note in recent if note.initiator == initiator and note.cause in _REJOINS]
            yield _loop(evidence, notes, f"{_name(notes[-1]) or initiator} joined again {_times(notes)}")


def is_max_poll(note: ListedNote) -> bool:
    """Return true if the gap in the application's requests equals the member's rebalance timeout."""
    if _POLL_TIMEOUT in note.detail:
        return True
    timeout_ms, over_ms = note.rebalance_timeout_ms, note.idle_ms - note.rebalance_timeout_ms
    return timeout_ms > 0 and note.idle_ms >= 0 and -1_000 <= over_ms <= max(_COMMIT_MS, timeout_ms // 10)


def _name(note: ListedNote) -> str | None:
    return None if note.origin is None else client_text(note.origin.client_id, note.origin.client_host)


def _repeated(
    recent: list[ListedNote], is_lost: Callable[[ListedNote], bool], least: int
) -> tuple[str, list[ListedNote]] | None:
    """Return the client that was lost most often, and its losses, if these are at least `least`. A loss counts if the
    member joined after the one before: processes of one host have one client id, and may all end at once."""
    found: dict[str, list[ListedNote]] = {}
    joined: dict[str, int] = {}
    last: dict[str, int] = {}
    for number, note in enumerate(recent):
        joined |= dict.fromkeys(_joining(note), number)
        name = _name(note)
        if name is None or not is_lost(note):
            continue
        if joined.get(note.initiator, -1) >= last.get(name, -1):
            found.setdefault(name, []).append(note)
            last[name] = number
        joined[note.initiator] = number  # if it is lost once more, it has joined meanwhile, with a note or without
    name, losses = max(found.items(), key=lambda one: len(one[1]), default=("", []))
    return (name, losses) if len(losses) >= least else None


def _joining(note: ListedNote) -> tuple[str, ...]:
    """Return the members that the note shows to have joined."""
    return (*note.joined, note.initiator) if note.cause == _JOIN else note.joined


def _times(notes: list[ListedNote]) -> str:
    return f"{len(notes)} times within {people.duration(notes[-1].wall_ms - notes[0].wall_ms)}"


def _loop(evidence: Evidence, notes: list[ListedNote], sentence: str) -> GroupProblem:
    group_id = evidence.group.group_id
    problem = GroupProblem(
        Kind.REBALANCE_LOOP,
        group_id,
        sentence,
        member_id=notes[-1].initiator,
        since_ms=notes[0].wall_ms,
        command=command("explain", group_id),
    )
    return cost(blame_client(problem, notes[-1].origin), evidence.progress)


def fights(evidence: Evidence) -> Iterator[GroupProblem]:
    """Two processes with one instance id. The replaced one continues to send requests, or joins again."""
    fenced = [one for one in _recent(evidence) if one.error_code is ErrorCode.FENCED_INSTANCE_ID]
    taken = [
        note
        for note in evidence.notes
        if note.cause == "static member replaced" and evidence.now_ms - note.wall_ms <= RECENT_MS
    ]
    group_id = evidence.group.group_id
    help_with = command("explain", group_id)
    if fenced:
        one = fenced[-1]
        # Another instance id of the group may have been taken over since.
        taken = [note for note in taken if _has_replaced(note, one)]
        holder = "" if not taken else f"; {_name(taken[-1])} has it now"
        sentence = f"{_client(one)} was fenced and still runs: {one.detail}{holder}"
        problem = GroupProblem(Kind.INSTANCE_FOUGHT_OVER, group_id, sentence, since_ms=one.since_ms, command=help_with)
        yield _cost_of(evidence, taken[-1].initiator if taken else "", blame_client(problem, one))
        return
    again = [note for note in taken if note.times >= _FIGHTS and _gap_ms(note) <= _FIGHT_GAP_MS]
    for note in [note for note in again if evidence.now_ms - note.wall_ms <= 2 * _FIGHT_GAP_MS][-1:]:
        before = note.previous
        rival = "" if before is None else f"; it was {client_text(before.client_id, before.client_host)} before"
        sentence = f"{_name(note)} took its instance id over {note.times} times{rival}"
        problem = GroupProblem(
            Kind.INSTANCE_FOUGHT_OVER,
            group_id,
            sentence,
            member_id=note.initiator,
            since_ms=note.since_ms,
            command=help_with,
        )
        yield _cost_of(evidence, note.initiator, blame_client(problem, note.origin))


def _has_replaced(note: ListedNote, one: RefusedRequest) -> bool:
    """Return true if the refused client had the instance id that the note is about."""
    before = note.previous
    return before is not None and (before.client_id, before.client_host) == (one.client_id, one.client_host)


def _cost_of(evidence: Evidence, member_id: str, problem: GroupProblem) -> GroupProblem:
    """Return the problem with the partitions of the member as its cost."""
    own = [assigned_partitions(evidence.group, one) for one in evidence.group.members if one.member_id == member_id]
    return cost(problem, evidence.progress, frozenset(key for keys in own for key in keys))


def _holder(evidence: Evidence, one: RefusedRequest) -> DescribedMember | None:
    """Return the member of a server-driven group whose instance id the refused client has too; None for another
    refusal."""
    if one.error_code is not ErrorCode.UNRELEASED_INSTANCE_ID:
        return None
    return next((member for member in evidence.group.members if member.member_id in one.detail), None)


def _refused_for(evidence: Evidence, one: RefusedRequest, holder: DescribedMember) -> GroupProblem:
    """Return the problem of a client that waits for an instance id. A live holder is a second process; one that ended
    without a word keeps the id for its session."""
    is_alive = holder.is_connected is not False and not is_stopped(holder)
    group_id, who = evidence.group.group_id, people.client_of(holder)
    problem = GroupProblem(
        Kind.INSTANCE_FOUGHT_OVER if is_alive else Kind.JOIN_REFUSED,
        group_id,
        f"{_client(one)} may not join ({one.error_code.name}): its instance id is that of {who}, "
        + ("which is alive" if is_alive else f"whose session is not over: {people.condition(holder)}"),
        since_ms=one.since_ms,
        command=command("explain", group_id)
        if is_alive
        else command("groups evict", group_id, "--member", holder.member_id),
    )
    problem = blame_client(problem, one)
    return problem if is_alive else _cost_of(evidence, holder.member_id, problem)


def _gap_ms(note: ListedNote) -> int:
    return (note.wall_ms - note.since_ms) // max(1, note.times - 1)


def refused(evidence: Evidence) -> Iterator[GroupProblem]:
    """Clients that are refused as members."""
    holders = [(one, _holder(evidence, one)) for one in _recent(evidence)]
    found = [one for one, holder in holders if holder is not None or one.error_code not in _OF_INSTANCES]
    yield from named(found, lambda one: _refusal(evidence, one))


def _refusal(evidence: Evidence, one: RefusedRequest) -> GroupProblem:
    holder = _holder(evidence, one)
    return refused_join(one) if holder is None else _refused_for(evidence, one, holder)


def named(
    refusals: Sequence[RefusedRequest], problem_of: Callable[[RefusedRequest], GroupProblem]
) -> list[GroupProblem]:
    """Return the problems of the refused clients, `MOST_REFUSED` at most; the last one says how many more there are.
    Each host has its turn, and what was refused first comes first: the problems stay while one host sends ever more."""
    if len(refusals) <= MOST_REFUSED:
        return [problem_of(one) for one in refusals]
    turns: Counter[str] = Counter()
    placed = []
    for one in sorted(refusals, key=lambda one: (one.since_ms, one.group_id, one.client_id)):
        placed.append((turns[one.client_host], one))
        turns[one.client_host] += 1
    placed.sort(key=lambda place: place[0])
    found = [problem_of(one) for _turn, one in placed[:MOST_REFUSED]]
    more = counted(len(placed) - MOST_REFUSED, "more refused join")
    return [*found[:-1], replace(found[-1], sentence=f"{found[-1].sentence}; not listed: {more}")]


def refused_join(one: RefusedRequest) -> GroupProblem:
    """Return the problem of one refused client; its group need not exist."""
    problem = GroupProblem(
        Kind.JOIN_REFUSED,
        one.group_id,
        f"{_client(one)} may not join ({one.error_code.name}): {one.detail}",
        since_ms=one.since_ms,
        command=command("groups describe", one.group_id, "--verbose"),
    )
    return blame_client(problem, one)


def is_recent(one: RefusedRequest, now_ms: int) -> bool:
    """Return true if the client was refused recently."""
    return now_ms - one.wall_ms <= REFUSED_MS


def _recent(evidence: Evidence) -> list[RefusedRequest]:
    return [one for one in evidence.refusals if is_recent(one, evidence.now_ms)]


def _client(one: RefusedRequest) -> str:
    return client_text(one.client_id, one.client_host, one.client_port)
