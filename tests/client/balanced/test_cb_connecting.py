"""Owning partitions and giving them up: docs/spec/client-balanced-groups.md#17.22 to #17.47."""

import pytest

from muster.core.balancing import Share, hash_mod, index_mod, range_share
from muster.core.balancing.events import ConfirmAsked, ConnectAsked, DisconnectAsked
from muster.core.balancing.loop import rebalance_once
from tests.client.balanced.rigs import RIGS, BalancedRig, ModelRig
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


# ---------------------------------------------------------------------------------------------------------- connecting


def test_cb22_what_is_connected_before_the_metadata_was_ever_asked_for_is_not_found(world: BalancedRig) -> None:
    one = world.member()
    assert one.start().ok
    world.run(1_000)  # heartbeats have gone to and fro
    assert one.connect(K0).code == 404
    assert "RegisterPartitions" not in one.kinds()
    assert one.meta().ok
    assert one.connect(K0).ok
    assert one.connect("1:t:9").code == 404


def test_cb23_a_key_that_cannot_be_subscribed_to_is_refused_and_nothing_is_sent(world: BalancedRig) -> None:
    world.flip(K1, subscribable=False)
    one = reader(world)
    assert one.connect(K1).code == 422
    assert one.kinds() == []
    assert one.core.registered == []


@pytest.mark.parametrize("key", ["a:b", "1:t:x", "1:t:-1", "01:t:0", "", " ", "1:t:0:", "1::0"])
def test_cb24_keys_that_are_none_are_refused(world: BalancedRig, key: str) -> None:
    one = reader(world)
    assert one.connect(key).code == 400
    assert one.kinds() == []


def test_cb26_whoever_lost_the_race_is_put_off_without_traffic_and_asks_again_after_five_seconds(
    world: BalancedRig,
) -> None:
    reader(world, K0, who="A")
    loser = reader(world, who="B")
    refused = loser.connect(K0)
    assert (refused.code, "A" in refused.msg) == (410, True)
    loser.sent.clear()
    world.run(1_000)
    assert loser.connect(K0).code == 421
    assert "RegisterPartitions" not in loser.kinds()
    world.run(4_000)
    assert loser.connect(K0).code == 410
    assert loser.kinds().count("RegisterPartitions") == 1


def test_cb27_what_its_owner_gives_up_goes_to_the_loser_by_a_newer_grant(world: BalancedRig) -> None:
    owner, loser = reader(world, K0, who="A"), reader(world, who="B")
    assert loser.connect(K0).code == 410
    before = world.owners()[K0].reg_epoch
    assert owner.disconnect(K0).ok
    world.run(5_000)
    assert loser.connect(K0).ok
    assert loser.core.registered == [K0]
    assert world.owners()[K0].reg_epoch > before


def test_cb30_connecting_what_is_owned_again_succeeds_and_moves_nothing(world: BalancedRig) -> None:
    one = reader(world, K0)
    assert one.confirm(one.batch().confirm_ctx).ok
    one.sent.clear()
    again = one.connect(K0, 0)
    assert (again.ok, again.data.curr) == (True, 1)
    assert one.kinds() == []
    assert one.values() == [b"1:t:0-1"]


# ------------------------------------------------------------------------------------------------------- disconnecting


@pytest.mark.parametrize("is_confirmed", [True, False])
@pytest.mark.parametrize("in_local", [True, False])
def test_cb37_the_next_owner_goes_on_after_what_was_confirmed_and_gets_again_what_was_not(
    world: BalancedRig, is_confirmed: bool, in_local: bool
) -> None:
    owner = reader(world, K0, who="A", confirm_in_local=in_local)
    batch = owner.batch()
    assert [record.value for record in batch.messages] == [b"1:t:0-0"]
    if is_confirmed:
        assert owner.confirm(batch.confirm_ctx).ok
    assert owner.disconnect(K0).ok
    assert owner.core.registered == []
    successor = reader(world, K0, who="B")
    assert successor.values() == ([b"1:t:0-1"] if is_confirmed else [b"1:t:0-0"])


def test_cb38_giving_up_waits_for_the_application_to_confirm(world: BalancedRig) -> None:
    one = reader(world, K0, confirm_in_local=True)
    context = one.batch().confirm_ctx
    going = one.begin(lambda number: DisconnectAsked(number, K0))
    world.run(1_000)
    assert not going.is_over
    assert one.confirm(context).ok
    world.run_until(lambda: going.is_over)
    assert going.result.ok
    assert 1_000 <= going.took_ms <= 1_010
    (message,) = one.messages("UnregisterPartitions")
    assert message.items[0].consumed
    assert world.committed()[K0] == 1


def test_cb39_disconnecting_what_is_not_owned_succeeds_without_traffic(world: BalancedRig) -> None:
    one = reader(world, K0)
    assert one.disconnect(K1).ok
    assert one.disconnect("1:other:0").ok
    assert one.kinds() == []
    assert one.core.registered == [K0]


