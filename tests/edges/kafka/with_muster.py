"""Our own client, over the native protocol: here it is a member among the others, so only what members do is there."""

from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

from muster import Consumer, MusterError, TopicPartition
from tests.edges.kafka.client import Committed, Got, Library, Membership, Part


class NativeConsumer:
    def __init__(self, bootstrap: str, membership: Membership) -> None:
        assert membership.group is not None
        self._consumer = Consumer(
            bootstrap,
            membership.group,
            auto_offset_reset=membership.reset,
            enable_auto_commit=False,
            assignors=(membership.assignor,),
            session_timeout_ms=membership.session_ms,
            heartbeat_interval_ms=min(1_000, membership.session_ms // 4),
            group_instance_id=membership.instance,
        )

    def subscribe(self, topics: Sequence[str]) -> None:
        self._consumer.subscribe(topics)

    def poll(self, seconds: float) -> list[Got]:
        return [
            Got(each.topic, each.partition, each.offset, each.key, each.value, each.timestamp_ms, each.headers)
            for each in self._consumer.poll(seconds)
        ]

    def assignment(self) -> frozenset[Part]:
        return frozenset((each.topic, each.partition) for each in self._consumer.assignment)

    def commit(self, offsets: Mapping[Part, Committed] | None = None) -> None:
        named = {TopicPartition(*part): each.offset for part, each in (offsets or {}).items()}
        self._consumer.commit(named or None)

    def committed(self, part: Part) -> Committed | None:
        found = self._consumer.committed([TopicPartition(*part)])[TopicPartition(*part)]
        return None if found is None else Committed(found)

    def position(self, part: Part) -> int:
        return self._consumer.positions()[TopicPartition(*part)]

    def seek(self, part: Part, offset: int) -> None:
        self._consumer.seek(TopicPartition(*part), offset)

    def close(self) -> None:
        self._consumer.close()

    def _not_here(self, *given: Any) -> NoReturn:
        raise NotImplementedError

    subscribe_to_names_like = assign = commit_later = bounds = offset_at = pause = resume = _not_here


def _nothing_but_members(*given: Any, **named: Any) -> NoReturn:
    raise NotImplementedError


MUSTER = Library("muster", _nothing_but_members, NativeConsumer, _nothing_but_members, (MusterError,))
