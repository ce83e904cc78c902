"""Our members in one group of a real node, without sockets: answers are lost, members come, leave and fall silent.

No partition ever has two holders (docs/spec/consumer-group-protocol.md#1.4), and all have one in the end."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from membership.events import (
    Assigned,
    CallFailed,
    Closing,
    Fatal,
    LostPartitions,
    MemberEffect,
    MemberEvent,
    Polled,
    Released,
    Replied,
    Revoked,
    SendRequest,
    Subscribed,
    TimePassed,
)
from membership.member import MemberSettings
from membership.server_driven import ServerDrivenMembership
from membership.topic_partition import TopicPartition
from protocol.errors import ErrorCode
from protocol.messages import Message
from tests.enumerations import share_of
from tests.node.consumer_rig import Rig

MEMBERS = range(4)
SUBSCRIPTIONS = [("T",), ("U",), ("T", "U")]
COUNTS = {"T": 4, "U": 3}


class Player:
    """A member, its application, and its requests under way."""

    def __init__(self, number: int, topics: tuple[str, ...], instance_id: str | None) -> None:
        given = MemberSettings(group_id="g", group_protocol="consumer", group_instance_id=instance_id)
        numbers = iter(range(1, 1_000_000))
        self.topics = topics
        self.core = ServerDrivenMembership(given, topics, lambda: (next(numbers) * 0.618 + number * 0.1) % 1)
        self.held: set[TopicPartition] = set()
        self.calls: list[tuple[int, Message]] = []
        self._told: list[MemberEffect] = []
        self.is_closing = False

    def feed(self, event: MemberEvent, now_ms: int) -> None:
        for effect in self.core.step(event, now_ms):
            if isinstance(effect, Fatal):
                assert effect.error_code is ErrorCode.UNRELEASED_INSTANCE_ID, effect
                continue  # of one that fell silent: the next poll tries again
            if isinstance(effect, SendRequest):
                self.calls.append((effect.call, effect.message))
            else:
                self._told.append(effect)

    def hear(self, now_ms: int) -> None:
        """Let the application hear what it was told."""
        while self._told:
            match self._told.pop(0):
                case Revoked(partitions) | LostPartitions(partitions):
                    self.held -= set(partitions)
                    self.feed(Released(), now_ms)
                case Assigned(partitions):
                    self.held = set(partitions)

    def poll(self, now_ms: int) -> None:
        self.hear(now_ms)
        if not self.is_closing:
            self.feed(Polled(), now_ms)
        self.hear(now_ms)

    @property
    def has_lost_its_place(self) -> bool:
        """True if the coordinator may have given its partitions to others, and it knows."""
        return self.core.generation_id == -1


class World:
    def __init__(self) -> None:
        self.rig = Rig(group_consumer_max_session_timeout_ms=60_000)
        self.players: dict[int, Player] = {}

    @property
    def now_ms(self) -> int:
        return self.rig.node_rig.now_ms

    def join(self, number: int, topics: tuple[str, ...], *, is_static: bool) -> None:
        if number not in self.players:
            self.players[number] = Player(number, topics, f"i{number}" if is_static else None)
            self.poll(number)

    def poll(self, number: int) -> None:
        if player := self.players.get(number):
            player.poll(self.now_ms)

    def deliver(self, number: int, *, is_answered: bool = True, arrives: bool = True) -> None:
        """Deliver the member's oldest request, and its answer."""
        player = self.players.get(number)
        if player is None or not player.calls:
            return
        call, message = player.calls.pop(0)
        reply: Any = self.rig.ask(message) if arrives else None
        event = Replied(call, reply) if arrives and is_answered else CallFailed(call)
        player.feed(event, self.now_ms)
        if player.core.is_closed:
            del self.players[number]

    def subscribe(self, number: int, topics: tuple[str, ...]) -> None:
        if (player := self.players.get(number)) and not player.is_closing:
            player.topics = topics
            player.feed(Subscribed(topics), self.now_ms)

    def close(self, number: int) -> None:
        if (player := self.players.get(number)) and not player.is_closing:
            player.is_closing = True
            player.feed(Closing(), self.now_ms)

    def crash(self, number: int) -> None:
        self.players.pop(number, None)

    def wait(self, ms: int) -> None:
        self.rig.node_rig.wait(ms)
        for player in self.players.values():
            player.feed(TimePassed(), self.now_ms)

    def check(self) -> None:
        """Check that no partition has two holders, but for those that know that they lost theirs."""
        holders: dict[TopicPartition, int] = {}
        for number, player in self.players.items():
            if player.has_lost_its_place:
                continue
            for one in player.held:
                assert one not in holders, f"{one} is held by {holders[one]} and {number}"
                holders[one] = number

    def settle(self) -> None:
        """Let all go well, until those that fell silent are gone and the others have their shares."""
        for _ in range(24):
            for _turn in range(8):
                for number in list(self.players):
                    self.poll(number)
                    self.deliver(number)
                self.check()
            self.wait(3_000)

    def check_shares(self) -> None:
        wanted = {topic for player in self.players.values() for topic in player.topics}
        held = sorted(one for player in self.players.values() for one in player.held)
        assert held == sorted(TopicPartition(topic, index) for topic in wanted for index in range(COUNTS[topic]))
        for player in self.players.values():
            assert {one.topic for one in player.held} <= set(player.topics)
            assert player.core.is_steady
        epochs = {player.core.generation_id for player in self.players.values()}
        assert len(epochs) <= 1


