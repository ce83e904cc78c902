"""Pages under `/v3` and `/v1`. A page takes names from the path and the query, and returns a JSON object or raises
`Problem`."""

from collections.abc import Sequence
from typing import Final, TypeVar
from urllib.parse import parse_qs, urlencode

import msgspec

from coordinator.http.lag.partitions import PartitionLag
from coordinator.http.lag.timed import TimedLags
from coordinator.http.queries import NO_SUCH_GROUP, Problem, Queries
from coordinator.http.routing import confluent, schemas
from coordinator.http.routing.route import (
    BAD_PARAMETER,
    PAGE_SIZE,
    PAGE_TOKEN,
    PAGES,
    HttpRoute,
    Names,
    Parameter,
    whole,
    whole_number,
)
from coordinator.http.shapes import Json, Shapes, expiring
from coordinator.http.what_if import WhatIf
from diagnosis.assignments import Key, assigned_partitions
from diagnosis.facts import known_facts, note_facts
from membership.outlook import MOST_NEW, GroupChange, facts_of, parse_partitions
from protocol.messages.groups import DescribedGroup, DescribedMember
from protocol.messages.offsets import CommitOrigin, OffsetFetchPartitionReply, OffsetFetchTopicReply

T = TypeVar("T")
NO_SUCH_PARTITION: Final = 40403
MOST_NOTES_A_PAGE: Final = 1_000
_AFTER: Final = whole("after", "Notes with larger numbers; left out: the newest.", -1, default=-1)
_MORE: Final = whole("members", "Members to add; negative: to remove.", -MOST_NEW, MOST_NEW, 0)
_GROWN: Final = Parameter("partitions", "Partitions of topics, as orders=24,clicks=6.")
_ASSIGNOR: Final = Parameter("assignor", "Another assignor.")
_LIMIT: Final = whole("limit", "Notes at most.", 1, MOST_NOTES_A_PAGE, 100)


