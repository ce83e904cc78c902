"""Pages of topics under `/v3`, with Confluent REST v3's fields."""

from typing import Final
from urllib.parse import urlencode

from coordinator.http.queries import Problem, Queries
from coordinator.http.routing import confluent
from coordinator.http.routing.route import PAGE_SIZE, PAGE_TOKEN, PAGES, HttpRoute, Names, Parameter, whole_number
from coordinator.http.shapes import Json, Shapes
from protocol.messages.topics import MetadataPartitionReply, MetadataTopicReply

NO_SUCH_TOPIC: Final = 40403


class TopicPages:
    """Each method is a page: (origin, names in the path, query)."""

    def __init__(self, queries: Queries) -> None:
        self._ask = queries

    async def topics(self, origin: str, names: Names, query: Names) -> Json:
        """Topics by name, or by number of partitions."""
        shapes = await self._shapes(origin, names)
        part, order = query.get("q", ""), query.get("sort", "topic")
        found = [one for one in (await self._ask.topology(topics=True)).topics if part in (one.name or "")]
        found.sort(key=lambda one: one.name or "")
        if order.endswith("partitions"):
            found.sort(key=lambda one: len(one.partitions), reverse=order.startswith("-"))
        elif order == "-topic":
            found.reverse()
        size, start = PAGE_SIZE.number(query), PAGE_TOKEN.number(query)
        more = {**query, "page_size": size, "page_token": start + size}
        return shapes.topics(found[start : start + size], urlencode(more) if len(found) > start + size else None)

    async def topic(self, origin: str, names: Names, query: Names) -> Json:
        shapes = await self._shapes(origin, names)
        return shapes.topic(await self._topic(names["topic"]))

    async def partitions(self, origin: str, names: Names, query: Names) -> Json:
        shapes = await self._shapes(origin, names)
        topic = await self._topic(names["topic"])
        size, start = PAGE_SIZE.number(query), PAGE_TOKEN.number(query)
        found = await self._shown(shapes, names["topic"], topic.partitions[start : start + size])
        is_more = len(topic.partitions) > start + size
        more = urlencode({"page_size": size, "page_token": start + size}) if is_more else None
        return shapes.partitions(names["topic"], found, more)

    async def partition(self, origin: str, names: Names, query: Names) -> Json:
        shapes = await self._shapes(origin, names)
        number = whole_number(names["partition"], "a partition", most=2**31 - 1)
        topic = await self._topic(names["topic"])
        chosen = tuple(part for part in topic.partitions if part.partition_index == number)
        if not chosen:
            raise Problem(NO_SUCH_TOPIC, f"there is no partition {names['topic']}-{number}")
        return (await self._shown(shapes, names["topic"], chosen))[0]

    async def _shown(self, shapes: Shapes, topic: str, parts: tuple[MetadataPartitionReply, ...]) -> list[Json]:
        keys = [(topic, part.partition_index) for part in parts]
        begins, ends = await self._ask.begins(keys), await self._ask.ends(keys)
        return [
            shapes.partition(topic, part, begins.get(key), ends.get(key)) for part, key in zip(parts, keys, strict=True)
        ]

    async def _topic(self, name: str) -> MetadataTopicReply:
        topic = await self._ask.topic(name)
        if topic is None:
            raise Problem(NO_SUCH_TOPIC, f"there is no topic {name[:80]!r}")
        return topic

    async def _shapes(self, origin: str, names: Names) -> Shapes:
        return Shapes(origin, await self._ask.own_cluster(names["cluster"]))


_TOPICS: Final = "/v3/clusters/{cluster}/topics"
_SORT: Final = Parameter(
    "sort", "Sort key; `-` reverses the order.", ("topic", "-topic", "partitions", "-partitions"), default="topic"
)
TOPIC_ROUTES: Final[tuple[HttpRoute, ...]] = (
    HttpRoute(
        _TOPICS,
        TopicPages.topics,
        "Topics.",
        confluent.TOPICS,
        (Parameter("q", "A part of the topic's name."), _SORT, *PAGES),
        (404,),
    ),
    HttpRoute(_TOPICS + "/{topic}", TopicPages.topic, "One topic.", confluent.TOPIC, refusals=(404,)),
    HttpRoute(
        _TOPICS + "/{topic}/partitions",
        TopicPages.partitions,
        "Partitions of a topic, with start and end of their logs.",
        confluent.PARTITIONS,
        PAGES,
        (404,),
    ),
    HttpRoute(
        _TOPICS + "/{topic}/partitions/{partition}",
        TopicPages.partition,
        "One partition.",
        confluent.PARTITION,
        refusals=(404,),
    ),
)