# ---------------------------------------------------------------------------------------------------------- confirming


def test_cb40_a_context_counts_once_and_not_after_its_partition_was_connected_anew(world: BalancedRig) -> None:
    one = reader(world, K0)
    first = one.batch().confirm_ctx
    assert one.confirm(first).ok
    assert one.confirm(first).code == 400
    second = one.batch().confirm_ctx
    assert one.disconnect(K0).ok
    assert one.connect(K0).ok
    assert one.confirm(second).code == 400
    assert one.values() == [b"1:t:0-1"]
    assert one.confirm(second).code == 400  # it is another take by now
    for nonsense in ("", "1:t:0", "1:t:0:", "1:t:0:x", ":::"):
        assert one.confirm(nonsense).code == 400


def test_cb41_what_was_confirmed_as_not_consumed_is_delivered_again_and_nothing_moves(world: BalancedRig) -> None:
    one = reader(world, K0)
    batch = one.batch()
    said = one.confirm(batch.confirm_ctx, consumed=False)
    assert (said.ok, said.data.curr) == (True, 0)
    assert K0 not in world.committed()
    again = one.batch()
    assert [record.offset for record in again.messages] == [0]
    assert again.confirm_ctx != batch.confirm_ctx
    assert one.confirm(again.confirm_ctx).ok
    assert world.committed()[K0] == 1


def test_cb42_three_readers_of_two_partitions_the_third_waits_and_hears_that_all_are_in_use(world: BalancedRig) -> None:
    one = reader(world, K0, K1, ready_wait_ms=2_000)
    askers = [one.getting() for _ in range(3)]
    world.run(100)
    batches = [asker.result.data for asker in askers[:2]]
    assert {batch.key for batch in batches} == {K0, K1}
    assert not askers[2].is_over
    world.run_until(lambda: askers[2].is_over)
    assert (askers[2].result.code, askers[2].took_ms) == (408, 2_000)
    seen: dict[str, list[int]] = {K0: [], K1: []}
    for _ in range(2):
        for batch in batches:
            seen[batch.key] += [record.offset for record in batch.messages]
            assert one.confirm(batch.confirm_ctx).ok
        askers = [one.getting() for _ in range(2)]
        world.run(100)
        batches = [asker.result.data for asker in askers]
    for batch in batches:
        seen[batch.key] += [record.offset for record in batch.messages]
    assert seen == {K0: [0, 1, 2], K1: [0, 1, 2]}


@pytest.mark.parametrize(("wait_ms", "took_ms"), [(0, 5), (200, 200)])
def test_cb43_with_nothing_registered_a_read_ends_after_its_wait(
    world: BalancedRig, wait_ms: int, took_ms: int
) -> None:
    one = reader(world, ready_wait_ms=wait_ms)
    asker = one.getting()
    world.run_until(lambda: asker.is_over)
    assert (asker.result.code, asker.took_ms) == (406, took_ms)


def test_cb44_being_ready_is_heard_of_when_a_partition_is_connected_or_the_time_is_over(world: BalancedRig) -> None:
    one = reader(world)
    waits = one.ready(1_000)
    world.run(300)
    assert one.connect(K0).ok
    world.run_until(lambda: waits.is_over)
    assert waits.result.ok
    assert 300 <= waits.took_ms <= 310
    other = reader(world, who="B")
    waits = other.ready(1_000)
    world.run_until(lambda: waits.is_over)
    assert (waits.result.ok, waits.took_ms) == (False, 1_000)


# ----------------------------------------------------------------------------------------------------- what there is


def balanced(
    world: BalancedRig, players: list[SimMember], rounds: int = 1, share: Share = hash_mod
) -> dict[str, list[str]]:
    for _ in range(rounds):
        for player in players:
            rebalance_once(player.as_consumer(), share)
        world.run(10_000)
    return {player.who: player.core.registered for player in players}


def members(world: BalancedRig, count: int) -> list[SimMember]:
    players = [world.member(f"node-{number}", consume_position="first") for number in range(count)]
    for number, player in enumerate(players):
        assert player.start(count, number, demo=None).ok
    return players


@pytest.mark.parametrize("kind", RIGS)
@pytest.mark.parametrize("share", [hash_mod, index_mod, range_share])
def test_cb45_while_a_broker_is_down_its_keys_are_released_and_no_other_moves(kind: str, share: Share) -> None:
    world = RIGS[kind]().make("demo", 5)
    players = members(world, 2)
    whole = balanced(world, players, share=share)
    assert [len(keys) for keys in whole.values()] == [3, 2]
    before = world.owners()
    gone = {"1:demo:0", "1:demo:3"}
    for key in sorted(gone):
        world.flip(key, subscribable=False)
    left = {who: [key for key in keys if key not in gone] for who, keys in whole.items()}
    assert balanced(world, players, 2, share) == left
    assert world.owners() == {key: owner for key, owner in before.items() if key not in gone}
    for key in sorted(gone):
        world.flip(key, subscribable=True)
    assert balanced(world, players, 2, share) == whole
    after = world.owners()
    assert {key for key in after if after[key] != before[key]} == gone


