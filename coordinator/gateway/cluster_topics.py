"""Topics of the cluster behind a gateway: their names, ids, partitions and leaders, as the cluster last described them.

Nothing here waits or sends. The gateway requests missing topics from the cluster, and passes in the replies, together
with the cluster's replies to clients on their own connections. Ends of partitions are kept apart (`log_ends.py`).
"""

from collections.abc import Callable, Iterable, Mapping

import msgspec

from coordinator.clock import Moment
from coordinator.config.keys import INT_MAX
from coordinator.gateway.brokers import Brokers
from coordinator.gateway.deleted_topics import DeletedTopics
from coordinator.gateway.offsets.log_ends import Ends
from coordinator.groups.consumer.topics import TopicOfGroup
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

_MOST_ABSENT = 10_000
"""Largest number of names and ids kept that were requested, or requested and not found."""
_ABSENT_FOR_MS = 1_000
"""Time for which an absent topic is not requested again."""
_NEW_FOR_MS = 100
"""Age up to which the description of a topic is new enough for a client that is about to read the topic."""
_LISTED_FOR_MS = 1_000
"""Age up to which the list of all topics is new enough; larger, since the list is longer."""
_UNKNOWN, _UNANSWERED = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_SERVER_ERROR

RequestedPartition = tuple[str, bytes, int]
"""A topic by name, or by id where that is empty, and a partition of it."""


class ClusterTopicImage:
    """View of the topics with an id, for consumer groups.

    An absent topic stays until all brokers have denied it: a list omits topics that the requester may not describe, and
    one broker may be behind. Else a lost ACL would revoke the partitions of all members.
    """

    __slots__ = ("_absent", "_by_name", "_names", "is_known", "version")

    def __init__(self) -> None:
        self.is_known = False
        """True once the cluster has listed its topics."""
        self.version = 0
        """Number of changes so far."""
        self._by_name: dict[str, TopicOfGroup] = {}
        self._names: dict[bytes, str] = {}
        self._absent: dict[str, TopicOfGroup] = {}

    def put(self, topic_id: bytes, name: str, partitions: int) -> None:
        """Store a topic that exists. An earlier topic with the name is deleted."""
        if topic_id == NO_TOPIC_ID:
            return  # brokers before Apache Kafka 2.8 have no ids, and assignments name topics by id
        topic = TopicOfGroup(topic_id, name, partitions)
        self._absent.pop(name, None)
        before = self._by_name.get(name)
        if before == topic:
            return
        if before is not None:
            self._names.pop(before.topic_id, None)
        self._by_name[name] = topic
        self._names[topic_id] = name
        self.version += 1

    def miss(self, name: str) -> None:
        """Note that the topic was not found. It stays until `drop_absent`."""
        topic = self._by_name.get(name)
        if topic is not None:
            self._absent[name] = topic

    @property
    def absent(self) -> Iterable[TopicOfGroup]:
        """Topics of the image that were not found, and not denied either."""
        return self._absent.values()

    def drop_absent(self, is_gone: Callable[[TopicOfGroup], bool]) -> None:
        """Drop the absent topics that are deleted."""
        for topic in [one for one in self._absent.values() if is_gone(one)]:
            del self._absent[topic.name], self._by_name[topic.name], self._names[topic.topic_id]
            self.version += 1

    # -------------------------------------------------------------------------------------------------- what groups see

    def find(self, name: str) -> TopicOfGroup | None:
        """Return the topic of the name, if it exists."""
        return self._by_name.get(name)

    def name_of(self, topic_id: bytes) -> str | None:
        """Return the name of the topic, if it exists."""
        return self._names.get(topic_id)

    def names(self) -> Iterable[str]:
        """Return the names of all topics."""
        return self._by_name.keys()


