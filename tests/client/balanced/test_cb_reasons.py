"""Reasons for which nothing comes (docs/spec/client-balanced-groups.md#5.6), and applications that keep their own
offsets (7 and 10)."""

from functools import partial

import pytest

from muster.core.balancing.events import DisconnectAsked
from muster.core.balancing.loop import rebalance_once
from protocol.messages.balanced import RegisterItem
from tests.client.balanced.rigs import RIGS, BalancedRig
from tests.client.balanced.world import SimMember

K0, K1 = "1:t:0", "1:t:1"


@pytest.fixture(params=RIGS)
def world(request: pytest.FixtureRequest) -> BalancedRig:
    """Two partitions of three records each, a batch a record."""
    rig = RIGS[request.param]().make("t", 2)
    for key in (K0, K1):
        for number in range(3):
            rig.append(key, b"%s-%d" % (key.encode(), number))
    return rig


def reader(world: BalancedRig, *keys: str, who: str = "A", **settings: object) -> SimMember:
    return world.member(who, **{"consume_position": "first", "fetch_max_bytes": 1, **settings}).on_the_way(*keys)


def _disconnecting(key: str, number: int) -> DisconnectAsked:
    return DisconnectAsked(number, key)


# ------------------------------------------------------------------------------------------------------- nothing comes


def test_while_every_partition_is_being_given_up_or_registered_the_answer_is_405(world: BalancedRig) -> None:
    one = reader(world, K0, K1, ready_wait_ms=300)
    batches = [one.batch(), one.batch()]
    going = [one.begin(partial(_disconnecting, batch.key)) for batch in batches]
    said = one.get()
    assert (said.code, one.world.now_ms > going[0].asked_ms) == (405, True)
    assert not any(call.is_over for call in going), "each waits for its batch to be confirmed"
    for batch in batches:
        assert one.confirm(batch.confirm_ctx).ok
    world.run_until(lambda: all(call.is_over for call in going))
    assert one.get().code == 406


def test_one_partition_that_is_given_up_freezes_no_other(world: BalancedRig) -> None:
    one = reader(world, K0, K1, ready_wait_ms=300)
    batches = {batch.key: batch for batch in (one.batch(), one.batch())}
    one.begin(lambda number: DisconnectAsked(number, K0))
    assert one.get().code == 408, "the other is in use"
    assert one.confirm(batches[K1].confirm_ctx).ok
    assert one.batch().key == K1


def test_while_every_partition_rests_after_its_end_the_answer_is_407(world: BalancedRig) -> None:
    one = reader(world, K0, ready_wait_ms=0, not_found_wait_ms=400)
    for _ in range(3):
        assert one.confirm(one.batch().confirm_ctx).ok
    ended = one.get()
    while ended.code == 407:
        world.run(100)
        ended = one.get()
    assert ended.code == 404
    began_ms = world.now_ms
    one.sent.clear()
    assert one.get().code == 407
    assert "FetchRegistered" not in one.kinds(), "nothing is asked while it rests"
    world.run(began_ms + 401 - world.now_ms)
    assert one.get().code == 404, "it rests for 400 ms, and is asked for again"


# ------------------------------------------------------------------------------- offsets that the application keeps


def registered(player: SimMember) -> dict[str, int]:
    """The offsets that were sent, by key."""
    items: list[RegisterItem] = [item for message in player.messages("RegisterPartitions") for item in message.items]
    return {item.key: item.offset for item in items}


def test_what_is_saved_is_what_is_sent_and_for_all_else_the_server_is_asked(world: BalancedRig) -> None:
    one = reader(world)
    done = rebalance_once(one.as_consumer(), saved={K0: 2, "1:t:7": 9})
    assert done.connected == (K0, K1)
    assert registered(one) == {K0: 2, K1: -1}
    offsets = {one_batch.key: one_batch.messages[0].offset for one_batch in (one.batch(), one.batch())}
    assert offsets == {K0: 2, K1: 0}


def test_a_saved_offset_is_not_sent_again_for_what_is_owned_already(world: BalancedRig) -> None:
    one = reader(world)
    rebalance_once(one.as_consumer(), saved={K0: 1})
    one.sent.clear()
    rebalance_once(one.as_consumer(), saved={K0: 0})
    assert registered(one) == {}


def test_an_application_that_is_restarted_goes_on_from_what_it_has_saved_itself(world: BalancedRig) -> None:
    """It stores where it is with its results, and confirms late: what the server has is older than what it saved."""
    saved: dict[str, int] = {}
    seen: dict[str, list[int]] = {K0: [], K1: []}

    def work(player: SimMember, batches: int) -> None:
        for _ in range(batches):
            batch = player.batch()
            seen[batch.key] += [record.offset for record in batch.messages]
            saved[batch.key] = batch.messages[-1].offset + 1
            if saved[batch.key] == 1:
                assert player.confirm(batch.confirm_ctx).ok
            else:
                player.confirm(batch.confirm_ctx, consumed=False)
                return

    first = reader(world)
    rebalance_once(first.as_consumer(), saved=saved)
    work(first, 4)
    assert any(offset == 2 for offset in saved.values())
    before = dict(world.committed())
    first.is_cut = True  # it is killed, and its session ends
    world.run(40_000)

    second = reader(world, who="B")
    done = rebalance_once(second.as_consumer(), saved=saved)
    assert done.connected == (K0, K1)
    assert registered(second) == saved
    assert any(before.get(key, 0) < offset for key, offset in saved.items()), "the server alone would repeat records"
    while any(len(offsets) < 3 for offsets in seen.values()):
        batch = second.batch()
        seen[batch.key] += [record.offset for record in batch.messages]
        assert second.confirm(batch.confirm_ctx).ok
    assert seen == {K0: [0, 1, 2], K1: [0, 1, 2]}, "each record once"
    assert world.committed() == {K0: 3, K1: 3}
