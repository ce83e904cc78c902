"""Pages about client-balanced groups (docs/spec/client-balanced-groups.md#15.3). Unknown numbers are null, never 0."""

from collections.abc import Mapping
from typing import Final

from coordinator.http.group_facts import group_page
from coordinator.http.lag.partitions import PartitionLag, commit_age_ms, longest_ms
from coordinator.http.lag.timed import TimedLags
from coordinator.http.queries import NO_SUCH_GROUP, Problem, Queries, problem_of
from coordinator.http.routing import schemas
from coordinator.http.routing.route import PAGE_SIZE, HttpRoute, Names, Parameter
from coordinator.http.shapes import Json, seconds
from diagnosis.assignments import Key
from diagnosis.gathering import Commit
from protocol.errors import ErrorCode
from protocol.messages.balanced import CLIENT_BALANCED, BalancedGroupView, BalancedMemberView, BalancedPartition
from protocol.partition_key import parse_key

CLIENT: Final = "client"
SERVER: Final = "server"
_FAR_BEHIND, _BEHIND = 1_000_000, 100_000
_NO_SUCH_PARTITION: Final = 40403
_CONFLICT: Final = 409


class BalancedPages:
    """Each method is a page: (origin, names in the path, query)."""

    def __init__(self, queries: Queries, timed_lags: TimedLags) -> None:
        self._ask, self._timed_lags = queries, timed_lags

    async def groups(self, origin: str, names: Names, query: Names) -> Json:
        """Ids of groups: all, of a kind, in a state, or with a text in their id; in pages if pages are asked for."""
        mode, part, states = query.get("mode"), query.get("q", ""), query.get("state")
        found = [
            one.group_id
            for one in await self._ask.groups()
            if mode in (None, CLIENT if one.group_type == CLIENT_BALANCED else SERVER)
            and part in one.group_id
            and states in (None, one.group_state)
        ]
        if query.get("sort") == "-group":
            found.reverse()
        if "page_size" not in query and "page_token" not in query:
            return {"groups": found}
        if (after := query.get("page_token")) is not None:
            found = [one for one in found if (one < after if query.get("sort") == "-group" else one > after)]
        size = PAGE_SIZE.number(query)
        return {"groups": found[:size], "next_page_token": found[size - 1] if len(found) > size else None}

    async def group(self, origin: str, names: Names, query: Names) -> Json:
        """One group; of a server-balanced one the phase and its members' facts."""
        view = await self._ask.balanced_group(names["group"])
        if view is None:
            return await self._classic(names["group"])
        partitions, times = {one.key: one for one in view.partitions}, await self._times(view)
        return {
            "group": view.group_id,
            "mode": view.mode,
            "state": view.state,
            "topics": view.topics,
            "filters": view.filters,
            "source_count": view.source_count,
            "meta_version": view.meta_version,
            "member_count": len(view.members),
            "members": [_member(one, partitions, times) for one in view.members],
        }

    async def _classic(self, group_id: str) -> Json:
        group = await self._ask.group(group_id, with_facts=True)
        page = group_page(group)
        return {
            **page,
            "group": group.group_id,
            "mode": SERVER,
            "state": group.group_state,
            "member_count": len(group.members),
            "members": [
                {"consumer_id": one["member_id"], "host": one["client_host"], **one} for one in page["members"]
            ],
        }

    async def partitions(self, origin: str, names: Names, query: Names) -> Json:
        """Every configured partition, unowned ones included."""
        view = await self._view(names)
        times = await self._times(view)
        return {"group": view.group_id, "partitions": [_partition(one, times.get(one.key)) for one in view.partitions]}

    async def partition(self, origin: str, names: Names, query: Names) -> Json:
        view = await self._view(names)
        for one in view.partitions:
            if one.key == names["key"]:
                return _partition(one, (await self._times(view)).get(one.key))
        raise Problem(_NO_SUCH_PARTITION, f"{view.group_id!r} reads no partition {names['key'][:80]!r}")

    async def lag(self, origin: str, names: Names, query: Names) -> Json:
        """Records behind the committed offsets: in total, of unowned partitions, by node and by topic; and the largest
        lag in time."""
        view = await self._view(names)
        times = (await self._times(view)).values()
        by_node: dict[str, int] = {}
        by_topic: dict[str, int] = {}
        total = unowned = 0
        for one in view.partitions:
            lag, key = one.lag or 0, parse_key(one.key)
            total += lag
            unowned += lag if one.owner is None else 0
            if one.node_id is not None:
                by_node[str(one.node_id)] = by_node.get(str(one.node_id), 0) + lag
            if key is not None:
                by_topic[key.topic] = by_topic.get(key.topic, 0) + lag
        return {
            "total": total,
            "unowned": unowned,
            "by_node": by_node,
            "by_topic": by_topic,
            "max_lag_seconds": seconds(longest_ms(one.lag_ms for one in times)),
            "commit_age_seconds": seconds(commit_age_ms(times)),
        }

    async def readers(self, origin: str, names: Names, query: Names) -> Json:
        """Groups of either kind that read the topic: by subscription, assignment or commits."""
        topic = names["topic"]
        found = await self._ask.readers(topic)
        return {"topic": topic, "groups": [{"group": one, "member_count": found[one]} for one in sorted(found)]}

    async def consume_from_max(self, origin: str, names: Names, query: Names) -> Json:
        """Tell the members that are online to seek to the end of their partitions, once."""
        reply = await self._ask.consume_from_max(names["group"], query.get("actor", ""))
        for refused in reply.refused:
            if refused.error_code is ErrorCode.GROUP_ID_NOT_FOUND:
                raise Problem(NO_SUCH_GROUP, refused.error_message)
            if refused.error_code is ErrorCode.GROUP_AUTHORIZATION_FAILED:
                raise problem_of(refused.error_code)
            raise Problem(_CONFLICT, refused.error_message or refused.error_code.name)
        return {"group": names["group"], "from_max_id": reply.accepted[0].from_max_id}

    async def _view(self, names: Names) -> BalancedGroupView:
        view = await self._ask.balanced_group(names["group"])
        if view is None:
            raise Problem(NO_SUCH_GROUP, f"there is no client-balanced group {names['group']!r}")
        return view

    async def _times(self, view: BalancedGroupView) -> dict[str, PartitionLag]:
        """Return the partitions with lag in time and age of the commit, by key."""
        commits = (await self._ask.commits((view.group_id,), with_origins=False)).get(view.group_id, {})
        lines = {one.key: line for one in view.partitions if (line := _line(one, commits)) is not None}
        return dict(zip(lines, await self._timed_lags.timed(lines.values()), strict=True))