class UpstreamTopics:
    """Topics of the cluster: an implementation of `Topics` that has no records, and creates and changes nothing."""

    position = 0

    def __init__(self, brokers: Brokers, deleted: DeletedTopics) -> None:
        self.brokers = brokers
        self.deleted = deleted
        self.ends = Ends()
        self.image = ClusterTopicImage()
        self.made: dict[str, int] = {}
        """Topics created through this node, and until when they count as existing if a broker does not know them."""
        self.is_unanswered = False
        """True if the cluster, though reachable, did not answer the last request for topics."""
        self.listed_ms: int | None = None
        """Time of the last list of all topics."""
        self._known: dict[str, MetadataTopicReply] = {}
        self._names: dict[bytes, str] = {}
        self._unconfirmed: set[str] = set()
        """Names in replies to clients that had no ids, or were too long to be read, since the last reply with their
        id."""
        self._asked: dict[str | bytes, int] = {}
        self._absent: dict[str | bytes, int] = {}

    # --------------------------------------------------------------------------------------------------------- learning

    def observe(self, reply: MetadataReply | None, now_ms: int) -> None:
        """Store a reply to a client; None: it was too long to be read. Without ids it does not show whether a topic is
        the one known under its name."""
        if reply is None:
            self._unconfirmed.update(self._known)
            return
        self.learn(reply, now_ms)
        self._unconfirmed.update(
            topic.name for topic in reply.topics if topic.topic_id == NO_TOPIC_ID and topic.name in self._known
        )

    def learn(self, reply: MetadataReply, now_ms: int) -> None:
        """Store descriptions of topics."""
        for topic in reply.topics:
            if topic.name and topic.partitions and not topic.error_code:
                self._learn(topic.name, _in_order(topic), now_ms)
            # Else the topic has no leader yet, does not exist, or may not be described: the client retries.

    def _learn(self, name: str, topic: MetadataTopicReply, now_ms: int) -> None:
        before = self._known.get(name)
        before_id = NO_TOPIC_ID if before is None else before.topic_id
        if topic.topic_id == NO_TOPIC_ID:  # an old version has no ids
            topic = msgspec.structs.replace(topic, topic_id=before_id)
        else:
            if before is not None and before_id == topic.topic_id:
                topic = _no_older(topic, before)
            elif before_id != NO_TOPIC_ID:
                if topic.topic_id in self.deleted:
                    return  # this topic was replaced, and the broker is behind
                self._forget(name, now_ms)
            self.deleted.found(topic.topic_id)
            self._names[topic.topic_id] = name
        self._known[name] = topic
        self._unconfirmed.discard(name)
        self.image.put(topic.topic_id, name, len(topic.partitions))

    def learn_all(self, reply: MetadataReply, now_ms: int) -> None:
        """Store the list of all topics: there are no others."""
        listed = {topic.name for topic in reply.topics}
        for name in [name for name in self._known if name not in listed]:
            self._forget(name, now_ms)
        self.learn(reply, now_ms)
        if self.deleted.in_cluster(reply.cluster_id):
            self.image.drop_absent(lambda _topic: True)
        for topic in self.image.absent:
            self.deleted.watch(topic.name, topic.topic_id, now_ms)
        self.image.is_known = True
        self.listed_ms = now_ms

    def _forget(self, name: str, now_ms: int) -> None:
        topic = self._known.pop(name, None)
        if topic is not None:
            self._names.pop(topic.topic_id, None)
            self._unconfirmed.discard(name)
            self.ends.forget(name)
            self.image.miss(name)
            if topic.topic_id != NO_TOPIC_ID:
                self.deleted.watch(name, topic.topic_id, now_ms)

    def on_answers(self, answers: Iterable[tuple[Message, Message | None]], now_ms: int) -> None:
        """Store the cluster's replies to requests for topics; None: no reply in time."""
        self.is_unanswered = False
        for asked, answer in answers:
            assert isinstance(asked, Metadata)
            if isinstance(answer, MetadataReply):
                self.learn_asked(asked, answer, now_ms)
            else:
                self.is_unanswered = True

    def learn_asked(self, asked: Metadata, reply: MetadataReply, now_ms: int) -> None:
        """Store the reply to a request for these topics. A topic about which it has nothing new is not requested again
        at once."""
        if asked.topics is None:
            self.learn_all(reply, now_ms)
            return
        for told in reply.topics:
            if told.name and told.error_code == _UNKNOWN:
                self._forget(told.name, now_ms)
        unanswered = {topic.name or topic.topic_id for topic in reply.topics if topic.error_code == _UNANSWERED}
        counts = {topic.name or topic.topic_id: self._count(topic) for topic in asked.topics}
        self.learn(reply, now_ms)
        if len(self._absent) > _MOST_ABSENT:
            self._absent.clear()
        for topic in asked.topics:
            key = topic.name or topic.topic_id
            if self._count(topic) == counts[key] and key not in unanswered:
                self._absent[key] = now_ms + _ABSENT_FOR_MS

    def _count(self, topic: MetadataTopic) -> int:
        known = self._known.get(topic.name or self._names.get(topic.topic_id, ""))
        return 0 if known is None else len(known.partitions)

    def to_ask(
        self, partitions: Iterable[RequestedPartition], now_ms: int, *, needs_ids: bool = False
    ) -> tuple[Metadata, ...]:
        """Return the requests to the cluster without which a request for these partitions cannot be served: for unknown
        partitions, and for unconfirmed ids if it `needs_ids`. Topics requested just now are omitted; while no broker
        can be reached, all are."""
        if not self.brokers.is_reachable:
            return ()
        needs_ids = needs_ids and not self.is_unanswered
        wanted = {}
        for name, topic_id, partition in partitions:
            topic = MetadataTopic(name or None, topic_id)
            is_absent = partition >= self._count(topic) and self._absent.get(name or topic_id, -1) < now_ms
            if is_absent or (needs_ids and (name or self._names.get(topic_id)) in self._unconfirmed):
                wanted[name or topic_id] = topic
        return _metadata_requests(wanted.values())

    def news_of(self, message: Metadata, now_ms: int) -> tuple[Metadata, ...]:
        """Return the requests to the cluster that prevent sending a client to an old leader: none if the last reply is
        new enough, or if no broker can be reached."""
        if not self.brokers.is_reachable:
            return ()
        if message.topics is None:
            is_new = self.listed_ms is not None and now_ms - self.listed_ms < _LISTED_FOR_MS
            return () if is_new else (Metadata(None),)
        if len(self._asked) > _MOST_ABSENT:
            self._asked.clear()
        wanted = []
        for topic in dict.fromkeys(message.topics):
            key = topic.name or topic.topic_id
            if now_ms - self._asked.get(key, -_NEW_FOR_MS) >= _NEW_FOR_MS:
                self._asked[key] = now_ms
                wanted.append(topic)
        return _metadata_requests(wanted)

    def outdate(self, names: Iterable[str]) -> None:
        """Ask the cluster again before the next Metadata: a request of a client has just changed these topics."""
        self.listed_ms = None
        for name in names:
            self._asked.pop(name, None)

    def watch_absent(self, stored: Iterable[Mapping[bytes, str]], now_ms: int) -> None:
        """Watch topics for which offsets are stored and that the last list lacks; `stored` are names by id."""
        self.deleted.compare(stored, self._names.keys(), now_ms)

    # ------------------------------------------------------------------------------------------------------- the topics

    @property
    def topic_count(self) -> int:
        """Number of topics."""
        return len(self._known)

    def partition_count(self, name: str) -> int | None:
        """Number of the topic's partitions; None if there is no such topic. While the cluster does not answer, an
        unknown topic has the largest possible number, since its client has read it. A topic without a name counts as
        absent, since an offset stored only by id would never be found again."""
        known = self._known.get(name)
        if known is not None:
            return len(known.partitions)
        is_answered = self.brokers.is_reachable and not self.is_unanswered
        return None if is_answered or not name else INT_MAX

    def name_of(self, topic_id: bytes) -> str | None:
        """Name of the topic with the id; None if no topic has it."""
        return self._names.get(topic_id)

    def id_of(self, name: str) -> bytes | None:
        """Id of the topic; None if there is no such topic."""
        known = self._known.get(name)
        return None if known is None else known.topic_id

    def id_to_record(self, name: str) -> bytes:
        """Id of the topic; none if it is unknown, or a client may know another topic with the name."""
        known = self._known.get(name)
        return NO_TOPIC_ID if known is None or name in self._unconfirmed else known.topic_id

    def may_own(self, name: str, topic_id: bytes) -> bool:
        """Return false if the topic that has the name now is another one."""
        known = self._known.get(name)
        return known is None or known.topic_id in (topic_id, NO_TOPIC_ID)

    def leader_of(self, name: str, partition: int) -> int | None:
        """Id of the broker that leads the partition; None if there is none, or it is not known."""
        known = self._known.get(name)
        if known is None or not 0 <= partition < len(known.partitions):
            return None
        part = known.partitions[partition]
        return part.leader_id if part.leader_id >= 0 and part.partition_index == partition else None

    def metadata(self, message: Metadata, moment: Moment) -> tuple[MetadataTopicReply, ...]:
        """Describe topics for a Metadata, as far as they are known."""
        if message.topics is None:
            return tuple(self._known[name] for name in sorted(self._known))
        return tuple(self._describe(topic) for topic in dict.fromkeys(message.topics))

    def _describe(self, wanted: MetadataTopic) -> MetadataTopicReply:
        name = self._names.get(wanted.topic_id) if wanted.name is None else wanted.name
        if name is None:
            return MetadataTopicReply(None, wanted.topic_id, ErrorCode.UNKNOWN_TOPIC_ID)
        return self._known.get(name) or MetadataTopicReply(name, error_code=_UNKNOWN)