class Pages:
    """Each method is a page: (origin, names in the path, query)."""

    def __init__(self, queries: Queries, what_if: WhatIf, timed_lags: TimedLags) -> None:
        """`queries` sends requests to the node; `what_if` runs long computations in a thread."""
        self._ask, self._what_if, self._timed_lags = queries, what_if, timed_lags

    async def clusters(self, origin: str, names: Names, query: Names) -> Json:
        node = await self._ask.node()
        return Shapes(origin, node.cluster_id).clusters(node.node_id)

    async def cluster(self, origin: str, names: Names, query: Names) -> Json:
        shapes = await self._shapes(origin, names)
        return shapes.cluster((await self._ask.node()).node_id)

    async def brokers(self, origin: str, names: Names, query: Names) -> Json:
        shapes = await self._shapes(origin, names)
        return shapes.brokers((await self._ask.topology()).brokers)

    async def broker(self, origin: str, names: Names, query: Names) -> Json:
        shapes = await self._shapes(origin, names)
        for broker in (await self._ask.topology()).brokers:
            if str(broker.node_id) == names["broker"]:
                return shapes.broker(broker)
        raise Problem(404, f"there is no broker {names['broker']!r}")

    async def groups(self, origin: str, names: Names, query: Names) -> Json:
        """Groups by id, `page_size` at a time, after the group `page_token`. Groups deleted meanwhile are left out."""
        shapes = await self._shapes(origin, names)
        size = PAGE_SIZE.number(query)
        listed = [group.group_id for group in await self._ask.groups(query.get("page_token"), size + 1)]
        rest = listed[size:]
        described = await self._ask.describe(listed[:size])
        coordinators = await self._ask.coordinators(group.group_id for group in described)
        next_page = urlencode({"page_size": size, "page_token": listed[size - 1]}) if rest else None
        return shapes.groups(described, coordinators, next_page)

    async def group(self, origin: str, names: Names, query: Names) -> Json:
        shapes, group = await self._group(origin, names)
        return shapes.group(group, (await self._ask.coordinators((group.group_id,)))[group.group_id])

    async def consumers(self, origin: str, names: Names, query: Names) -> Json:
        shapes, group = await self._group(origin, names)
        return shapes.consumers(group.group_id, *_some(group.members, query))

    async def consumer(self, origin: str, names: Names, query: Names) -> Json:
        shapes, group = await self._group(origin, names)
        return shapes.consumer(group.group_id, _member(group, names))

    async def assignments(self, origin: str, names: Names, query: Names) -> Json:
        shapes, group = await self._group(origin, names)
        member = _member(group, names)
        return shapes.assignments(group.group_id, member.member_id, *_some(assigned_partitions(group, member), query))

    async def assignment(self, origin: str, names: Names, query: Names) -> Json:
        shapes, group = await self._group(origin, names)
        member = _member(group, names)
        key = (names["topic"], _partition(names))
        if key not in assigned_partitions(group, member):
            raise Problem(NO_SUCH_PARTITION, f"{key[0]}-{key[1]} is not assigned to {member.member_id!r}")
        return shapes.assignment(group.group_id, member.member_id, *key)

    async def lags(self, origin: str, names: Names, query: Names) -> Json:
        shapes, group, lines = await self._lags(origin, names)
        return shapes.lags(group.group_id, *_some(lines, query))

    async def lag(self, origin: str, names: Names, query: Names) -> Json:
        key = (names["topic"], _partition(names))
        shapes, group, lines = await self._lags(origin, names)
        for line in lines:
            if (line.topic, line.partition) == key:
                return shapes.lag(group.group_id, line)
        raise Problem(NO_SUCH_PARTITION, f"{group.group_id!r} reads no partition {key[0]}-{key[1]}")

    async def lag_summary(self, origin: str, names: Names, query: Names) -> Json:
        shapes, group, lines = await self._lags(origin, names)
        return shapes.lag_summary(group.group_id, lines)

    async def notes(self, origin: str, names: Names, query: Names) -> Json:
        """The group's journal: reasons of its rebalances. Without `after` the newest `limit` notes; a deleted group may
        still have some."""
        after, limit = _AFTER.number(query), _LIMIT.number(query)
        group_id = names["group"]
        notes = (await self._ask.notes(group_id, after, limit)).notes
        if not notes and after < 0:
            await self._ask.group(group_id)  # raises Problem if there is no such group
        last = notes[-1].number if notes else after
        return {"group_id": group_id, "notes": [note_facts(note) for note in notes], "next_after": last}

    async def what_if(self, origin: str, names: Names, query: Names) -> Json:
        """The assignment that would follow a change of the group, and what would move. Changes nothing."""
        try:
            change = GroupChange(_MORE.number(query), parse_partitions(_GROWN.text(query)), _ASSIGNOR.text(query))
        except ValueError as error:
            raise Problem(BAD_PARAMETER, str(error)) from None
        return facts_of(names["group"], await self._what_if.outlook(names["group"], change))

    async def expiring(self, origin: str, names: Names, query: Names) -> Json:
        """Expiry of committed offsets, or the reason why they are kept; `page_token` names the last page's last
        partition."""
        after = _place(query["page_token"]) if "page_token" in query else None
        reply = await self._ask.expiring(names["group"], PAGE_SIZE.number(query), after)
        return expiring(names["group"], reply)

    async def offsets(self, origin: str, names: Names, query: Names) -> Json:
        """Committed offsets, each with its time, its sender and the offset before; null where that is not known."""
        lines = [
            _commit(topic, part, {one.partition_index: one for one in topic.origins}.get(part.partition_index))
            for topic in (await self._ask.offsets(names["group"])).topics
            for part in topic.partitions
            if not part.error_code and part.committed_offset >= 0
        ]
        items, more = _some(sorted(lines, key=lambda one: (one["topic"], one["partition"])), query)
        return {"group_id": names["group"], "offsets": items, "next_page_token": _token(more)}

    async def ownership(self, origin: str, names: Names, query: Names) -> Json:
        """Owners of partitions, with the epoch of each grant."""
        items, more = _some(await self._ask.ownership(names["group"]), query)
        return {
            "group_id": names["group"],
            "partitions": [msgspec.to_builtins(item) for item in items],
            "next_page_token": _token(more),
        }

    async def _shapes(self, origin: str, names: Names) -> Shapes:
        return Shapes(origin, await self._ask.own_cluster(names["cluster"]))

    async def _group(self, origin: str, names: Names) -> tuple[Shapes, DescribedGroup]:
        return await self._shapes(origin, names), await self._ask.group(names["group"])

    async def _lags(self, origin: str, names: Names) -> tuple[Shapes, DescribedGroup, list[PartitionLag]]:
        group = await self._ask.group(names["group"], with_facts=True)  # they say what is yet to be revoked
        return await self._shapes(origin, names), group, await self._timed_lags.of(group)


_GROUPS: Final = "/v3/clusters/{cluster}/consumer-groups"
_GROUP: Final = _GROUPS + "/{group}"
_CONSUMER: Final = _GROUP + "/consumers/{consumer}"
_ASSIGNMENTS: Final = _CONSUMER + "/assignments"
_AFTER_GROUP: Final = Parameter("page_token", "The last group of the previous page.")
_AFTER_PLACE: Final = Parameter("page_token", "TOPIC-PARTITION, the last of the previous page.")

