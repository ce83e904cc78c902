"""Leases, joining again, going away: docs/spec/client-balanced-groups.md#17.55 to #17.60."""

from functools import partial

import pytest

from muster.core.balancing.events import ConfirmAsked, ConnectAsked, ShutdownAsked
from protocol.errors import ErrorCode
from protocol.messages.balanced import MemberHeartbeatReply
from tests.client.balanced.rigs import RIGS, BalancedRig
from tests.client.balanced.world import SimMember

K0, K1 = "1:t:0", "1:t:1"


def prepared(kind: str) -> BalancedRig:
    rig = RIGS[kind]().make("t", 5)
    for number in range(5):
        for turn in range(4):
            rig.append(f"1:t:{number}", b"%d-%d" % (number, turn))
    return rig


@pytest.fixture(params=RIGS)
def world(request: pytest.FixtureRequest) -> BalancedRig:
    return prepared(request.param)


@pytest.fixture
def modelled() -> BalancedRig:
    return prepared("model")


def reader(world: BalancedRig, *keys: str, who: str = "A", **settings: object) -> SimMember:
    return world.member(who, **{"consume_position": "first", "fetch_max_bytes": 1, **settings}).on_the_way(*keys)


@pytest.mark.parametrize("refuses", [True, False])
@pytest.mark.parametrize("cut", ["everything", "heartbeats"])
def test_cb55_who_is_cut_off_stops_delivering_before_anybody_else_begins(
    world: BalancedRig, cut: str, refuses: bool
) -> None:
    world.refuses_connections = refuses
    one, other = reader(world, K0, ready_wait_ms=20), reader(world, who="B", ready_wait_ms=20)
    delivered: list[tuple[str, int]] = []

    def play(player: SimMember) -> None:
        asked = player.getting()
        world.run(50, lambda: asked.is_over)
        if asked.is_over and asked.result.ok:
            delivered.append((player.who, world.now_ms))
            player.begin(partial(ConfirmAsked, context=asked.result.data.confirm_ctx, consumed=True))

    play(one)
    one.is_cut, one.cut_kinds = cut == "everything", frozenset({"MemberHeartbeat"})
    cut_ms = world.now_ms
    while world.now_ms < cut_ms + 35_000:
        world.append(K0, b"more")
        play(one)
        play(other)
        if not other.core.registered:
            other.begin(partial(ConnectAsked, key=K0))
        world.run(200)
    one.is_cut, one.cut_kinds = False, frozenset()
    while world.now_ms < cut_ms + 50_000:
        play(one)
        play(other)
        if not other.core.registered:
            other.begin(partial(ConnectAsked, key=K0))
    assert (one.core.registered, other.core.registered) == ([], [K0])
    assert one.core.is_joined
    assert delivered[-1][0] == "B"
    assert [who for who, _ in delivered] == sorted(who for who, _ in delivered)
    if cut == "heartbeats":
        last_ms = max(at_ms for who, at_ms in delivered if who == "A")
        assert cut_ms + 19_000 < last_ms < cut_ms + 30_500


def test_an_answer_that_comes_after_the_lease_is_over_is_not_handed_out(world: BalancedRig) -> None:
    one = reader(world, K0, ready_wait_ms=60_000, request_timeout_ms=60_000)
    asked = one.getting()
    one.is_cut = True
    call = next(call for call in one.waiting.values() if type(call.message).__name__ == "FetchRegistered")
    reply = world.coordinator.answer(call.message, world.now_ms)
    world.run(30_001)
    one.hear(call.call, reply)
    assert not asked.is_over or not asked.result.ok
    assert one.core.registered == []


@pytest.mark.parametrize("has_batch", [True, False])
def test_cb56_removed_at_the_server_it_joins_again_and_loses_and_repeats_nothing(
    world: BalancedRig, has_batch: bool
) -> None:
    one = reader(world, K0, K1)
    assert one.confirm(one.batch().confirm_ctx).ok
    batch = one.batch() if has_batch else None
    world.remove("A")
    world.run(11_000)
    assert one.core.is_joined
    assert one.core.registered == [K0, K1]
    assert [note.event for note in one.notes] == []
    if batch is not None:
        assert one.confirm(batch.confirm_ctx).ok
    seen = {} if batch is None else {batch.key: [record.offset for record in batch.messages]}
    for _ in range(20):
        result = one.get()
        if result.ok:
            seen.setdefault(result.data.key, []).extend(record.offset for record in result.data.messages)
            assert one.confirm(result.data.confirm_ctx).ok
    first = 1 if not has_batch else 0
    assert sorted(map(tuple, seen.values())) == sorted([(1, 2, 3), (0, 1, 2, 3)]), first
    assert world.committed() == {K0: 4, K1: 4}


