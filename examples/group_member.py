"""Membership in a group without records: `python examples/group_member.py [HOST:PORT]`, until Ctrl-C.

Here the partitions of `orders` stand for four cash registers. One member at a time owns each, and continues to count
from the committed offset, which is the count here and no position in a log. Start it several times, and kill one.
"""

import sys
import time
from contextlib import suppress

from muster import CommitRefused, GroupMember, TopicPartition

BOOTSTRAP = sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:9390"

counts: dict[TopicPartition, int] = {}


def given(partitions: tuple[TopicPartition, ...]) -> None:
    counts.update({one: count or 0 for one, count in member.committed(partitions).items()})
    print("keeps", [one.partition for one in member.assignment], flush=True)


def revoked(partitions: tuple[TopicPartition, ...]) -> None:
    member.commit({one: counts.pop(one) for one in partitions})
    print("handed over", [one.partition for one in partitions], flush=True)


def lost(partitions: tuple[TopicPartition, ...]) -> None:
    for one in partitions:  # another member owns them already
        counts.pop(one, None)


member = GroupMember(BOOTSTRAP, "registers", ["orders"], on_assigned=given, on_revoked=revoked, on_lost=lost)
with suppress(KeyboardInterrupt), member:
    while True:
        if member.poll(timeout_s=1.0):  # heartbeats are sent in the background; rebalances run here
            for one in counts:
                counts[one] += 1
            with suppress(CommitRefused):
                member.commit(counts)
        print("counts", {one.partition: count for one, count in counts.items()}, flush=True)
        time.sleep(0.2)
