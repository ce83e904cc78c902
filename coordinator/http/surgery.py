"""Pages that change committed offsets: plan, apply and undo. They are POSTs with a JSON body."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any, Final

import msgspec

from coordinator.facts.commit_notes import MOST_CHANGES
from coordinator.groups.hold import LONGEST_MS
from coordinator.http.queries import Problem, Queries, ends_of, problem_of
from coordinator.http.routing import schemas
from coordinator.http.routing.route import HttpRoute, Names
from coordinator.http.shapes import Json
from diagnosis.assignments import Key
from diagnosis.gathering import EARLIEST, LATEST
from diagnosis.offset_plan import (
    PlannedOffset,
    Target,
    act_of,
    changes,
    existing_partitions,
    make_plan,
    one_note,
    parse_act_id,
    possible_changes,
    reversed_changes,
)
from protocol.messages import Int32, Int64, Text
from protocol.messages.groups import (
    LONGEST_REASON,
    Act,
    ApplyOffsets,
    DescribedMember,
    HoldGroup,
    LeaveGroup,
    LeavingMember,
    LeftMember,
    OffsetChange,
)
from protocol.messages.reports import DrainedMember, DrainMembers

_INVALID, _CONFLICT, _NO_SUCH_ACT = 40002, 409, 40403


class _Place(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    topic: Text
    partition: Int32
    offset: Int64


class PlanRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """Body of a plan. `topics`: the partitions of each topic, all if null; without it all partitions with a commit of
    the group. Exactly one of the other fields is set, and gives the target."""

    topics: dict[str, list[Int32] | None] | None = None
    to_earliest: bool = False
    to_latest: bool = False
    to_current: bool = False
    to_offset: Int64 | None = None
    shift_by: Int64 | None = None
    to_time_ms: Int64 | None = None
    of_group: str | None = None
    offsets: list[_Place] | None = None
    delete: bool = False


class ApplyRequest(msgspec.Struct, frozen=True):
    """Body of an application: the answer to a plan, or its field `plan` alone. `act`: the change's name in the
    note."""

    plan: list[PlannedOffset]
    act: Act = "reset"


class EvictRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Body of an eviction: the members with one of these ids, client ids or instance ids. `reason` is noted."""

    member_ids: list[str] = []
    client_ids: list[str] = []
    instance_ids: list[str] = []
    reason: Annotated[str, msgspec.Meta(max_length=LONGEST_REASON)] = "evicted"


class HoldRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Body of a hold: its duration, and the number of joining members that ends it earlier, if not 0. A duration of 0
    ms releases the group."""

    for_ms: Annotated[int, msgspec.Meta(ge=0, le=LONGEST_MS)]
    until_members: Annotated[int, msgspec.Meta(ge=0, le=2**31 - 1)] = 0


class DrainRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Body of a drain: the members with one of these ids or client ids."""

    member_ids: list[str] = []
    client_ids: list[str] = []


