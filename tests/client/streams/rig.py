"""Whole streams connectors on a simulated clock, with a real node. Each step of a connector and each message of its
streams is recorded.
"""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest

from membership.topic_partition import TopicPartition
from muster.core.fetching.records import ConsumerRecord
from muster.errors import ConsumerTimeout
from muster.streams import MessageStream, StreamsConnector
from muster.streams.connector import Parts
from muster.streams.events import Shut, Started
from muster.streams.holdings import Holdings
from muster.streams.rebalance import RebalancePhase
from protocol.messages.ownership import DescribeOwnership, DescribeOwnershipReply, OwnedPartition
from tests.client.consumer_rig import GROUP, ConsumerRig, SimDriver


class Happened(NamedTuple):
    """A step of a rebalance, a callback, or a returned message."""

    at_ms: int
    who: str
    what: str
    about: Any = None


class SimCallbacks:
    """In place of the thread that calls the application."""

    def __init__(self, rig: ConsumerRig) -> None:
        self._rig = rig

    def put(self, call: Callable[[], object]) -> None:
        self._rig.after(0, call)

    def stop(self, _timeout_s: float) -> None:
        return None


class Listener:
    """Records its calls; `does` may act in them, or raise."""

    def __init__(self, streaming: "ConnectorRig", who: str) -> None:
        self._streaming, self._who = streaming, who
        self.does: dict[str, Callable[[], None]] = {}
        self.everyone: Any = None

    def before_releasing(self, owned: Any) -> None:
        self._streaming.write(self._who, "before_releasing", owned)
        self.does.get("before_releasing", lambda: None)()

    def before_starting(self, owned: Any, everyone: Any) -> None:
        self._streaming.write(self._who, "before_starting", owned)
        self.everyone = everyone
        self.does.get("before_starting", lambda: None)()


class SimApplication:
    """A connector, its streams, and the application that iterates them."""

    def __init__(self, streaming: "ConnectorRig", who: str, **settings: Any) -> None:
        self.streaming, self.who = streaming, who
        self.errors: list[Exception] = []
        self.connector = StreamsConnector(
            "node:9",
            GROUP,
            client_id=who,
            on_error=self.errors.append,
            **{"auto_offset_reset": "smallest", "consumer_timeout_ms": 0, **settings},
        )
        self.listener = Listener(streaming, who)
        self.connector.set_rebalance_listener(self.listener)
        self.streams: list[MessageStream] = []
        self.in_hand: dict[MessageStream, tuple[TopicPartition, int, int]] = {}
        """Partition, epoch and offset of the last message of each stream, until the next one is requested or the
        connector is shut down: the application is still processing it."""
        self.has_stopped = False
        self.still_until_ms = 0

    def begins(self, counts: dict[str, int]) -> None:
        """Make streams as `reads` does, without waiting for the first rebalance: another thread makes them."""
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(self.connector, "_started", Started())
            self.reads(**counts)

    def shuts(self) -> None:
        """Shut down as `leave` does, without waiting."""
        self.in_hand.clear()
        for stream in self.streams:
            stream.finish_here()
        self.connector._is_shut = True
        if self.connector._parts is not None:
            self.connector._feed_steps(Shut())

    def reads(self, **counts: int) -> "SimApplication":
        made = self.connector.create_message_streams(counts)
        self.streams = [stream for streams in made.values() for stream in streams]
        return self

    def reads_all(self, pattern: str, count: int = 1) -> "SimApplication":
        self.streams = self.connector.create_message_streams_by_filter(pattern, count)
        return self

    def iterates(self, every_ms: int = 20, at_most: int = 1_000) -> "SimApplication":
        """Iterate the streams from now on."""
        self._turn(every_ms, at_most)
        return self

    def _turn(self, every_ms: int, at_most: int) -> None:
        if self.has_stopped:
            return
        if self.streaming.now_ms >= self.still_until_ms:
            self.take_all(at_most)
        self.streaming.after(every_ms, lambda: self._turn(every_ms, at_most))

    def takes_one_in(self, milliseconds: int) -> None:
        """Take one message of the first stream."""
        self.streaming.after(milliseconds, self._take_one)

    def _take_one(self) -> None:
        self.take(self.streams[0], at_most=1)

    def leave(self) -> None:
        """Shut down."""
        self.in_hand.clear()
        self.connector.shutdown()
        self.has_stopped = True

    def take(self, stream: MessageStream, at_most: int = 1_000) -> list[ConsumerRecord]:
        """Take the messages that a stream has now."""
        records: list[ConsumerRecord] = []
        while len(records) < at_most:
            self.in_hand.pop(stream, None)
            try:
                record = next(stream)
            except (ConsumerTimeout, StopIteration):
                break
            records.append(record)
            one = TopicPartition(record.topic, record.partition)
            self.in_hand[stream] = one, self.parts.holdings.epochs()[one], record.offset
            self.streaming.write(self.who, "handed out", (record.topic, record.partition, record.offset))
        return records

    def take_all(self, at_most: int = 1_000) -> list[ConsumerRecord]:
        return [record for stream in self.streams for record in self.take(stream, at_most)]

    @property
    def owned(self) -> dict[str, dict[int, int]]:
        return {topic: dict(threads) for topic, threads in self.connector.owned.items()}

    @property
    def parts(self) -> Parts:
        parts = self.connector._parts
        assert parts is not None
        return parts

    @property
    def has_failed(self) -> bool:
        """True if making the streams has raised."""
        started = self.connector._started
        return started is not None and started.error is not None

    @property
    def is_settled(self) -> bool:
        """True if it runs what it owns and has nothing to do."""
        steps = self.parts.steps
        return steps.phase is RebalancePhase.RUNNING and not steps._inbox and self.parts.membership.is_steady


