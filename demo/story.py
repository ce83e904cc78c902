"""Steps of the demonstration: share, one more joins, one is killed, the rest is read, everything is counted."""

import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

from msgspec import Struct

from demo.flights import Delays
from demo.input import Input
from demo.processes import Daemon, PlainMember, ProcessEnded
from demo.show import Show
from demo.sink import Contents, contents
from demo.spark_member import NAME as SPARK
from demo.spark_member import Session, SparkMember
from muster import GroupMember, TopicPartition
from muster.blocking.cluster import ClusterClient, expect
from protocol.consumer_protocol import decode_assignment
from protocol.messages.groups import DescribeGroups, DescribeGroupsReply
from protocol.messages.node import DescribeNode, DescribeNodeReply

FIRST, SECOND, KAFKA = "plain-1", "plain-2", "confluent"
PLAIN_RECORDS_PER_S = 6_000
SPARK_RECORDS_PER_BATCH = 10_000
OPENING, MIDDLE, LATE = 0.15, 0.45, 0.75
"""Shares of the input that Spark has alone, the first three have together, and four have before the first is killed."""
JOIN_AT, KILL_AT = 0.25, 0.55
"""Shares that are committed when the second plain consumer joins, and when the first is killed."""
STUCK_AFTER_S = 120.0
CENT = 0.01


class Setting(Struct, frozen=True):
    """Setting of the demonstration: server, group, topic and folders."""

    bootstrap: str
    group: str
    topic: str
    partitions: int
    folder: Path

    @property
    def sink(self) -> Path:
        return self.folder / "sink"

    @property
    def all(self) -> list[TopicPartition]:
        return [TopicPartition(self.topic, number) for number in range(self.partitions)]