class SurgeryPages:
    """Each method is a page: (names in the path, body, address of the client)."""

    def __init__(self, queries: Queries) -> None:
        self._ask = queries

    async def plan(self, names: Names, body: bytes, host: str) -> Json:
        """Old and new offset of each partition, and its lag before and after. Changes nothing."""
        wanted = _decode(body, PlanRequest)
        said = msgspec.structs.asdict(wanted)
        if sum(value is not None and value is not False for name, value in said.items() if name != "topics") != 1:
            raise Problem(_INVALID, f"say exactly one of {', '.join(name for name in said if name != 'topics')}")
        group_id = names["group"]
        committed = (await self._ask.committed([group_id])).get(group_id, {})
        keys = await self._keys(wanted, committed)
        begins = await self._ask.offsets_at(keys, EARLIEST) if keys else {}
        ends = await self._ask.offsets_at(keys, LATEST) if keys else {}
        planned = make_plan(await self._target(wanted, keys), keys, committed, begins, ends)
        if (count := len(changes(planned))) > MOST_CHANGES:  # `apply` changes all or none, and has one id
            some = "plan some of its partitions at a time (topics), or use `muster groups`, which takes several steps"
            raise Problem(_INVALID, f"{count} partitions would change, and {MOST_CHANGES} at most can at once: {some}")
        return {"group_id": group_id, "plan": [msgspec.structs.asdict(one) for one in planned]}

    async def apply(self, names: Names, body: bytes, host: str) -> Json:
        """Do as planned, if all offsets are as planned; the answer names the id that undoes it."""
        wanted = _decode(body, ApplyRequest)
        return await self._apply(names["group"], changes(wanted.plan), wanted.act, host)

    async def undo(self, names: Names, body: bytes, host: str) -> Json:
        """Undo a change, by its id GROUP:NUMBER, if the offsets are as it left them. Partitions that no longer exist,
        or end below their old offset, are left out, and counted."""
        found = parse_act_id(names["id"])
        if found is None:
            raise Problem(_INVALID, f"{names['id'][:80]!r} is no id: it is GROUP:NUMBER")
        group_id, number = found
        asked = one_note(group_id, number)
        act = act_of((await self._ask.notes(group_id, asked.after, asked.limit)).notes, number)
        if act is None:
            raise Problem(_NO_SUCH_ACT, f"group {group_id!r} has no act {number} that changed offsets")
        wanted = reversed_changes(act.changes)
        counts = await self._existing({one.topic for one in wanted})
        possible = possible_changes(wanted, counts, await self._ends(wanted, counts))
        if not possible:
            raise Problem(_NO_SUCH_ACT, "every partition of this change is gone, or ends below its old offset")
        return await self._apply(group_id, possible, "undo", host, left_out=len(wanted) - len(possible))

    async def evict(self, names: Names, body: bytes, host: str) -> Json:
        """Remove members at once, as if they had left. One that is alive joins again. They may be another principal's,
        so who has READ alone may not."""
        wanted = _decode(body, EvictRequest)
        group_id = names["group"]
        await self._ask.check_deletion(group_id)
        reason = f"{wanted.reason}, over HTTP by {host}"
        leaving = [
            LeavingMember(one.member_id, one.group_instance_id, reason)
            for one in await self._named(group_id, wanted.member_ids, wanted.client_ids, wanted.instance_ids)
        ]
        return _changed(group_id, await self._ask.leave(LeaveGroup(group_id, tuple(leaving))))

    async def drain(self, names: Names, body: bytes, host: str) -> Json:
        """Have members read no more, commit what they have read, and leave. Those that do not report cannot. It needs
        the same permission as an eviction."""
        wanted = _decode(body, DrainRequest)
        group_id = names["group"]
        await self._ask.check_deletion(group_id)
        draining = await self._named(group_id, wanted.member_ids, wanted.client_ids)
        return _changed(
            group_id, await self._ask.drain(DrainMembers(group_id, tuple(one.member_id for one in draining)))
        )

    async def _named(
        self, group_id: str, member_ids: list[str], client_ids: list[str], instance_ids: Sequence[str] = ()
    ) -> list[DescribedMember]:
        """Return the members of a group with one of these ids. Raises Problem if there are none."""
        found = [
            one
            for one in (await self._ask.group(group_id)).members
            if one.member_id in member_ids or one.client_id in client_ids or one.group_instance_id in instance_ids
        ]
        if not found:
            raise Problem(_NO_SUCH_ACT, f"group {group_id!r} has no such member")
        return found

    async def hold(self, names: Names, body: bytes, host: str) -> Json:
        """Let changes of the group's members gather for a while: then they are one rebalance."""
        wanted, group_id = _decode(body, HoldRequest), names["group"]
        left_ms = await self._ask.hold(HoldGroup(group_id, wanted.for_ms, wanted.until_members, "http", host))
        return {"group_id": group_id, "hold_left_ms": left_ms}

    async def _apply(
        self, group_id: str, made: tuple[OffsetChange, ...], act: str, host: str, *, left_out: int = 0
    ) -> Json:
        reply = await self._ask.apply_offsets(ApplyOffsets(group_id, made, act, "http", host))
        if reply.members:
            raise Problem(_CONFLICT, f"group {group_id!r} has members: {', '.join(reply.members)}")
        if reply.conflicts:
            first = reply.conflicts[0]
            now = "none" if first.previous_offset < 0 else first.previous_offset
            where = f"{first.topic}-{first.partition_index} is at {now} by now"
            raise Problem(_CONFLICT, f"the plan is stale, nothing was changed: {where}")
        if reply.number < 0:
            raise Problem(_INVALID, reply.error_message)
        number = f"{group_id}:{reply.number}"
        return {"group_id": group_id, "id": number, "changed": len(made), "left_out": left_out}

    async def _existing(self, topics: Iterable[str]) -> dict[str, int]:
        """Return the numbers of partitions of those that exist. Raises Problem if that is not known of one."""
        found = (await self._ask.topics(topics)).topics
        return existing_partitions(found, lambda one: problem_of(one.error_code))

    async def _ends(self, wanted: Iterable[OffsetChange], counts: Mapping[str, int]) -> dict[Key, int]:
        """Return the known ends of the partitions that exist, without those that are not current."""
        topics: dict[str, list[int]] = {}
        for one in wanted:
            if one.partition_index < counts.get(one.topic, 0):
                topics.setdefault(one.topic, []).append(one.partition_index)
        return {
            (topic, partition): end.offset
            for topic, partitions in topics.items()
            for partition, end in (await ends_of(self._ask, topic, partitions)).items()
            if end.offset is not None and end.age_ms is None
        }

    async def _keys(self, wanted: PlanRequest, committed: Mapping[Key, int]) -> list[Key]:
        if wanted.topics is None:
            named = [(one.topic, one.partition) for one in wanted.offsets or ()]
            return sorted({*committed, *named})
        counts = await self._ask.partition_counts(wanted.topics)
        keys: list[Key] = []
        for topic, partitions in wanted.topics.items():
            count = counts.get(topic, 0)
            missing = [part for part in partitions or () if not 0 <= part < count]
            if missing or not count:
                what = f"partition {topic}-{missing[0]}" if missing and count else f"topic {topic!r}"
                raise Problem(40403, f"there is no {what}")
            keys += [(topic, part) for part in (range(count) if partitions is None else partitions)]
        return sorted(set(keys))

    async def _target(self, wanted: PlanRequest, keys: list[Key]) -> Target:
        if wanted.to_time_ms is not None:
            return Target(at_time=await self._ask.offsets_at(keys, max(wanted.to_time_ms, 0)))
        if wanted.of_group is not None:
            found = (await self._ask.committed([wanted.of_group])).get(wanted.of_group)
            if not found:
                await self._ask.group(wanted.of_group)  # refuses a group that does not exist
            return Target(offsets=found or {})
        if wanted.offsets is not None:
            return Target(offsets={(one.topic, one.partition): one.offset for one in wanted.offsets})
        return Target(
            wanted.to_earliest,
            wanted.to_latest,
            wanted.to_current,
            wanted.to_offset,
            wanted.shift_by,
            delete=wanted.delete,
        )