def test_a_confirmation_that_meets_the_removal_is_told_after_joining_again(modelled: BalancedRig) -> None:
    one = reader(modelled, K0)
    context = one.batch().confirm_ctx
    modelled.remove("A")
    assert one.confirm(context).ok
    assert modelled.committed() == {K0: 1}
    assert one.values() == [b"0-1"]


def test_who_is_told_that_it_owns_nothing_finds_out_at_once_whether_it_is_a_member() -> None:
    world = prepared("node")
    one = reader(world, K0, K1)
    batches = [one.batch(), one.batch()]
    world.remove("A")
    assert one.confirm(batches[0].confirm_ctx).code == 401
    world.run(100)
    assert one.core.is_joined
    assert one.core.registered == [batches[1].key]  # which was its own, and nobody else's since
    assert one.confirm(batches[1].confirm_ctx).ok
    assert one.connect(batches[0].key).ok
    seen = {batch.key: batch.messages[0].offset for batch in (one.batch() for _ in range(2))}
    assert seen == {batches[1].key: 1, batches[0].key: 0}


def test_cb57_when_joining_again_is_refused_all_keys_are_dropped_and_the_reason_surfaces(world: BalancedRig) -> None:
    one = reader(world, K0, K1)
    world.remove("A")
    other = world.member("B")
    assert other.start(3, 0).ok  # the group is another's by now
    world.run(11_000)
    assert one.core.registered == []
    for _ in range(2):
        assert one.get().code == 429
        assert one.meta().code == 429
    assert one.connect(K0).code == 429
    assert other.shut_down().ok
    world.run(11_000)  # the group is as it was again
    assert one.meta().ok
    assert one.connect(K0).ok


def test_cb60_shutting_down_frees_all_at_once_commits_what_was_confirmed_and_returns_the_rest(
    world: BalancedRig,
) -> None:
    keys = [f"1:t:{number}" for number in range(5)]
    one = reader(world, *keys, confirm_in_local=True)
    batches = [one.batch() for _ in keys]
    for batch in batches[:3]:
        assert one.confirm(batch.confirm_ctx).ok
    waits = one.getting()
    world.run(10)
    said = one.shut_down()
    assert said.ok
    assert one.core.is_shutdown and one.core.is_ended
    assert world.owners() == {}
    assert world.members() == []
    assert len(world.committed()) >= 3
    assert waits.is_over
    one.sent.clear()
    assert one.shut_down().ok
    assert one.kinds() == []
    assert one.start().code == 420
    assert [one.meta().code, one.connect(K0).code, one.disconnect(K0).code, one.get().code] == [420] * 4
    other = reader(world, *keys, who="B")
    first = {batch.key: batch.messages[0].offset for batch in (other.batch() for _ in keys)}
    assert all(first[batch.key] >= 1 for batch in batches[:3])
    assert [first[batch.key] for batch in batches[3:]] == [0, 0]


def test_while_shutting_down_confirmations_come_too_late(world: BalancedRig) -> None:
    one = reader(world, K0)
    context = one.batch().confirm_ctx
    going = one.begin(ShutdownAsked)
    late = one.begin(lambda number: ConfirmAsked(number, context, True))
    world.run_until(lambda: going.is_over)
    assert late.result.code == 420
    assert going.took_ms >= 200


def test_in_touch_again_before_the_lease_is_over_it_keeps_its_keys(world: BalancedRig) -> None:
    one = reader(world, K0)
    world.refuses_connections = True
    one.is_cut = True
    world.run(27_000)
    one.is_cut = False
    world.run(10_000)
    assert one.core.registered == [K0]
    assert world.owners()[K0].consumer_id == "A"


def test_a_newer_object_of_the_same_instance_id_ends_it(modelled: BalancedRig) -> None:
    one = reader(modelled, K0, instance_id="i")
    modelled.model.instead = lambda message: (
        MemberHeartbeatReply(ErrorCode.REPLACED_MEMBER) if type(message).__name__ == "MemberHeartbeat" else None
    )
    modelled.run(11_000)
    assert one.core.registered == []
    assert one.get().code == 461
    one.sent.clear()
    modelled.run(60_000)
    assert one.kinds() == []
    assert one.shut_down().ok
    assert one.kinds() == []


