"""A client that sends more than can be served at once waits its turn, and nobody else does."""

import msgpack

from coordinator.node.effects import Effect, Pause, Resume, Send
from coordinator.node.events import Event, Lost, Received, Woke
from tests.node.node_rig import NodeRig


def _requests(count: int, method: str, first: int = 0, **params: object) -> bytes:
    return b"".join(msgpack.packb([0, first + n, method, [params]]) for n in range(count))


def _kinds(effects: list[Effect]) -> set[type]:
    return {type(effect) for effect in effects}


class _Counting(NodeRig):
    """Replies are counted, not read."""

    def step(self, event: Event) -> list[Effect]:
        effects = super().step(event)
        for effect in effects:
            if isinstance(effect, Send):
                unpacker = msgpack.Unpacker()
                unpacker.feed(effect.data)
                self.heard_of[effect.connection] = self.heard_of.get(effect.connection, 0) + sum(1 for _ in unpacker)
        return effects

    def _carry_out(self, effect: Effect) -> None:
        if not isinstance(effect, Send):
            super()._carry_out(effect)

    def __init__(self) -> None:
        self.heard_of: dict[int, int] = {}
        super().__init__(max_requests_per_connection=100_000)


def test_a_flood_is_served_in_parts_and_not_read_from_until_it_is_served() -> None:
    rig = _Counting()
    rig.connect(1)
    rig.make_topic()
    effects = rig.step(Received(1, _requests(6_000, "DescribeGroups", groups=["g"])))
    assert Pause in _kinds(effects)
    assert len(rig.node.core.outbox.ready) < 3_000
    seen: set[type] = set()
    while (deadline_ms := rig.node.next_deadline_ms) is not None and deadline_ms <= rig.now_ms:
        seen |= _kinds(rig.step(Woke()))
    assert Resume in seen
    assert rig.heard_of == {1: 6_000}


def test_between_the_parts_of_a_flood_others_are_served() -> None:
    rig = _Counting()
    rig.connect(1)
    rig.connect(2)
    rig.step(Received(1, _requests(20_000, "DescribeNode")))
    rig.step(Received(2, _requests(1, "Heartbeat", group_id="g", generation_id=1, member_id="m")))
    assert rig.heard_of[2] == 1
    assert rig.heard_of[1] < 1_000


def test_who_asked_for_much_waits_for_the_next_round_and_others_do_not() -> None:
    rig = _Counting()
    rig.make_topic()
    rig.connect(1)
    rig.connect(2)
    much = _requests(1, "DescribeGroups", groups=[f"g{n}" for n in range(6_000)])
    rig.step(Received(1, much))
    rig.wake_until_idle()
    assert rig.heard_of[1] == 1
    assert Pause in _kinds(rig.step(Received(1, _requests(1, "DescribeGroups", 7, groups=["g"] * 6_000))))
    rig.step(Received(2, _requests(1, "DescribeGroups", groups=["g"])))
    assert rig.heard_of == {1: 1, 2: 1}, "the others are served first"
    assert Resume in _kinds(rig.step(Woke()))
    assert rig.heard_of[1] == 2


def test_requests_whose_answers_are_large_are_served_few_at_a_time() -> None:
    rig = _Counting()
    rig.connect(1)
    rig.make_topic(partitions=1_000)
    commit = {"name": "orders", "partitions": [{"partition_index": n, "committed_offset": 1} for n in range(1_000)]}
    rig.step(Received(1, _requests(1, "OffsetCommit", group_id="g", topics=[commit])))
    rig.wake_until_idle()
    rig.step(Received(1, _requests(50, "OffsetFetch", first=1, group_id="g")))
    assert len(rig.node.core.outbox.ready) + rig.heard_of[1] < 10
    rig.wake_until_idle()
    assert rig.heard_of[1] == 51


def test_a_flooding_connection_that_is_lost_leaves_nothing() -> None:
    rig = _Counting()
    rig.connect(1)
    rig.step(Received(1, _requests(6_000, "DescribeGroups", groups=["g"])))
    rig.step(Lost(1))
    rig.wake_until_idle()
    assert not rig.node.core.outbox
    assert rig.node.core.connections == {}


def test_a_violation_behind_a_flood_closes_when_its_turn_comes() -> None:
    rig = _Counting()
    rig.connect(1)
    rig.step(Received(1, _requests(6_000, "DescribeGroups", groups=["g"]) + msgpack.packb([7])))
    assert rig.closed == {}
    rig.wake_until_idle()
    assert 1 in rig.closed
