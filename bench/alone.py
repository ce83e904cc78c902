"""A node by itself, without sockets and a disk: `python -m bench alone`. Microseconds of the processor a request, the
least and the median of many rounds. A round is one request of each connection, read in one turn of the loop and served
in one step, and one flush; a commit's sync is left out. Bytes go in as Kafka's clients send them, and each request must
be answered once.

To compare two builds, run it in each by turns.
"""

import gc
import sys
from collections.abc import Sequence

from bench.alone_balanced import PARTITIONS, BalancedAlone
from bench.alone_rebalances import StandingGroup
from bench.node_rig import TOPIC, Rig
from bench.processes import scratch
from bench.report import Options, Sheet, Value, median
from protocol.kafka.client import encode_request
from protocol.messages import Message
from protocol.messages.groups import Heartbeat, JoinGroupReply
from protocol.messages.offsets import (
    OffsetCommit,
    OffsetCommitPartition,
    OffsetCommitTopic,
    OffsetFetch,
    OffsetFetchGroup,
    OffsetFetchTopic,
)

ROUNDS = 400
_QUICK = 10
SIZES = (10, 100, 1_000)
"""Members of the groups to which one is added."""
BALANCED_SIZES, _QUICK_BALANCED_SIZES = (100, 1_000, 10_000), (100,)
"""Members of the groups that the coordinator balances, to which one is added."""
_LEAST_ROUNDS = 3
_NUMBERS_A_GROUP = 100_000


def measure(options: Options) -> list[Sheet]:
    rounds = ROUNDS // (_QUICK if options.quick else 1)
    rows: list[tuple[Value, ...]] = []
    added: list[tuple[Value, ...]] = []
    balanced: list[tuple[Value, ...]] = []
    with scratch(in_memory=True) as folder:
        rig = Rig(folder)
        gc.collect()
        gc.disable()  # the daemon has it look rarely, and never through what stays
        try:
            for name, frames in requests_of(rig.members).items():
                took = [rig.round(frames) for _ in range(rounds)]
                rows.append((name, min(took), median(took)))
            for place, size in enumerate(SIZES):
                group = StandingGroup(rig, size, (place + 1) * _NUMBERS_A_GROUP)
                took = [group.add_one() for _ in range(max(rounds // size, _LEAST_ROUNDS))]
                added.append((size, min(took), median(took)))
            for place, size in enumerate(_QUICK_BALANCED_SIZES if options.quick else BALANCED_SIZES):
                alone = BalancedAlone(rig, size, (place + len(SIZES) + 1) * _NUMBERS_A_GROUP)
                ones = [alone.add_one() for _ in range(_LEAST_ROUNDS)]
                node_ms, members_ms = min([one.node_ms for one in ones]), min([one.members_ms for one in ones])
                beat_us = min([alone.beat_us() for _ in range(_LEAST_ROUNDS)])
                balanced.append((size, node_ms, node_ms / size * 1_000, members_ms, ones[0].rounds, beat_us))
        finally:
            gc.enable()
    return [
        Sheet("The node alone", ("request", "least us", "median us"), rows),
        Sheet("The node alone: one member is added to a group", ("members", "least ms", "median ms"), added),
        Sheet(
            f"The node alone: one member is added to a group that the coordinator balances ({PARTITIONS:,} partitions)",
            ("members", "node, ms", "us a member", "members, ms", "rounds", "idle heartbeat, us"),
            balanced,
            (
                "Least of a few. Rounds: heartbeats of each member until all own their shares. What the bench's own",
                "members take of the processor is not in the node's figures.",
            ),
        ),
    ]


def requests_of(members: Sequence[tuple[str, JoinGroupReply]]) -> dict[str, list[bytearray]]:
    """Frames of each kind of request, one for each member."""

    def frames(version: int, messages: Sequence[Message]) -> list[bytearray]:
        return [bytearray(encode_request(one, version, 0, "bench")) for one in messages]

    def commits(count: int) -> list[bytearray]:
        topic = OffsetCommitTopic(TOPIC, tuple([OffsetCommitPartition(index, 10_000) for index in range(count)]))
        return frames(7, [OffsetCommit(group, (topic,), one.generation_id, one.member_id) for group, one in members])

    topics = (OffsetFetchTopic(TOPIC, (0,)),)
    fetches = [OffsetFetch((OffsetFetchGroup(group, topics),)) for group, _ in members]
    return {
        "Heartbeat": frames(3, [Heartbeat(group, one.generation_id, one.member_id) for group, one in members]),
        "OffsetCommit, 1 partition": commits(1),
        "OffsetCommit, 10 partitions": commits(10),
        "OffsetFetch, 1 partition": frames(5, fetches),
    }


if __name__ == "__main__":
    from bench.__main__ import main

    main(["alone", *sys.argv[1:]])