_GROUP: Final = "/v1/groups/{group}"
STATES: Final = (
    "Empty",
    "PreparingRebalance",
    "CompletingRebalance",
    "Stable",
    "Assigning",
    "Reconciling",
    "NotReady",
    "Dead",
)
CONTAINS: Final = Parameter("q", "A part of the group's id.")
STATE: Final = Parameter("state", "State of the group.", STATES)
_GROUPS: Final = (
    Parameter("mode", "Groups balanced by their members (client), or by the server.", (CLIENT, SERVER)),
    CONTAINS,
    STATE,
    Parameter("sort", "Sort key; `-` reverses the order.", ("group", "-group"), default="group"),
    PAGE_SIZE,
    Parameter("page_token", "The last group of the previous page."),
)

BALANCED_ROUTES: Final[tuple[HttpRoute, ...]] = (
    HttpRoute("/v1/groups", BalancedPages.groups, "Ids of groups.", schemas.GROUP_IDS, _GROUPS),
    HttpRoute(_GROUP, BalancedPages.group, "One group, with its members' facts.", schemas.GROUP, refusals=(404,)),
    HttpRoute(
        _GROUP + "/partitions",
        BalancedPages.partitions,
        "Configured partitions of a client-balanced group.",
        schemas.BALANCED_PARTITIONS,
        refusals=(404,),
    ),
    HttpRoute(
        _GROUP + "/partitions/{key}",
        BalancedPages.partition,
        "One of them.",
        schemas.BALANCED_PARTITION,
        refusals=(404,),
    ),
    HttpRoute(
        _GROUP + "/lag",
        BalancedPages.lag,
        "Lag of a client-balanced group, by node and by topic.",
        schemas.BALANCED_LAG,
        refusals=(404,),
    ),
    HttpRoute("/v1/topics/{topic}/groups", BalancedPages.readers, "Groups that read the topic.", schemas.READERS),
)
ORDERS: Final[tuple[HttpRoute, ...]] = (
    HttpRoute(
        _GROUP + "/consume-from-max",
        BalancedPages.consume_from_max,
        "Have the members seek to the end of their partitions.",
        schemas.FROM_MAX,
        (Parameter("actor", "Name of the operator: a remark for the journal."),),
        (404, 409),
        method="POST",
        status=202,
    ),
)
"""Orders are answered 202, since members carry them out later."""


