"""Offsets of other groups, so that a take-over has something to read."""

import asyncio
from collections import defaultdict
from collections.abc import Sequence

from bench.balanced_members import KafkaAsking
from protocol.errors import ErrorCode
from protocol.messages.node import FindCoordinator, FindCoordinatorReply
from protocol.messages.offsets import OffsetCommit, OffsetCommitPartition, OffsetCommitReply, OffsetCommitTopic

LOADED_TOPIC, PARTITIONS = "loaded", 100
_COMMIT, _FIND = 7, 4


def preload(ports: Sequence[int], offsets: int) -> None:
    """Commit so many offsets through nodes at these ports, 100 in each group. Raises RuntimeError."""
    asyncio.run(_commit_all(ports, [f"loaded-{number}" for number in range(offsets // PARTITIONS)]))


async def _commit_all(ports: Sequence[int], groups: Sequence[str]) -> None:
    of_port: dict[int, list[str]] = defaultdict(list)
    connection = await KafkaAsking.open(ports[0])
    for begin in range(0, len(groups), 500):
        found = await connection.ask(FindCoordinator(tuple(groups[begin : begin + 500])), _FIND)
        assert isinstance(found, FindCoordinatorReply)
        for one in found.coordinators:
            of_port[one.port].append(one.key)
    connection.close()
    await asyncio.gather(*[_commit(port, of_node) for port, of_node in of_port.items()])


async def _commit(port: int, groups: Sequence[str]) -> None:
    partitions = tuple([OffsetCommitPartition(number, 1_000_000 + number) for number in range(PARTITIONS)])
    connection = await KafkaAsking.open(port)
    for group in groups:
        message = OffsetCommit(group, (OffsetCommitTopic(LOADED_TOPIC, partitions),))
        reply = await connection.ask(message, _COMMIT)
        assert isinstance(reply, OffsetCommitReply)
        refused = {part.error_code for topic in reply.topics for part in topic.partitions} - {ErrorCode.NONE}
        if refused:
            raise RuntimeError(f"a commit of the group {group} was refused: {refused}")
    connection.close()