class Story:
    """The group at work. `tell` ends when the group has committed everything.

    The input is released as the members come, and its rest when the first is killed: what that one held has records
    then that somebody else must read, however fast or slow anybody is.
    """

    def __init__(self, setting: Setting, given: Input, session: Session, show: Show, ends: ExitStack) -> None:
        self.setting = setting
        self.input = given
        self.total = given.total
        self.show = show
        self._ends = ends
        self._cluster = ClusterClient(setting.bootstrap)
        ends.callback(self._cluster.close)
        self._asking = GroupMember(setting.bootstrap, setting.group, [setting.topic])  # never polled: it only asks
        ends.callback(self._asking.close)
        self.kafka = expect(DescribeNodeReply, self._cluster.ask(DescribeNode())).addresses.get("kafka")
        """Address for Kafka's clients, if they are served."""
        self.plain: dict[str, PlainMember] = {}
        self.holdings: dict[str, list[int]] = {}
        self.killed_held: list[int] = []
        self.killed_at_s = 0.0
        self.moved_after_s: float | None = None
        self._changed_at_s = 0.0
        self.done = 0
        spark = session.get()
        self.spark = SparkMember(
            spark,
            setting.bootstrap,
            setting.group,
            setting.topic,
            setting.sink,
            setting.folder,
            SPARK_RECORDS_PER_BATCH,
        )
        ends.callback(self.spark.stop)

    def tell(self, daemon: Daemon | None) -> None:
        """Raises `ProcessEnded` when somebody ended who should not have, or nothing moves any more."""
        self._changed_at_s = time.monotonic()  # now: Spark may have taken minutes to start
        for _ in self.steps():
            time.sleep(0.25)
            if daemon is not None:
                daemon.check()
            self.spark.check()
            for member in self.plain.values():
                if member.name != FIRST or not self.killed_held:
                    member.check()
            self.input.send_some()
            self._look_at_the_group()
            self._look_at_the_commits()

    def leave(self) -> None:
        """In good order: nobody repeats anything because of it."""
        self.spark.end()
        for member in self.plain.values():
            member.end()

    # -- what the story does

    def steps(self) -> Iterator[None]:
        """Do one step after the other, each as soon as it can be done; yield while it cannot."""
        self.input.release(OPENING)
        # Spark is the slowest to start: the others come to it.
        yield from self._until(lambda: self._hold(SPARK))
        beginners = [SPARK, FIRST]
        self._start(FIRST)
        if self.kafka is not None:
            self._start_kafka(self.kafka)
            beginners.append(KAFKA)
        yield from self._until(lambda: self._hold(*beginners))
        self.input.release(MIDDLE)
        yield from self._until(lambda: self.done >= JOIN_AT * self.total)
        self.show.say(f"[bold]{SECOND} joins[/bold]")
        self._start(SECOND)
        yield from self._until(lambda: self._hold(*beginners, SECOND))
        self.input.release(LATE)
        yield from self._until(lambda: self.done >= KILL_AT * self.total and self._hold(FIRST))
        self._kill_first()
        self.input.release(1)
        yield from self._until(lambda: self.done >= self.total and self.moved_after_s is not None)

    def _until(self, holds: Callable[[], bool]) -> Iterator[None]:
        while not holds():
            yield

    def _hold(self, *names: str) -> bool:
        return all(self.holdings.get(name) for name in names)

    def _start(self, name: str) -> None:
        setting = self.setting
        log = setting.folder / f"{name}.log"
        arguments = (setting.bootstrap, setting.group, setting.topic, setting.sink, log, PLAIN_RECORDS_PER_S)
        self.plain[name] = member = PlainMember(name, *arguments)
        self._ends.callback(member.end)

    def _start_kafka(self, bootstrap: str) -> None:
        setting = self.setting
        log = setting.folder / f"{KAFKA}.log"
        arguments = (bootstrap, setting.group, setting.topic, setting.sink, log, PLAIN_RECORDS_PER_S)
        self.plain[KAFKA] = member = PlainMember(KAFKA, *arguments, module="demo.kafka_member")
        self._ends.callback(member.end)

    def _kill_first(self) -> None:
        self.plain[FIRST].kill()
        self.killed_held, self.killed_at_s = self.holdings[FIRST], time.monotonic()
        self.show.say(f"[bold red]{FIRST} is killed[/bold red] (SIGKILL), holding {_numbers(self.killed_held)}")

    # -- what the group says

    def _look_at_the_commits(self) -> None:
        committed = self._asking.committed(self.setting.all)
        done = sum(offset or 0 for offset in committed.values())
        if done != self.done:
            self.done, self._changed_at_s = done, time.monotonic()
        elif time.monotonic() - self._changed_at_s > STUCK_AFTER_S:
            held = ", ".join(f"{name} has {_numbers(numbers)}" for name, numbers in sorted(self.holdings.items()))
            raise ProcessEnded(
                f"nothing has changed for {STUCK_AFTER_S:.0f} s: {done:,} of {self.total:,} are committed, "
                f"{held or 'nobody has partitions'}"
            )
        self.show.set("committed", done, self.total)
        self.show.set(SPARK, self.spark.read, self.total, f"has {_numbers(self.holdings.get(SPARK, []))}")
        for member in self.plain.values():
            held = _numbers(self.holdings.get(member.name, []))
            self.show.set(member.name, member.read, self.total, f"has {held}")

    def _look_at_the_group(self) -> None:
        node = self._cluster.coordinator(self.setting.group)
        answer = self._cluster.ask(DescribeGroups((self.setting.group,)), node=node)
        described = expect(DescribeGroupsReply, answer).groups[0]
        if described.group_state != "Stable":
            return
        holdings = {
            member.client_id: sorted(
                number for _, numbers in decode_assignment(member.member_assignment).partitions for number in numbers
            )
            for member in described.members
        }
        if holdings != self.holdings:
            self.holdings, self._changed_at_s = holdings, time.monotonic()
            shares = ", ".join(f"{name} has {_numbers(held)}" for name, held in sorted(holdings.items()))
            self.show.say(f"generation {described.generation_id}: {shares}")
        if self.killed_held and self.moved_after_s is None:
            held_by_others = {number for name, held in holdings.items() if name != FIRST for number in held}
            if held_by_others.issuperset(self.killed_held) and FIRST not in holdings:
                self.moved_after_s = time.monotonic() - self.killed_at_s
                self.show.say(f"what {FIRST} held has moved, {self.moved_after_s:.1f} s after it was killed")


