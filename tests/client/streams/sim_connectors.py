"""Many connectors in a world with faults: they join, leave, are killed and stopped, connections break, the daemon loses
power; with the invariants (docs/spec/consumer-client.md#E4).
"""

import heapq
from collections import defaultdict
from collections.abc import Callable
from functools import partial
from itertools import count
from random import Random
from typing import Any

import pytest

from coordinator.groups.ownership import Owners
from coordinator.node.events import Lost as ConnectionLost
from coordinator.records.records import Ownership
from membership.events import MemberEffect, SendRequest, TimePassed
from membership.topic_partition import TopicPartition
from muster.core.fetching.buffer import TakenRecords
from muster.net.cores import Driven
from muster.streams.queue import PartitionInfo, StreamQueue
from muster.streams.stream_fetcher import StreamFetcher
from protocol.messages.data import Fetch
from protocol.messages.offsets import OffsetCommit
from tests.client.consumer_rig import GROUP, Callback, SentRequest, SimDriver, _Node
from tests.client.streams.rig import ConnectorRig, SimApplication
from tests.groups.checks import CountingIds

_FAR_MS = 1 << 60


class ConnectorDriver(SimDriver):
    """Driver of a process that may be killed or stopped, and then does nothing. It tells the world when its deadlines
    may have changed."""

    rig: "SimConnectors"

    def __init__(self, rig: "SimConnectors", who: str) -> None:
        super().__init__(rig, who)
        self.is_killed = False
        self.still_until_ms = 0
        self.looks = 0

    def carry_out(self, driven: Driven, action: Callable[[int], list[MemberEffect]]) -> None:
        if self.is_killed:
            return
        if self.rig.now_ms < self.still_until_ms:
            self.rig.after(self.still_until_ms - self.rig.now_ms, lambda: self.carry_out(driven, action))
            return
        self.rig.touch(self)
        super().carry_out(driven, action)

    def next(self) -> tuple[int, Driven] | None:
        due = [(at_ms, one) for one in self.driven if (at_ms := one.core.next_deadline_ms) is not None]
        at_ms, driven = min(due, key=lambda one: one[0], default=(0, None))
        return None if driven is None else (max(at_ms, self.still_until_ms), driven)


class _Reborn(_Node):
    """A node that starts when it is no longer early in the day."""

    def __init__(self, say: Callable[..., None], clock: Callable[[], int], **settings: Any) -> None:
        self._clock = clock
        super().__init__(say, **settings)

    @property
    def now_ms(self) -> int:
        return self._clock()

    @now_ms.setter
    def now_ms(self, _now_ms: int) -> None:
        return


class _Plot(list[SentRequest | Callback]):
    """Nobody reads it here."""

    def append(self, _one: SentRequest | Callback) -> None:
        return


