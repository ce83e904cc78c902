"""The topics of the cluster this node stands in front of: which there are, their ids, how many partitions, who leads
them. Where partitions end is kept beside (`ends.py`).

Nothing here waits. What is not known is asked for by whoever serves the request (`requests.py`); the answers, and what
the cluster told clients on their own connections, are learnt here.
"""

from collections.abc import Iterable

import msgspec

from coordinator.clock import Moment
from coordinator.config.keys import INT_MAX
from coordinator.gateway.brokers import Brokers
from coordinator.gateway.deleted_topics import DeletedTopics
from coordinator.gateway.log_ends import Ends
from coordinator.placement import Placement
from coordinator.topics.embedded import EmbeddedTopics
from coordinator.topics.registry import TopicIdSource
from coordinator.topics.rules import TopicSettings
from partition_log.store.log_store import LogStore
from protocol.errors import ErrorCode
from protocol.messages import Message
from protocol.messages.topics import (
    NO_TOPIC_ID,
    Metadata,
    MetadataPartitionReply,
    MetadataReply,
    MetadataTopic,
    MetadataTopicReply,
)

_MOST_MISSED = 10_000
"""Names of topics that were asked for and not found."""
_MISSED_FOR_MS = 1_000
"""How long such a one is not asked for again."""
_NEW_FOR_MS = 100
"""How long what the cluster told of a topic is new enough for who wants to read there."""
_LISTED_FOR_MS = 1_000
"""And its list of all topics, which is longer."""
_UNKNOWN, _NOT_SAID = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_SERVER_ERROR


class UpstreamTopics(EmbeddedTopics):
    """None of the topics is embedded: what makes, changes or reads them is refused before it comes here."""

    def __init__(
        self,
        store: LogStore,
        settings: TopicSettings,
        ids: TopicIdSource,
        placement: Placement,
        brokers: Brokers,
        gone: DeletedTopics,
    ) -> None:
        super().__init__(store, settings, ids, placement)
        self.brokers = brokers
        self.gone = gone
        self.made: dict[str, int] = {}
        """Until when a topic is there although a broker has not heard of it: it was made by our hand."""
        self._asked: dict[str | bytes, int] = {}
        self._known: dict[str, MetadataTopicReply] = {}
        self._names: dict[bytes, str] = {}
        self._missed: dict[str | bytes, int] = {}
        self.ends = Ends()
        self.is_unanswered = False
        """Whether the cluster, though it seems to be there, did not answer when it was asked for topics last."""
        self.listed_ms: int | None = None
        """When all topics were last listed."""

    # ------------------------------------------------------------------------------------------------------ learning

    def overhear(self, reply: MetadataReply | None) -> None:
        """What the cluster told a client; None: more than was read."""
        if reply is None:
            self.gone.unheard()
        else:
            self.learn(reply)

    def learn(self, reply: MetadataReply) -> None:
        """What the cluster told of some topics."""
        for topic in reply.topics:
            if topic.name and topic.partitions and not topic.error_code:
                self._note(topic.name, _in_order(topic))
            # Else it has no leader yet, or is not there, or not to be seen: who is told of it asks again.

    def _note(self, name: str, topic: MetadataTopicReply) -> None:
        before = self._known.get(name)
        if topic.topic_id == NO_TOPIC_ID:  # an old version tells no ids
            self.gone.unheard()
            if before is not None:
                topic = msgspec.structs.replace(topic, topic_id=before.topic_id)
        else:
            if before is not None and before.topic_id == topic.topic_id:
                topic = _no_older(topic, before)
            elif before is not None:
                self._names.pop(before.topic_id, None)
                self.ends.forget(name)
                self.gone.missed(name, before.topic_id)
            self.gone.told_of(name, topic.topic_id)
            self._names[topic.topic_id] = name
        self._known[name] = topic

    def learn_all(self, reply: MetadataReply, now_ms: int) -> None:
        """What the cluster told when it was asked for every topic: there are no others."""
        there = {topic.name for topic in reply.topics}
        for name in [name for name in self._known if name not in there]:
            self._forget(name)
        self.learn(reply)
        self.gone.in_cluster(reply.cluster_id)
        self.gone.keep(self._names)
        self.gone.listed()
        self.listed_ms = now_ms

    def _forget(self, name: str) -> None:
        gone = self._known.pop(name, None)
        if gone is not None:
            self._names.pop(gone.topic_id, None)
            self.ends.forget(name)
            self.gone.missed(name, gone.topic_id)

    def hear(self, answers: Iterable[tuple[Message, Message | None]], now_ms: int) -> None:
        """What the cluster answered to questions for topics; None: nothing in time."""
        self.is_unanswered = False
        for asked, answer in answers:
            assert isinstance(asked, Metadata)
            if isinstance(answer, MetadataReply):
                self.learn_asked(asked, answer, now_ms)
            else:
                self.is_unanswered = True

    def learn_asked(self, asked: Metadata, reply: MetadataReply, now_ms: int) -> None:
        """What the cluster told when it was asked for these topics: what it had no more to tell of than is known is not
        asked for again at once."""
        if asked.topics is None:
            self.learn_all(reply, now_ms)
            return
        for told in reply.topics:
            if told.name and told.error_code == _UNKNOWN:
                self._forget(told.name)
        untold = {topic.name or topic.topic_id for topic in reply.topics if topic.error_code == _NOT_SAID}
        wanted = {topic.name or topic.topic_id: self._count(topic) for topic in asked.topics}
        self.learn(reply)
        if len(self._missed) > _MOST_MISSED:
            self._missed.clear()
        for topic in asked.topics:
            key = topic.name or topic.topic_id
            if self._count(topic) == wanted[key] and key not in untold:
                self._missed[key] = now_ms + _MISSED_FOR_MS

    def _count(self, topic: MetadataTopic) -> int:
        known = self._known.get(topic.name or self._names.get(topic.topic_id, ""))
        return 0 if known is None else len(known.partitions)

    def to_ask(self, places: Iterable[tuple[str, bytes, int]], now_ms: int) -> tuple[Metadata, ...]:
        """What to ask the cluster for before a request can be served that names these topics, by name or id, with their
        highest partition; nothing if all are known, or were asked for just now, or nobody can be asked."""
        if not self.brokers.is_reachable:
            return ()
        wanted = {}
        for name, topic_id, partition in places:
            topic = MetadataTopic(name or None, topic_id)
            if partition >= self._count(topic) and self._missed.get(name or topic_id, -1) < now_ms:
                wanted[name or topic_id] = topic
        return _questions(wanted.values())

    def news_of(self, message: Metadata, now_ms: int) -> tuple[Metadata, ...]:
        """What to ask the cluster for before somebody is told where to read: leaders move, and topics come and go.
        Nothing if that was asked just now, or nobody can be asked."""
        if not self.brokers.is_reachable:
            return ()
        if message.topics is None:
            is_new = self.listed_ms is not None and now_ms - self.listed_ms < _LISTED_FOR_MS
            return () if is_new else (Metadata(None),)
        if len(self._asked) > _MOST_MISSED:
            self._asked.clear()
        wanted = []
        for topic in dict.fromkeys(message.topics):
            key = topic.name or topic.topic_id
            if now_ms - self._asked.get(key, -_NEW_FOR_MS) >= _NEW_FOR_MS:
                self._asked[key] = now_ms
                wanted.append(topic)
        return _questions(wanted)

    # ------------------------------------------------------------------------------------------------ what there is

    @property
    def topic_count(self) -> int:
        return len(self._known)

    def partition_count(self, name: str) -> int | None:
        """As many as can be, of a topic nobody has heard of while nobody can be asked: who has read it knows better.
        But it must have a name: what is committed for an id alone would never be found again."""
        known = self._known.get(name)
        if known is not None:
            return len(known.partitions)
        is_answered = self.brokers.is_reachable and not self.is_unanswered
        return None if is_answered or not name else INT_MAX

    def name_of(self, topic_id: bytes) -> str | None:
        return self._names.get(topic_id)

    def id_of(self, name: str) -> bytes | None:
        known = self._known.get(name)
        return None if known is None else known.topic_id

    def leader_of(self, name: str, partition: int) -> int | None:
        """The broker that leads the partition; None if nobody does, or it is not known."""
        known = self._known.get(name)
        if known is None or not 0 <= partition < len(known.partitions):
            return None
        part = known.partitions[partition]
        return part.leader_id if part.leader_id >= 0 and part.partition_index == partition else None

    def metadata(self, message: Metadata, moment: Moment) -> tuple[MetadataTopicReply, ...]:
        if message.topics is None:
            return tuple(self._known[name] for name in sorted(self._known))
        return tuple(self._describe(topic) for topic in dict.fromkeys(message.topics))

    def _describe(self, wanted: MetadataTopic) -> MetadataTopicReply:
        name = self._names.get(wanted.topic_id) if wanted.name is None else wanted.name
        if name is None:
            return MetadataTopicReply(None, wanted.topic_id, ErrorCode.UNKNOWN_TOPIC_ID)
        return self._known.get(name) or MetadataTopicReply(name, error_code=_UNKNOWN)