class ConnectorRig(ConsumerRig):
    """Connectors and a node. `log` has everything that happened, in order."""

    def __init__(self, patch: pytest.MonkeyPatch, **settings: Any) -> None:
        self.log: list[Happened] = []
        self.names: dict[int, str] = {}
        super().__init__(patch, **settings)
        clock = SimpleNamespace(monotonic=lambda: self.now_ms / 1000, monotonic_ns=lambda: self.now_ms * 1_000_000)
        for module in ("connector", "stream"):
            patch.setattr(f"muster.streams.{module}.time", clock)
        patch.setattr("muster.streams.connector.random", SimpleNamespace(random=lambda: 0.5))
        patch.setattr("muster.streams.connector.ThreadDriver", lambda _where, who: self._hand(who))
        patch.setattr("muster.streams.connector.Callbacks", lambda _changed: SimCallbacks(self))
        self._watch(patch)
        self.players: list[SimApplication] = []

    def _watch(self, patch: pytest.MonkeyPatch) -> None:
        """Write each step of a connector to the log before its consequences."""
        for step in ("stop", "clear", "end", "publish", "start"):
            does = getattr(Holdings, step)

            def writes(holdings: Holdings, *args: Any, step: str = step, does: Any = does, **more: Any) -> None:
                does(holdings, *args, **more)
                self.write(self.names.get(id(holdings), "?"), step, holdings.epochs())

            patch.setattr(Holdings, step, writes)

    def player(self, who: str, **settings: Any) -> SimApplication:
        player = SimApplication(self, who, **settings)
        made = player.connector._make

        def make(*args: Any) -> Any:
            streams = made(*args)
            self.names[id(player.parts.holdings)] = who
            return streams

        player.connector._make = make  # type: ignore[assignment, method-assign]
        self.players.append(player)
        return player

    def write(self, who: str, what: str, about: Any = None) -> None:
        self.log.append(Happened(self.now_ms, who, what, about))

    def send(self, hand: SimDriver, which: int, call: Any) -> None:
        self.write(hand.who, type(call.message).__name__, call.message)
        super().send(hand, which, call)

    # -- playing

    def settled(self, *players: SimApplication, for_ms: int = 90_000) -> None:
        """Run until all connectors run with their partitions and have nothing to do."""

        self.run(for_ms, until=lambda: all(one.is_settled for one in players))
        assert all(one.is_settled for one in players), [(one.who, one.parts.steps.phase) for one in players]

    def until(self, holds: Callable[[], bool], for_ms: int = 90_000) -> None:
        self.run(for_ms, until=holds)
        assert holds(), self.now_ms

    def owners(self) -> tuple[OwnedPartition, ...]:
        """Entries of the coordinator's registry."""
        reply = self.node.ask_inside(DescribeOwnership(GROUP), call=95)
        assert isinstance(reply, DescribeOwnershipReply)
        return reply.items

    def of(self, *kinds: str, who: str = "") -> list[Happened]:
        return [one for one in self.log if one.what in kinds and who in {"", one.who}]

    def handed_out(self, who: str = "") -> list[tuple[str, int, int]]:
        return [one.about for one in self.log if one.what == "handed out" and who in {"", one.who}]