class SimConnectors(ConnectorRig):
    """Connectors with invariants. Raises AssertionError as soon as one is violated."""

    def __init__(self, patch: pytest.MonkeyPatch, seed: int, topics: dict[str, int]) -> None:
        self.chance = Random(seed)
        self.granted: dict[tuple[TopicPartition, int], str] = {}
        self.epochs: dict[TopicPartition, int] = defaultdict(int)
        self.appended: dict[TopicPartition, int] = {}
        self.reached: dict[TopicPartition, int] = defaultdict(int)
        """The offset below which all messages were returned, by any connector."""
        self.at: dict[tuple[TopicPartition, int], int] = {}
        """The next offset to return under a grant."""
        self.queued: dict[tuple[TopicPartition, int], int] = {}
        """The next offset to queue under a grant: all from the grant's start up to it were queued."""
        self.repeated = self.restarts = self.made = 0
        self.crew: list[SimApplication] = []
        self._next_hands: dict[str, ConnectorDriver] = {}
        self._touched: dict[ConnectorDriver, None] = {}
        self._due: list[tuple[int, int, ConnectorDriver, int, Driven]] = []
        self._order = count()
        self.grants = 0
        self._generations: dict[tuple[TopicPartition, int], int] = {}
        self._left_behind: frozenset[tuple[TopicPartition, int]] = frozenset()
        """Ended grants of members that a power failure brought back: their removal was durable with the next
        generation only, and the end of their grants at once. Nobody else can own these partitions until then."""
        self.is_loading = False
        self._watch_grants(patch)
        self._watch_queues(patch)
        ids = CountingIds()
        patch.setattr("tests.node.node_rig.CountingIds", lambda: ids)  # no id is given twice, by whichever daemon
        super().__init__(patch, log_retention_ms=-1)
        self.plot = _Plot()
        for topic, partitions in topics.items():
            self.make(topic, partitions)
            self.appended.update(dict.fromkeys((TopicPartition(topic, number) for number in range(partitions)), 0))

    # -- events

    def comes(self, every_ms: int, counts: dict[str, int], *, at_most: int = 1_000, **settings: Any) -> SimApplication:
        """Add an application that takes up to `at_most` messages of each stream in its turns. Its streams are made in
        the background, as far as it is concerned."""
        self.made += 1
        player = self.player(f"c{self.made}", **settings)
        self.crew.append(player)
        player.begins(counts)
        player.iterates(every_ms, at_most)
        return player

    def goes(self) -> None:
        if self.crew:
            self._sees_off(self.chance.choice(self.crew))

    def _sees_off(self, player: SimApplication) -> None:
        self.crew.remove(player)
        player.has_stopped = True
        player.shuts()

    @property
    def is_at_rest(self) -> bool:
        """True if all connectors are at rest. One that could not begin has got the error, and is removed."""
        for player in [one for one in self.crew if one.has_failed]:
            self._sees_off(player)
        return all(one.is_settled for one in self.crew)

    def is_killed(self) -> None:
        if self.crew:
            player = self.crew.pop(self.chance.randrange(len(self.crew)))
            player.has_stopped = True
            hand = self._next_hands[player.who]
            hand.is_killed = True
            self.left(hand)

    def stands_still(self, for_ms: int) -> None:
        """Stop a connector for a while, as a stopped process or machine is."""
        if self.crew:
            player = self.chance.choice(self.crew)
            self._next_hands[player.who].still_until_ms = self.now_ms + for_ms
            player.still_until_ms = self.now_ms + for_ms

    def is_cut(self) -> None:
        """Break the connections of one connector."""
        if self.crew and self.is_up:
            hand = self._next_hands[self.chance.choice(self.crew).who]
            for which, number in hand.waiting:
                self.after(1, partial(hand.hear, which, number, None))
            self.left_behind(hand)

    def left_behind(self, hand: SimDriver) -> None:
        connections, hand.connections = hand.connections, {}
        for number in connections.values():
            self.node.step(ConnectionLost(number))

    def restart(self, down_ms: int, *, loses_power: bool) -> None:
        """Restart the daemon after a while, with the state on its disk."""
        if not self.is_up:
            return
        self.restarts += 1
        self.is_up = False
        for hand in self._hands:
            hand.connections = {}
            for which, number in hand.waiting:
                self.after(1, partial(hand.hear, which, number, None))
        if loses_power:
            self.node.disk.crash()
        else:
            self.node.disk.kill()

        def again() -> None:
            self.is_loading = True
            self.node = _Reborn(self._said, lambda: self.now_ms, disk=self.node.disk, log_retention_ms=-1)
            self.is_loading = False
            self._left_behind = frozenset(grant for grant in self.granted if self._is_left_behind(*grant))
            self.is_up = True

        self.after(down_ms, again)

    def appends(self, count: int) -> None:
        if self.is_up:
            one = self.chance.choice(list(self.appended))
            self.append(one, count=count)
            self.appended[one] += count

    # -- invariants

    def _watch_grants(self, patch: pytest.MonkeyPatch) -> None:
        """V1: check every grant when it is made, since samples would miss some."""
        apply = Owners.apply

        def applies(owners: Owners, record: Ownership) -> None:
            apply(owners, record)
            if record.owner is not None:
                one = TopicPartition(record.topic, record.partition)
                owner = self.granted.setdefault((one, record.epoch), record.owner.member_id)
                assert owner == record.owner.member_id, f"{one} has two owners in epoch {record.epoch}"
                newest = self.epochs[one]
                assert self.is_loading or record.epoch == newest + 1, f"grant {record.epoch} of {one} after {newest}"
                self.epochs[one] = max(newest, record.epoch)
                self._generations[one, record.epoch] = record.owner.generation_id
            self.grants += 1

        patch.setattr(Owners, "apply", applies)

    @property
    def owners_now(self) -> Owners:
        _, group = self.node.node.core.find(GROUP)
        return Owners() if group is None or group.classic.owners is None else group.classic.owners

    def _is_left_behind(self, one: TopicPartition, epoch: int) -> bool:
        owner, owners = self.granted[one, epoch], self.owners_now
        _, group = self.node.node.core.find(GROUP)
        if group is None or owner not in group.classic.members or owners.epoch(one) != epoch:
            return False
        is_of_generation = group.classic.generation_id == self._generations[one, epoch]
        return is_of_generation and not owners.is_held_by(one, owner, epoch)

    def owned(self) -> dict[TopicPartition, str]:
        """Owners by the coordinator's registry."""
        return {
            TopicPartition(held.topic, held.partition): held.owner.member_id
            for held in self.owners_now
            if held.owner is not None
        }

    def write(self, who: str, what: str, about: Any = None) -> None:
        super().write(who, what, about)
        self._check_offsets(who)
        if what == "handed out":
            self._check_message(who, TopicPartition(*about[:2]), about[2])
        elif what == "Fetch":
            self._check_fetch(who, about)
        elif what == "OffsetCommit":
            self._check_commit(who, about)

    def _check_message(self, who: str, one: TopicPartition, offset: int) -> None:
        """V1, V4, V8, V10: each message is returned by its owner, in order, and none is skipped, whatever connector
        read before."""
        player = next(one for one in reversed(self.players) if one.who == who)
        holdings = player.parts.holdings
        epoch = holdings.epochs()[one]
        owner = self.granted[one, epoch]
        if epoch != self.epochs[one]:
            raise AssertionError(f"{who} handed out {one} {offset} by grant {epoch}, {self.epochs[one]} came since")
        is_owned = self.owners_now.is_held_by(one, owner, epoch) or (one, epoch) in self._left_behind
        if self.is_up and not is_owned:
            raise AssertionError(f"{who} handed out {one} {offset} when its grant had ended")
        expected = self.at.get((one, epoch))
        if expected is not None and offset != expected:
            raise AssertionError(f"{who} handed out {one} {offset}, {expected} was next")
        if offset > self.reached[one]:
            raise AssertionError(f"{who} begins {one} at {offset}, nobody has read beyond {self.reached[one]}")
        self.at[one, epoch] = offset + 1
        self.repeated += offset < self.reached[one]
        self.reached[one] = max(self.reached[one], offset + 1)

    def _watch_queues(self, patch: pytest.MonkeyPatch) -> None:
        """Check each chunk: it follows the one before, and no offset is repeated or left out under one grant."""
        put = StreamFetcher._put

        def puts(fetcher: StreamFetcher, info: PartitionInfo, queue: StreamQueue, taken: TakenRecords) -> None:
            by = info.partition, info.epoch
            expected = self.queued.get(by, taken.offset if info.fetched is None else info.fetched)
            if taken.offset != expected:
                raise AssertionError(f"{info.partition} is queued from {taken.offset} on, {expected} was next")
            offsets = [record.offset for record in taken.records]
            if offsets != list(range(taken.offset, taken.next_offset)):
                raise AssertionError(f"{offsets} of {info.partition} are queued as {taken.offset}-{taken.next_offset}")
            put(fetcher, info, queue, taken)
            self.queued[by] = taken.next_offset

        patch.setattr(StreamFetcher, "_put", puts)

    def _check_offsets(self, who: str) -> None:
        """V6."""
        player = next(one for one in reversed(self.players) if one.who == who)
        for info, _ in player.parts.holdings._registry.values():
            if info.consumed is not None and (info.fetched is None or info.fetched < info.consumed):
                raise AssertionError(f"{info.partition}: fetched to {info.fetched}, consumed to {info.consumed}")

    def _check_commit(self, who: str, commit: OffsetCommit) -> None:
        """Check that only returned messages are committed, and none that the application is still processing."""
        player = next(one for one in reversed(self.players) if one.who == who)
        in_hand = {(one, epoch): offset for one, epoch, offset in player.in_hand.values()}
        for topic in commit.topics:
            for part in topic.partitions:
                one = TopicPartition(topic.name, part.partition_index)
                consumed = in_hand.get((one, part.owner_epoch), self.reached[one])
                if part.committed_offset > consumed:
                    raise AssertionError(f"{who} stores {one} to {part.committed_offset}, consumed to {consumed}")

    def _check_fetch(self, who: str, fetch: Fetch) -> None:
        """V2, and each fetch continues at the end of the previous one."""
        for topic in fetch.topics:
            for part in topic.partitions:
                one = TopicPartition(topic.topic, part.partition)
                if self.granted.get((one, part.owner_epoch)) != fetch.member_id:
                    raise AssertionError(f"{one} fetched by {fetch.member_id} without a grant: {part.owner_epoch}")
                expected = self.queued.get((one, part.owner_epoch), part.fetch_offset)
                if part.fetch_offset != expected:
                    raise AssertionError(f"{who} fetches {one} from {part.fetch_offset} on, {expected} is next")

    @property
    def is_all_read(self) -> bool:
        return all(self.reached[one] == count for one, count in self.appended.items())

    # -- the rig, faster

    def _hand(self, who: str) -> SimDriver:
        hand = ConnectorDriver(self, who)
        self._hands.append(hand)
        self._next_hands[who] = hand
        return hand

    def touch(self, hand: ConnectorDriver) -> None:
        """Note that a connector's deadlines may have changed."""
        self._touched[hand] = None

    def _next(self) -> tuple[int, Callable[[], None] | None]:
        for hand in self._touched:
            hand.looks += 1
            if hand in self._hands and (due := hand.next()) is not None:
                heapq.heappush(self._due, (due[0], next(self._order), hand, hand.looks, due[1]))
        self._touched.clear()
        while self._due and (self._due[0][2].looks != self._due[0][3] or self._due[0][2] not in self._hands):
            heapq.heappop(self._due)
        best: tuple[int, int, Callable[[], None] | None] = (_FAR_MS, 9, None)
        if self._coming:
            best = (self._coming[0][0], 0, self._go_on)
        at_ms = self.node.node.next_deadline_ms if self.is_up else None
        if at_ms is not None and (at_ms, 1) < best[:2]:
            best = (at_ms, 1, self._wake_node)
        if self._due and (self._due[0][0], 2) < best[:2]:
            at_ms, _, hand, _, driven = self._due[0]
            self.touch(hand)
            best = (at_ms, 2, partial(hand.feed, driven, TimePassed()))
        return best[0], best[2]

    def _arrive(self, hand: SimDriver, which: int, call: SendRequest) -> None:
        if self.is_up:
            super()._arrive(hand, which, call)
        else:
            hand.hear(which, call.call, None)

    def left(self, hand: SimDriver) -> None:
        if not self.is_up:
            hand.connections = {}
        super().left(hand)

    def send(self, hand: SimDriver, which: int, call: SendRequest) -> None:
        if hand in self._hands:
            super().send(hand, which, call)