def test_two_brokers_one_of_which_is_down_as_the_worked_example_has_it() -> None:
    world = ModelRig()
    for key in ("1:demo:0", "1:demo:1", "1:demo:2", "2:demo:0", "2:demo:1"):
        world.model.configure(key)
    players = members(world, 2)
    whole = {"node-0": ["1:demo:0", "1:demo:2", "2:demo:1"], "node-1": ["1:demo:1", "2:demo:0"]}
    assert balanced(world, players) == whole
    for key in ("2:demo:0", "2:demo:1"):
        world.flip(key, subscribable=False)
    assert balanced(world, players, 2) == {"node-0": ["1:demo:0", "1:demo:2"], "node-1": ["1:demo:1"]}
    for key in ("2:demo:0", "2:demo:1"):
        world.flip(key, subscribable=True)
    assert balanced(world, players, 2) == whole


@pytest.mark.parametrize("kind", RIGS)
def test_cb46_when_a_topic_grows_old_keys_keep_their_owners_and_new_ones_are_connected_within_one_loop(
    kind: str,
) -> None:
    world = RIGS[kind]().make("demo", 4)
    players = members(world, 2)
    before = balanced(world, players)
    grants = world.owners()
    assert sum(map(len, before.values())) == 4
    world.make("demo", 6)
    after = balanced(world, players)
    assert {key: owner for key, owner in world.owners().items() if key in grants} == grants
    for who, keys in before.items():
        assert set(keys) < set(after[who])
    assert sum(map(len, after.values())) == 6


def test_cb47_a_key_that_is_no_longer_configured_is_given_up() -> None:
    world = ModelRig()
    world.make("t", 2)
    for key in (K0, K1):
        world.append(key, b"x")
    one = reader(world, K0, K1)
    context = one.batch().confirm_ctx
    gone = context.rpartition(":")[0]
    del world.model.configured[gone]
    world.model.version += 1
    world.run(14_000)  # the next heartbeat tells of it, and the batch is waited for
    assert one.core.registered == [K1 if gone == K0 else K0]
    assert one.confirm(context).code == 400
    assert [note.event for note in one.notes] == ["partition given up"]
    (message,) = one.messages("UnregisterPartitions")
    assert [item.key for item in message.items] == [gone]


def test_connections_of_one_key_wait_for_each_other(world: BalancedRig) -> None:
    one = reader(world)
    first = one.begin(lambda number: ConnectAsked(number, K0))
    second = one.begin(lambda number: DisconnectAsked(number, K0))
    third = one.begin(lambda number: ConnectAsked(number, K0))
    world.run_until(lambda: third.is_over)
    assert [call.result.ok for call in (first, second, third)] == [True] * 3
    assert one.kinds() == ["RegisterPartitions", "UnregisterPartitions", "RegisterPartitions"]
    assert one.core.registered == [K0]


def test_a_release_that_nobody_heard_is_told_again_in_the_next_heartbeat(world: BalancedRig) -> None:
    one = reader(world, K0)
    one.is_cut = world.refuses_connections = True
    said = one.disconnect(K0)
    assert (said.ok, said.msg != "") == (True, True)
    one.is_cut = False
    assert world.owners()[K0].consumer_id == "A"
    world.run(11_000)
    assert K0 not in world.owners()
    beats = [message for message in one.messages("MemberHeartbeat") if message.released]
    assert [item.key for item in beats[0].released] == [K0]
    assert len({id(message) for message in beats}) == len(beats)
    one.sent.clear()
    world.run(11_000)
    assert not any(message.released for message in one.messages("MemberHeartbeat"))


def test_confirming_twice_at_once_sends_one_commit(world: BalancedRig) -> None:
    one = reader(world, K0)
    context = one.batch().confirm_ctx
    first = one.begin(lambda number: ConfirmAsked(number, context, True))
    second = one.begin(lambda number: ConfirmAsked(number, context, True))
    world.run_until(lambda: first.is_over)
    assert (first.result.code, second.result.code) == (200, 400)
    assert one.kinds().count("ConfirmConsumed") == 1


def test_a_fetch_may_be_held_back_only_while_no_other_partition_could_be_read() -> None:
    world = ModelRig().make("t", 2)
    one = reader(world, K0, K1, fetch_wait_ms=500)
    world.append(K1, b"x")
    assert one.get().code == 404
    batch = one.batch()
    assert batch.key == K1
    world.run(400)
    assert one.get().code == 404
    assert [message.max_wait_ms for message in one.messages("FetchRegistered")] == [0, 0, 500]
