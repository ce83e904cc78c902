"""Topics that are absent from the cluster's list, and the proof that they are deleted.

The absence from a list proves little: a list omits topics that the requester may not describe. To a request by id, a
broker answers UNKNOWN_TOPIC_ID for a topic that does not exist and TOPIC_AUTHORIZATION_FAILED for one that may not be
described (Apache Kafka hides names, not ids). So every broker is asked by id, repeatedly over a period, and all must
agree.
"""

from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet

import msgspec

from protocol.errors import ErrorCode
from protocol.messages import Message
from protocol.messages.topics import Metadata, MetadataReply, MetadataTopic

NEVER = -1
_MOST_WATCHED = 10_000
_ROUNDS = 2
_EXISTS = (ErrorCode.NONE, ErrorCode.TOPIC_AUTHORIZATION_FAILED)


class AbsentTopic(msgspec.Struct, gc=False):
    """A topic id that another topic's has replaced, or that the list lacks. `rounds`: number of times that all brokers
    have denied it, the first not before `since_ms`."""

    name: str
    topic_id: bytes
    since_ms: int
    rounds: int = 0


class DeletedTopics:
    """Absent topics under watch. A topic counts as deleted once brokers have denied it for `after_ms`; with `NEVER`, no
    topic does. Brokers are asked every `every_ms`."""

    def __init__(self, after_ms: int, every_ms: int) -> None:
        self._after_ms = after_ms
        self._every_ms = every_ms
        self._asked_ms: int | None = None
        self._absent: dict[bytes, AbsentTopic] = {}
        self._cluster_id: str | None = None
        self._is_owner = False
        """True once the cluster has listed a topic for which offsets are stored."""
        self._deleted: list[AbsentTopic] = []

    def __len__(self) -> int:
        return len(self._absent)

    def __contains__(self, topic_id: bytes) -> bool:
        return topic_id in self._absent

    @property
    def cluster_id(self) -> str | None:
        """Id of the cluster that listed its topics last."""
        return self._cluster_id

    def in_cluster(self, cluster_id: str | None) -> bool:
        """Set the cluster that listed its topics; return true if it is another one than before, whose list proves
        nothing about absent topics."""
        is_another = cluster_id != self._cluster_id
        if is_another:
            self._cluster_id = cluster_id
            self._is_owner = False
            self._absent.clear()
        return is_another

    def compare(self, stored: Iterable[Mapping[bytes, str]], listed: AbstractSet[bytes], now_ms: int) -> None:
        """Watch the topics that the list lacks. `stored` are names by id of topics with offsets. A list with none of
        the ids may be another cluster's, and proves nothing."""
        if self._after_ms == NEVER:
            return
        names = list(stored)
        self._is_owner = self._is_owner or not all(listed.isdisjoint(some) for some in names)
        if self._is_owner:
            for some in names:
                for topic_id in some.keys() - listed:
                    self.watch(some[topic_id], topic_id, now_ms)

    def watch(self, name: str, topic_id: bytes, now_ms: int) -> None:
        """Ask brokers for this topic from now on."""
        if topic_id not in self._absent and len(self._absent) < _MOST_WATCHED:
            self._absent[topic_id] = AbsentTopic(name, topic_id, now_ms)

    def is_denied(self, topic_id: bytes) -> bool:
        """Return true if all brokers have answered that there is no such topic."""
        topic = self._absent.get(topic_id)
        return topic is not None and topic.rounds > 0

    def found(self, topic_id: bytes) -> None:
        """End the watch: the topic exists."""
        self._absent.pop(topic_id, None)

    def to_ask(self, now_ms: int) -> Metadata | None:
        """Return the request for every broker; None if no topic is absent, or the brokers were asked a short time
        ago."""
        if not self._absent or (self._asked_ms is not None and now_ms - self._asked_ms < self._every_ms):
            return None
        self._asked_ms = now_ms
        return Metadata(
            tuple(MetadataTopic(None, topic_id) for topic_id in self._absent), allow_auto_topic_creation=False
        )

    def answered(self, asked: Metadata, answers: list[Message | None], now_ms: int) -> None:
        """Count a round of answers. A round without one broker's answer, or with another cluster's, does not count."""
        errors: list[dict[bytes, ErrorCode]] = []
        for answer in answers:
            if not isinstance(answer, MetadataReply) or answer.cluster_id != self._cluster_id:
                return
            errors.append({topic.topic_id: topic.error_code for topic in answer.topics})
        for wanted in asked.topics or ():
            topic = self._absent.get(wanted.topic_id)
            if topic is not None:
                self._count(topic, [by_id.get(wanted.topic_id) for by_id in errors], now_ms)

    def _count(self, topic: AbsentTopic, errors: list[ErrorCode | None], now_ms: int) -> None:
        if not errors:
            return
        if all(error is ErrorCode.NONE for error in errors):
            self.found(topic.topic_id)
        elif any(error in _EXISTS for error in errors):
            topic.since_ms, topic.rounds = now_ms, 0
        elif all(error is ErrorCode.UNKNOWN_TOPIC_ID for error in errors):
            topic.rounds += 1
            if topic.rounds >= _ROUNDS and now_ms - topic.since_ms >= self._after_ms:
                del self._absent[topic.topic_id]
                if self._after_ms != NEVER:
                    self._deleted.append(topic)

    def take_deleted(self) -> list[AbsentTopic]:
        """Return the topics proved deleted since the last call."""
        deleted, self._deleted = self._deleted, []
        return deleted