_NUMBER = st.sampled_from(MEMBERS)
_TOPICS = st.sampled_from(SUBSCRIPTIONS)
OPERATIONS = st.one_of(
    st.tuples(st.just("join"), _NUMBER, _TOPICS, st.booleans()),
    st.tuples(st.just("poll"), _NUMBER),
    st.tuples(st.just("deliver"), _NUMBER),
    st.tuples(st.just("deliver"), _NUMBER),
    st.tuples(st.just("lose answer"), _NUMBER),
    st.tuples(st.just("lose request"), _NUMBER),
    st.tuples(st.just("subscribe"), _NUMBER, _TOPICS),
    st.tuples(st.just("close"), _NUMBER),
    st.tuples(st.just("crash"), _NUMBER),
    st.tuples(st.just("wait"), st.sampled_from([50, 400, 1_500])),
)


def carry_out(world: World, operation: tuple[Any, ...]) -> None:
    match operation:
        case ("join", number, topics, is_static):
            world.join(number, topics, is_static=is_static)
        case ("poll", number):
            world.poll(number)
        case ("deliver", number):
            world.deliver(number)
        case ("lose answer", number):
            world.deliver(number, is_answered=False)
        case ("lose request", number):
            world.deliver(number, arrives=False)
        case ("subscribe", number, topics):
            world.subscribe(number, topics)
        case ("close", number):
            world.close(number)
        case ("crash", number):
            world.crash(number)
        case ("wait", ms):
            world.wait(ms)


@given(st.lists(OPERATIONS, max_size=25))  # their waits together are shorter than a session
@settings(max_examples=share_of(60), deadline=None)
def test_no_partition_has_two_holders_and_all_have_one_in_the_end(operations: list[tuple[Any, ...]]) -> None:
    world = World()
    for operation in operations:
        carry_out(world, operation)
        world.check()
    world.settle()
    world.check_shares()


@pytest.mark.parametrize("members", [1, 2, 4])
def test_members_that_join_together_share(members: int) -> None:
    """Scenario 31."""
    world = World()
    for number in range(members):
        world.join(number, ("T", "U"), is_static=False)
    world.settle()
    world.check_shares()
    sizes = [len(player.held) for player in world.players.values()]
    assert max(sizes) - min(sizes) <= 1