def _numbers(held: Sequence[int]) -> str:
    return ", ".join(map(str, held)) if held else "nothing"


# ---------------------------------------------------------------------------------------------------- what came of it


def count(session: Session, setting: Setting) -> Contents:
    """The Spark batch job over the sink."""
    return contents(session.get(), setting.sink)


def report(story: Story, found: Contents, reference: dict[str, Delays], show: Show) -> list[str]:
    """Prints what was found next to what the file says. What is wrong with it, in sentences; empty if nothing is."""
    wrong = _compare(found, reference, show)
    table = show.table("member", "flights it handled", "")
    for name, flights in sorted(found.by_member.items()):
        table.add_row(name, f"{flights:,}", "killed" if name == FIRST else "")
    show.console.print()
    show.console.print(table)
    missing = story.total - found.distinct
    without = sum(delays.without for delays in found.delays.values())
    show.console.print(
        f"\n{found.distinct:,} flights of {story.total:,} in the sink, {missing:,} missing, "
        f"{found.repeats:,} read twice. {without:,} have no arrival delay: they are counted, not averaged.",
        highlight=False,
        soft_wrap=True,
    )
    if missing:
        wrong.append(f"{missing:,} flights are missing from the sink")
    if not found.by_member.get(SPARK):
        wrong.append("the Spark member handled no flight")
    if story.kafka is not None and not found.by_member.get(KAFKA):
        wrong.append("the confluent-kafka consumer handled no flight")
    wrong += _moved(story, found)
    return wrong


def _compare(found: Contents, reference: dict[str, Delays], show: Show) -> list[str]:
    wrong: list[str] = []
    table = show.table("carrier", "flights", "no delay", "by the job", "by the file")
    table.title = "minutes late at arrival, on average"
    for carrier, expected in sorted(reference.items()):
        got = found.delays.get(carrier, Delays())
        table.add_row(carrier, f"{got.flights:,}", f"{got.without:,}", _minutes(got), _minutes(expected))
        if got.average is None or expected.average is None or abs(got.average - expected.average) >= CENT:
            wrong.append(f"{carrier} is {_minutes(got)} minutes late by the job and {_minutes(expected)} by the file")
        if (got.flights, got.without) != (expected.flights, expected.without):
            wrong.append(f"{carrier} has {got.flights} flights in the sink and {expected.flights} in the file")
    wrong += [f"no carrier of the file is called {carrier!r}" for carrier in sorted(set(found.delays) - set(reference))]
    show.console.print()
    show.console.print(table)
    return wrong


def _minutes(delays: Delays) -> str:
    return "none" if delays.average is None else f"{delays.average:.4f}"


def _moved(story: Story, found: Contents) -> list[str]:
    """The killed member's partitions were read to their ends by others."""
    stayed = [number for number in story.killed_held if found.last_writer.get(number) == FIRST]
    return [f"nobody has read on where {FIRST} left off in {_numbers(stayed)}"] if stayed else []


def explain(setting: Setting, show: Show) -> None:
    """Print the explanation with the command `muster`."""
    show.console.print(f"\n$ muster explain {setting.group}", style="bold", highlight=False)
    command = [sys.executable, "-m", "muster.cli", "--bootstrap", setting.bootstrap, "explain", setting.group]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    show.console.print(done.stdout.rstrip() or done.stderr, highlight=False, markup=False, soft_wrap=True)
    if done.returncode:
        raise ProcessEnded(f"muster explain ended with {done.returncode}: {done.stderr}")