def _line(one: BalancedPartition, commits: Mapping[Key, Commit]) -> PartitionLag | None:
    key = parse_key(one.key)
    if key is None:
        return None
    begin = None if one.lag is None or one.committed >= 0 else one.end - one.lag
    commit = commits.get((key.topic, key.partition))
    return PartitionLag(
        key.topic,
        key.partition,
        _known(one.committed),
        _known(one.end),
        log_start_offset=begin,
        committed_ms=None if commit is None else commit.at_ms,
    )


def _member(
    member: BalancedMemberView, partitions: Mapping[str, BalancedPartition], times: Mapping[str, PartitionLag]
) -> Json:
    positions = {one.key: one.position for one in member.reported or ()}
    return {
        "consumer_id": member.consumer_id,
        "instance_id": member.instance_id,
        "host": member.host.lstrip("/"),
        "node_id": member.node_id,
        "source_count": member.source_count,
        "member_epoch": member.member_epoch,
        "last_heartbeat_ms_ago": member.last_heartbeat_ms_ago,
        "partition_count": len(member.keys),
        "partitions": [
            {
                "key": key,
                "reg_epoch": partitions[key].reg_epoch,
                "position": _known(positions.get(key, -1)),
                "committed": _known(partitions[key].committed),
                "end": _known(partitions[key].end),
                "lag": partitions[key].lag,
                **_seconds(times.get(key)),
            }
            for key in member.keys
            if key in partitions
        ],
        "claimed_mismatch": member.claimed_mismatch,
    }


def _seconds(line: PartitionLag | None) -> Json:
    return {
        "lag_seconds": None if line is None else seconds(line.lag_ms),
        "commit_age_seconds": None if line is None else seconds(line.commit_age_ms),
    }


def _partition(one: BalancedPartition, line: PartitionLag | None) -> Json:
    return {
        "key": one.key,
        "subscribable": one.subscribable,
        "reason": one.reason,
        "owner": one.owner,
        "node_id": one.node_id,
        "reg_epoch": _known(one.reg_epoch),
        "since_ms": _known(one.since_ms),
        "committed": _known(one.committed),
        "in_flight": _known(one.in_flight),
        "end": _known(one.end),
        "lag": one.lag,
        "level": level(one.lag),
        **_seconds(line),
    }


def level(lag: int | None) -> int | None:
    """Return the severity of a lag: 2 above a million records, 1 above a hundred thousand, else 0
    (docs/spec/client-balanced-groups.md#14)."""
    if lag is None:
        return None
    return 2 if lag > _FAR_BEHIND else 1 if lag > _BEHIND else 0


def _known(number: int) -> int | None:
    return None if number < 0 else number