ROUTES: Final[tuple[HttpRoute, ...]] = (
    HttpRoute("/v3/clusters", Pages.clusters, "The cluster, in a list.", confluent.CLUSTERS),
    HttpRoute("/v3/clusters/{cluster}", Pages.cluster, "The cluster.", confluent.CLUSTER, refusals=(404,)),
    HttpRoute("/v3/clusters/{cluster}/brokers", Pages.brokers, "Its nodes.", confluent.BROKERS, refusals=(404,)),
    HttpRoute("/v3/clusters/{cluster}/brokers/{broker}", Pages.broker, "One node.", confluent.BROKER, refusals=(404,)),
    HttpRoute(_GROUPS, Pages.groups, "Groups, by id.", confluent.GROUPS, (PAGE_SIZE, _AFTER_GROUP), (404,)),
    HttpRoute(_GROUP, Pages.group, "One group.", confluent.GROUP, refusals=(404,)),
    HttpRoute(_GROUP + "/consumers", Pages.consumers, "Members of a group.", confluent.CONSUMERS, PAGES, (404,)),
    HttpRoute(_CONSUMER, Pages.consumer, "One member.", confluent.CONSUMER, refusals=(404,)),
    HttpRoute(_ASSIGNMENTS, Pages.assignments, "Partitions of a member.", confluent.ASSIGNMENTS, PAGES, (404,)),
    HttpRoute(
        _ASSIGNMENTS + "/{topic}/partitions/{partition}",
        Pages.assignment,
        "One partition of a member.",
        confluent.ASSIGNMENT,
        refusals=(404,),
    ),
    HttpRoute(_GROUP + "/lags", Pages.lags, "Offsets and lag of a group, by partition.", confluent.LAGS, PAGES, (404,)),
    HttpRoute(
        _GROUP + "/lags/{topic}/partitions/{partition}",
        Pages.lag,
        "Offset and lag of a group in one partition.",
        confluent.LAG,
        refusals=(404,),
    ),
    HttpRoute(
        _GROUP + "/lag-summary",
        Pages.lag_summary,
        "Lag of a group, and where it is largest.",
        confluent.LAG_SUMMARY,
        refusals=(404,),
    ),
    HttpRoute(
        "/v1/groups/{group}/notes",
        Pages.notes,
        "The group's journal: why it rebalanced, and who changed it.",
        schemas.NOTES,
        (_AFTER, _LIMIT),
        (404,),
    ),
    HttpRoute(
        "/v1/groups/{group}/what-if",
        Pages.what_if,
        "The assignment that would follow a change, and what would move.",
        schemas.WHAT_IF,
        (_MORE, _GROWN, _ASSIGNOR),
        (404,),
    ),
    HttpRoute(
        "/v1/groups/{group}/expiring",
        Pages.expiring,
        "When committed offsets expire, or why they are kept.",
        schemas.EXPIRING,
        (PAGE_SIZE, _AFTER_PLACE),
        (404,),
    ),
    HttpRoute(
        "/v1/groups/{group}/offsets",
        Pages.offsets,
        "Committed offsets, with time, sender and previous offset.",
        schemas.COMMITS,
        PAGES,
        (404,),
    ),
    HttpRoute(
        "/v1/groups/{group}/ownership",
        Pages.ownership,
        "Owners of partitions, with the epoch of each grant.",
        schemas.OWNERSHIP,
        PAGES,
        (404,),
    ),
)


_NOT_OF_THE_SENDER: Final = ("partition_index", "previous_offset", "repeated_since_ms")


def _token(more: str | None) -> str | None:
    return None if more is None else parse_qs(more)["page_token"][0]


def _commit(topic: OffsetFetchTopicReply, part: OffsetFetchPartitionReply, origin: CommitOrigin | None) -> Json:
    sender = None if origin is None else known_facts(origin, without=_NOT_OF_THE_SENDER)
    return {
        "topic": topic.name,
        "partition": part.partition_index,
        "offset": part.committed_offset,
        "metadata": part.metadata,
        "committed_ms": part.commit_timestamp_ms if part.commit_timestamp_ms >= 0 else None,
        "previous_offset": None if origin is None or origin.previous_offset < 0 else origin.previous_offset,
        "repeated_since_ms": None if origin is None or origin.repeated_since_ms < 0 else origin.repeated_since_ms,
        "committed_by": sender,
    }


def _member(group: DescribedGroup, names: Names) -> DescribedMember:
    for member in group.members:
        if member.member_id == names["consumer"]:
            return member
    raise Problem(NO_SUCH_GROUP, f"{group.group_id!r} has no consumer {names['consumer']!r}")


def _some(items: Sequence[T], query: Names) -> tuple[Sequence[T], str | None]:
    """Return the items of the page and the query of the next one. A token is the number of items before the page."""
    size, start = PAGE_SIZE.number(query), PAGE_TOKEN.number(query)
    end = start + size
    rest = len(items) > end
    return items[start:end], urlencode({"page_size": size, "page_token": end}) if rest else None


def _place(token: str) -> Key:
    topic, dash, partition = token.rpartition("-")
    if not topic or not dash:
        raise Problem(BAD_PARAMETER, f"page_token must be TOPIC-PARTITION, not {token[:40]!r}")
    return topic, whole_number(partition, "the partition of page_token", most=2**31 - 1)


def _partition(names: Names) -> int:
    return whole_number(names["partition"], "a partition", most=2**31 - 1)
