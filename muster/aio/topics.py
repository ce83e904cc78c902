"""Requests for topics and offsets, in an event loop. Part of `Consumer` and `GroupMember`."""

from collections.abc import Iterable, Mapping
from typing import TypeVar

from membership.topic_partition import TopicPartition
from muster.client.steps import Procedure
from muster.client.topics import TopicProcedures
from muster.core.completions import Partitions

R = TypeVar("R")


class LoopTopics(TopicProcedures):
    """Sends requests to the partitions' leaders, from any task of the loop."""

    async def partitions_for(self, topic: str, timeout_s: float = 30.0) -> Partitions:
        """All partitions of this topic, for `assign`. Raises `Refused` for a topic that does not exist,
        `CannotConnect`, `RequestTimedOut`, `AuthenticationFailed`.
        """
        return await self._ask(self._partitions_for(topic, timeout_s))

    async def begin_offsets(
        self, partitions: Iterable[TopicPartition], timeout_s: float = 30.0
    ) -> dict[TopicPartition, int]:
        """The first offset each partition still has. Raises as `partitions_for` does."""
        return await self._ask(self._begin_offsets(partitions, timeout_s))

    async def end_offsets(
        self, partitions: Iterable[TopicPartition], timeout_s: float = 30.0, *, isolation_level: str | None = None
    ) -> dict[TopicPartition, int]:
        """The offset the next record of each partition will have; "read_committed": that of the first record of the
        oldest transaction that is open, if one is. `isolation_level`: another than this client's. Raises as
        `partitions_for` does, and ValueError.
        """
        return await self._ask(self._end_offsets(partitions, timeout_s, isolation_level))

    async def offsets_for_times(
        self, times: Mapping[TopicPartition, int], timeout_s: float = 30.0
    ) -> dict[TopicPartition, int | None]:
        """The offset of the first record at or after each time, in milliseconds since 1970; None where no record is so
        late. Raises as `partitions_for` does, and ValueError.
        """
        return await self._ask(self._offsets_for_times(times, timeout_s))

    async def _ask(self, procedure: Procedure[R]) -> R:
        answer: R = await self._runner.run_open(procedure)
        return answer