def _questions(topics: Iterable[MetadataTopic]) -> tuple[Metadata, ...]:
    """One for names and one for ids: asked for both, a broker looks at ids alone. Asked for what has neither, it tells
    of nothing else either."""
    named, by_id = list[MetadataTopic](), list[MetadataTopic]()
    for topic in topics:
        if topic.name:
            named.append(MetadataTopic(topic.name))
        elif topic.topic_id.strip(b"\0"):
            by_id.append(topic)
    return tuple(Metadata(tuple(some)) for some in (named, by_id) if some)


def _no_older(topic: MetadataTopicReply, before: MetadataTopicReply) -> MetadataTopicReply:
    """What a broker that is behind tells of a topic takes back nothing: leaders have epochs, partitions are not
    removed."""
    told = {part.partition_index: part for part in topic.partitions}
    newer = [part for part in before.partitions if _is_behind(told.get(part.partition_index), part)]
    if not newer:
        return topic
    told.update((part.partition_index, part) for part in newer)
    return msgspec.structs.replace(topic, partitions=tuple(told[number] for number in sorted(told)))


def _is_behind(told: MetadataPartitionReply | None, before: MetadataPartitionReply) -> bool:
    return told is None or told.leader_epoch < before.leader_epoch


def _in_order(topic: MetadataTopicReply) -> MetadataTopicReply:
    """Brokers tell of partitions in any order; each is found where its number says, as long as none is missing."""
    if all(part.partition_index == number for number, part in enumerate(topic.partitions)):
        return topic
    partitions = sorted(topic.partitions, key=lambda part: part.partition_index)
    return msgspec.structs.replace(topic, partitions=tuple(partitions))