def _metadata_requests(topics: Iterable[MetadataTopic]) -> tuple[Metadata, ...]:
    """Return one request for names and one for ids. If a request has both, a broker reads only the ids; if a topic has
    neither, it describes no other topic either."""
    named, by_id = list[MetadataTopic](), list[MetadataTopic]()
    for topic in topics:
        if topic.name:
            named.append(MetadataTopic(topic.name))
        elif topic.topic_id.strip(b"\0"):
            by_id.append(topic)
    return tuple(Metadata(tuple(some)) for some in (named, by_id) if some)


def _no_older(topic: MetadataTopicReply, before: MetadataTopicReply) -> MetadataTopicReply:
    """Keep newer facts of the previous description, since a broker may be behind. Leaders have epochs, and partitions
    are never removed."""
    told = {part.partition_index: part for part in topic.partitions}
    newer = [part for part in before.partitions if _is_behind(told.get(part.partition_index), part)]
    if not newer:
        return topic
    told.update((part.partition_index, part) for part in newer)
    return msgspec.structs.replace(topic, partitions=tuple(told[number] for number in sorted(told)))


def _is_behind(told: MetadataPartitionReply | None, before: MetadataPartitionReply) -> bool:
    return told is None or told.leader_epoch < before.leader_epoch


def _in_order(topic: MetadataTopicReply) -> MetadataTopicReply:
    """Sort the partitions, which brokers list in any order, so that each is at its index if none is missing."""
    if all(part.partition_index == number for number, part in enumerate(topic.partitions)):
        return topic
    partitions = sorted(topic.partitions, key=lambda part: part.partition_index)
    return msgspec.structs.replace(topic, partitions=tuple(partitions))
