"""Topics that were there and are no more, found out with care: what groups have committed for them is forgotten.

That a list leaves a topic out proves little: who may not see a topic is not told of it. Asked by id, a broker says
UNKNOWN_TOPIC_ID of what is not there and TOPIC_AUTHORIZATION_FAILED of what may not be seen (Apache Kafka hides names,
not ids). So every broker is asked by id, more than once and for a while, and all of them must say that it is not there.
What was deleted before this process heard of the topic, nobody can tell from what it never knew: it is let alone.
"""

from collections.abc import Collection

import msgspec

from coordinator.clock import Moment
from protocol.errors import ErrorCode
from protocol.messages import Message
from protocol.messages.topics import NO_TOPIC_ID, Metadata, MetadataReply, MetadataTopic

_MOST_WATCHED = 10_000
_ROUNDS = 2
_IS_THERE = (ErrorCode.NONE, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
_JITTER_MS = 10
"""Between two clocks, of which none was set."""
NEVER = -1


class DeletedTopicRecord(msgspec.Struct, gc=False):
    """`rounds`: how often all brokers have said that it is not there, the first not before `since_ms`. `anew_wall_ms`:
    when another topic was first heard to have its name, or clients may first have heard it; None if none has. What was
    committed before `from_wall_ms` may have been for that other one. `over_wall_ms`: since when nobody doubts it."""

    name: str
    topic_id: bytes
    since_ms: int
    anew_wall_ms: int | None = None
    rounds: int = 0
    from_wall_ms: int = 0
    over_wall_ms: int = 0

    @property
    def until_wall_ms(self) -> int:
        """What was committed from then on, when it is over, is another topic's."""
        return self.over_wall_ms if self.anew_wall_ms is None else self.anew_wall_ms


class DeletedTopics:
    """Those that may be gone. `after_ms`: how long one must have been away to be so; `NEVER`: none ever is. `every_ms`:
    how often brokers are asked."""

    def __init__(self, after_ms: int, every_ms: int, started: Moment) -> None:
        self._after_ms = after_ms
        self._every_ms = every_ms
        self._asked_ms: int | None = None
        self._now = started
        """When `look_at` was called last: what is stamped is rather too old than too new, so that what is committed for
        a topic made anew is never taken for older than it."""
        self._heard: dict[bytes, tuple[int, int]] = {}
        """When each id was first told of, by the wall clock, and when clients may have been. A broker that is behind
        tells of a topic that is gone, in between: that makes its successor no younger."""
        self._unheard_ms: list[int | None] = [None, None]
        """When clients were first told of topics whose ids were not heard: between the last two lists, and since. What
        the last list told may have been told by a broker that was behind."""
        self._gone: dict[bytes, DeletedTopicRecord] = {}
        self._by_name: dict[str, list[DeletedTopicRecord]] = {}
        self._cluster_id: str | None = None
        self._over: list[DeletedTopicRecord] = []

    def __len__(self) -> int:
        return len(self._gone)

    def look_at(self, clock: Moment) -> None:
        """It is so late now. Whatever a wall clock that was set back says from now on is older than what it said: no
        commit that is yet to come may be taken for an old topic's."""
        begun_ms = clock.wall_ms - (clock.monotonic_ms - self._now.monotonic_ms)
        if begun_ms < self._now.wall_ms - _JITTER_MS:
            self._set_back(begun_ms)
        self._now = clock

    def _set_back(self, wall_ms: int) -> None:
        for gone in self._gone.values():
            if gone.anew_wall_ms is not None:
                gone.anew_wall_ms = min(gone.anew_wall_ms, wall_ms)
        self._heard = {key: (min(heard, wall_ms), min(since, wall_ms)) for key, (heard, since) in self._heard.items()}
        self._unheard_ms = [None if at_ms is None else min(at_ms, wall_ms) for at_ms in self._unheard_ms]

    def missed(self, name: str, topic_id: bytes) -> None:
        """The cluster does not tell of it any more, or tells of another of its name."""
        if self._after_ms == NEVER or topic_id == NO_TOPIC_ID or topic_id in self._gone:
            return
        if len(self._gone) < _MOST_WATCHED:
            gone = self._gone[topic_id] = DeletedTopicRecord(name, topic_id, self._now.monotonic_ms)
            self._by_name.setdefault(name, []).append(gone)

    def told_of(self, name: str, topic_id: bytes) -> None:
        """The cluster tells of this topic: it is not gone, and those that had its name have it no more."""
        if self._after_ms == NEVER or topic_id == NO_TOPIC_ID:
            return
        _, since_ms = self._heard.setdefault(topic_id, (self._now.wall_ms, self._since_ms()))
        if name not in self._by_name:
            return
        self._drop(topic_id)
        for other in self._by_name.get(name, ()):
            if other.anew_wall_ms is None:
                other.anew_wall_ms = since_ms
                # One that was heard of for a short time only may have been gone before: when this process began, say,
                # from a broker that was behind. What groups had before that was for whichever of the two.
                first_ms, _ = self._heard.get(other.topic_id, (since_ms, since_ms))
                other.from_wall_ms = first_ms if since_ms - first_ms < self._after_ms else 0

    def _since_ms(self) -> int:
        """When what is told of now may first have been told to clients."""
        return min([self._now.wall_ms, *(at_ms for at_ms in self._unheard_ms if at_ms is not None)])

    def unheard(self) -> None:
        """Clients were told of topics, and nobody here knows of which: what has an old one's name may be another."""
        if self._unheard_ms[-1] is None:
            self._unheard_ms[-1] = self._now.wall_ms

    def listed(self) -> None:
        """All that are there were told of."""
        self._unheard_ms = [self._unheard_ms[-1], None]

    def keep(self, known: Collection[bytes]) -> None:
        """Of the topics that are neither known nor missed, nothing has to be remembered."""
        if len(self._heard) > 2 * (len(known) + len(self._gone)) + _MOST_WATCHED:
            kept = {*known, *self._gone}
            self._heard = {topic_id: heard for topic_id, heard in self._heard.items() if topic_id in kept}

    @property
    def cluster_id(self) -> str | None:
        """Of the cluster whose topics were listed last."""
        return self._cluster_id

    def in_cluster(self, cluster_id: str | None) -> None:
        """Who lists the topics. Of another cluster's it says nothing that they are not here."""
        if cluster_id != self._cluster_id:
            self._cluster_id = cluster_id
            self._gone.clear()
            self._by_name.clear()

    def committed_for_others(self, name: str) -> range:
        """When offsets were committed, by the wall clock, that are not of the topic that has this name now. They are
        told nobody from the moment on in which another is heard of, though it is not certain yet that they may go."""
        times = [gone for gone in self._by_name.get(name, ()) if gone.anew_wall_ms is not None]
        if not times:
            return range(0)
        return range(min(gone.from_wall_ms for gone in times), max(gone.until_wall_ms for gone in times))

    def to_ask(self) -> Metadata | None:
        """What to ask every broker now; None if nothing is missed, or they were asked not long ago."""
        now_ms = self._now.monotonic_ms
        if not self._gone or (self._asked_ms is not None and now_ms - self._asked_ms < self._every_ms):
            return None
        self._asked_ms = now_ms
        return Metadata(
            tuple(MetadataTopic(None, topic_id) for topic_id in self._gone), allow_auto_topic_creation=False
        )

    def answered(self, asked: Metadata, answers: list[Message | None]) -> None:
        """What all brokers said; a round in which one said nothing, or speaks for another cluster, is none."""
        told: list[dict[bytes, ErrorCode]] = []
        for answer in answers:
            if not isinstance(answer, MetadataReply) or answer.cluster_id != self._cluster_id:
                return
            told.append({topic.topic_id: topic.error_code for topic in answer.topics})
        for topic in asked.topics or ():
            gone = self._gone.get(topic.topic_id)
            if gone is not None:
                self._count(gone, [errors.get(topic.topic_id) for errors in told])

    def _count(self, gone: DeletedTopicRecord, errors: list[ErrorCode | None]) -> None:
        now_ms = self._now.monotonic_ms
        if any(error in _IS_THERE for error in errors):
            gone.since_ms, gone.rounds = now_ms, 0
        elif errors and all(error is ErrorCode.UNKNOWN_TOPIC_ID for error in errors):
            gone.rounds += 1
            if gone.rounds >= _ROUNDS and now_ms - gone.since_ms >= self._after_ms:
                gone.over_wall_ms = self._since_ms()
                self._over.append(gone)
                self._drop(gone.topic_id)
                self._heard.pop(gone.topic_id, None)

    def _drop(self, topic_id: bytes) -> None:
        gone = self._gone.pop(topic_id, None)
        if gone is not None:
            others = self._by_name[gone.name]
            others.remove(gone)
            if not others:
                del self._by_name[gone.name]

    def take_over(self) -> list[DeletedTopicRecord]:
        """Those of which nobody doubts it, since last asked."""
        over, self._over = self._over, []
        return over