def test_the_whole_list_is_reported_when_it_has_changed_and_every_sixtieth_time(modelled: BalancedRig) -> None:
    one = reader(modelled, K0)
    modelled.run(15_000)
    reports = modelled.model.members["A"].reports
    assert [[key.key for key in report] for report in reports] == [[K0]]
    assert one.connect(K1).ok
    modelled.run(11_000)
    assert [key.key for key in reports[-1]] == [K0, K1]
    del reports[:]
    modelled.run(60 * 10_000)
    assert [[key.key for key in report] for report in reports] == [[K0, K1]]


def test_an_operator_s_wish_moves_every_owned_partition_to_its_end_once(modelled: BalancedRig) -> None:
    one = reader(modelled, K0, K1)
    batch = one.batch()
    modelled.model.from_max_id = 7
    modelled.run(15_000)
    idle = K1 if batch.key == K0 else K0
    assert one.core.offsets[idle].curr == 4
    assert one.confirm(batch.confirm_ctx).ok  # it goes to its end when its batch is out of the way
    modelled.run(11_000)
    assert one.core.offsets[batch.key].curr == 4
    assert modelled.model.stored == {K0: 4, K1: 4}
    assert modelled.model.members["A"].acked == 7
    modelled.model.configured[K0].append([b"new"])
    modelled.run(30_000)
    assert one.values() == [b"new"]


def test_a_coordinator_that_cannot_be_reached_is_asked_again_at_start_so_many_times(world: BalancedRig) -> None:
    one = world.member()
    one.is_cut = world.refuses_connections = True
    asked = one.begin(one.starting(-1, -1))
    world.run_until(lambda: asked.is_over)
    assert asked.result.code == 500
    assert one.kinds() == ["FindCoordinator"] * 5
    assert 4_000 <= asked.took_ms <= 4_100
    assert one.core.is_shutdown
    one.is_cut = False
    assert one.start().ok


def test_a_node_id_that_is_taken_is_asked_for_until_the_tries_are_used_up(world: BalancedRig) -> None:
    assert world.member("A").start(3, 1).ok
    other = world.member("B")
    asked = other.begin(other.starting(3, 1))
    world.run_until(lambda: asked.is_over)
    assert (asked.result.code, "A" in asked.result.msg) == (430, True)
    assert other.kinds().count("StartMember") == 5
    assert other.start(2, 0).code == 429
    assert other.kinds().count("StartMember") == 6


def test_who_shuts_down_just_after_a_connection_was_lost_still_says_so(world: BalancedRig) -> None:
    one = reader(world, K0)
    one.is_cut = world.refuses_connections = True
    assert one.disconnect(K0).msg  # by now it has no coordinator
    one.is_cut = False
    assert one.shut_down().ok
    assert world.members() == []


def test_who_shuts_down_while_nobody_can_be_reached_does_not_wait_for_long(world: BalancedRig) -> None:
    one = reader(world, K0)
    one.is_cut = world.refuses_connections = True
    asked = one.begin(ShutdownAsked)
    world.run_until(lambda: asked.is_over)
    assert asked.took_ms < 1_000
    assert [note.event for note in one.notes] == ["not told that it left"]
    assert one.core.is_ended


def test_what_was_granted_to_a_request_that_was_never_answered_is_given_up(world: BalancedRig) -> None:
    one, other = reader(world), reader(world, who="B")
    one.late_ms = 2_500
    asked = one.begin(partial(ConnectAsked, key=K0))
    world.run_until(lambda: asked.is_over)
    assert asked.result.code == 500
    one.late_ms = 0
    world.run(3_000)
    assert world.owners()[K0].consumer_id == "A"  # who does not know of it
    assert other.connect(K0).code == 410
    world.run(20_000)
    assert K0 not in world.owners()
    assert other.connect(K0).ok
    one.sent.clear()
    world.run(60_000)
    assert one.kinds().count("DescribeBalanced") <= 3  # it does not doubt for ever


def test_a_registration_that_comes_after_its_key_was_given_up_is_found_out_about_too(world: BalancedRig) -> None:
    one = reader(world)
    one.late_ms = 4_000
    asked = one.begin(partial(ConnectAsked, key=K0))
    world.run(10)
    one.late_ms = 0
    world.run_until(lambda: asked.is_over)
    assert asked.result.ok  # at the second try
    assert one.disconnect(K0).ok
    world.run(4_000)
    assert K0 in world.owners()
    world.run(20_000)
    assert K0 not in world.owners()