def _changed(group_id: str, members: Iterable[LeftMember | DrainedMember]) -> Json:
    """Return the result for each member."""
    return {
        "group_id": group_id,
        "members": [
            {"member_id": one.member_id, "error": one.error_code.name if one.error_code else None} for one in members
        ],
    }


def _decode(body: bytes, kind: type[Any]) -> Any:
    try:
        return msgspec.json.decode(body or b"{}", type=kind)
    except UnicodeDecodeError:  # its message contains the text, which may be a password
        raise Problem(_INVALID, "the body is no text in UTF-8") from None
    except msgspec.DecodeError as error:
        raise Problem(_INVALID, f"the body is not as it should be: {error}") from None


SURGERY_ROUTES: Final[tuple[HttpRoute, ...]] = (
    HttpRoute(
        "/v1/groups/{group}/offsets/plan",
        SurgeryPages.plan,
        "Plan a change of committed offsets; changes nothing.",
        schemas.PLAN,
        refusals=(404, 413),
        body=PlanRequest,
        method="POST",
    ),
    HttpRoute(
        "/v1/groups/{group}/offsets/apply",
        SurgeryPages.apply,
        "Do as planned, if the offsets are still as planned.",
        schemas.CHANGED,
        refusals=(404, 409, 413),
        body=ApplyRequest,
        method="POST",
    ),
    HttpRoute(
        "/v1/groups/{group}/evict",
        SurgeryPages.evict,
        "Remove members at once, as if they had left.",
        schemas.EVICTED,
        refusals=(404, 413),
        body=EvictRequest,
        method="POST",
    ),
    HttpRoute(
        "/v1/groups/{group}/hold",
        SurgeryPages.hold,
        "Let changes of members gather, so that they are one rebalance.",
        schemas.HELD,
        refusals=(404, 413),
        body=HoldRequest,
        method="POST",
    ),
    HttpRoute(
        "/v1/groups/{group}/drain",
        SurgeryPages.drain,
        "Have members read no more, commit, and leave for good.",
        schemas.DRAINED,
        refusals=(404, 413),
        body=DrainRequest,
        method="POST",
    ),
    HttpRoute(
        "/v1/undo/{id}",
        SurgeryPages.undo,
        "Undo a change of offsets.",
        schemas.CHANGED,
        refusals=(404, 409),
        method="POST",
    ),
)
