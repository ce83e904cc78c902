"""Server-side assignors: the whole computation, and its longest step, for large groups.

In process. Steps are those of the node: pieces of a computation are run until their estimated costs fill a slice.
"""

import gc
import time
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from bench.report import Options, Sheet, Value, median
from coordinator.runtime.slices import SLICE_US
from membership.server_assignors.registry import ASSIGNORS
from membership.server_assignors.spec import Computation, SubscribedMember, Targets


class Topic(NamedTuple):
    name: str
    partitions: int


class Case(NamedTuple):
    """A group of so many members and partitions. `joined`: members that have no target yet."""

    title: str
    assignor: str
    members: int
    topics: int
    partitions: int
    joined: int
    is_homogeneous: bool = True


class Run(NamedTuple):
    targets: Targets
    steps_ms: Sequence[float]


def cases(options: Options) -> Iterator[Case]:
    sizes = [(1_000, 100)] if options.quick else [(1_000, 100), (10_000, 1_000)]
    for members, topics in sizes:
        yield Case("all join at once", "uniform", members, topics, 100, members)
        yield Case("one joins", "uniform", members, topics, 100, 1)
        yield Case("one had all, the others join", "uniform", members, topics, 100, members - 1)
        yield Case("all join, unlike", "uniform", members, topics, 100, members, is_homogeneous=False)
        yield Case("one joins, unlike", "uniform", members, topics, 100, 1, is_homogeneous=False)
        yield Case("all join", "range", members, topics, 100, members)
        yield Case("one topic with all partitions", "uniform", members, 1, topics * 100, members - 1)
        yield Case("topics of one partition", "uniform", members, topics * 100, 1, members)
        yield Case("topics of ten partitions, unlike", "uniform", members, topics * 10, 10, 1, is_homogeneous=False)


def measure(options: Options) -> list[Sheet]:
    rows: list[tuple[Value, ...]] = []
    for case in cases(options):
        topics, members = group(case)
        runs = [in_steps(ASSIGNORS[case.assignor](members, topics, case.is_homogeneous)) for _ in range(options.rounds)]
        whole, longest = median([sum(run.steps_ms) for run in runs]), median([max(run.steps_ms) for run in runs])
        partitions = case.topics * case.partitions
        rows.append((case.title, case.assignor, case.members, partitions, whole, len(runs[0].steps_ms), longest))
    columns = ("a group in which", "assignor", "members", "partitions", "ms", "steps", "longest step, ms")
    notes = (
        "ms: processor time of the whole computation, and of its longest step.",
        f"A step is filled up to an estimate of {SLICE_US / 1_000:.0f} ms; goal: none above 20 ms.",
    )
    return [Sheet("server-side assignors", columns, rows, notes)]


def group(case: Case) -> tuple[dict[bytes, Topic], list[SubscribedMember]]:
    """Make the group. Members have the targets of the one before, without those that joined."""
    ids = [(number * 0x9E3779B97F4A7C15 % (1 << 128)).to_bytes(16, "big") for number in range(1, case.topics + 1)]
    topics = {topic_id: Topic(f"topic-{number}", case.partitions) for number, topic_id in enumerate(ids)}
    wanted = frozenset(ids), frozenset(ids[: len(ids) // 2])
    subscriptions = [wanted[0 if case.is_homogeneous else number % 2] for number in range(case.members)]
    named = [(f"consumer-{number}-{number * 7_919:x}", topic_ids) for number, topic_ids in enumerate(subscriptions)]
    old = [SubscribedMember(name, None, topic_ids, {}) for name, topic_ids in named[case.joined :]]
    before = in_steps(ASSIGNORS[case.assignor](old, topics, case.is_homogeneous)).targets
    return topics, [SubscribedMember(name, None, topic_ids, before.get(name, {})) for name, topic_ids in named]


def in_steps(computation: Computation) -> Run:
    """Run the computation as the node does, without the garbage collector, and measure the processor time of each
    step."""
    steps_ms: list[float] = []
    gc.collect()
    gc.disable()
    try:
        while True:
            began, left_us = time.thread_time(), float(SLICE_US)
            try:
                while left_us > 0:
                    left_us -= next(computation)
            except StopIteration as done:
                return Run(done.value, steps_ms)
            finally:
                steps_ms.append((time.thread_time() - began) * 1_000)
    finally:
        gc.enable()
