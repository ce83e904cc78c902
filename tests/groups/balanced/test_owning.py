"""Owners of partitions, and their first positions (docs/spec/client-balanced-groups.md#7, #8, #11): raw requests
against a node."""

from typing import Any

import pytest

from coordinator.groups.client_balanced.events import PartitionOffsets
from coordinator.groups.client_balanced.grants import ALWAYS_MAX, FIRST, LATEST, initial_position
from coordinator.groups.client_balanced.registering import next_read
from protocol.errors import ErrorCode
from protocol.messages.balanced import (
    ConfirmConsumed,
    ConfirmConsumedReply,
    ConfirmItem,
    FetchItem,
    FetchRegistered,
    FetchRegisteredReply,
    HeldKey,
    LostKey,
    PartitionsLost,
    RegisterItem,
    RegisterPartitions,
    RegisterPartitionsReply,
    ReleasedKey,
)
from protocol.messages.groups import MemberRemoved
from tests.groups.balanced.group_rig import SESSION_MS, GroupRig
from tests.groups.checks import balanced_of

NONE = ErrorCode.NONE
OCCUPIED = ErrorCode.PARTITION_OCCUPIED


@pytest.mark.parametrize("key", ["a:b", "1:t:x", "1:t:-1", "01:t:0", "", "2:demo:0"])
def test_a_key_that_is_none_here_is_refused_by_the_server_too(key: str) -> None:
    assert GroupRig().started("a").register(key).error_code is ErrorCode.BAD_REQUEST


@pytest.mark.parametrize("key", ["1:demo:4", "1:other:0"])
def test_a_partition_that_is_not_configured_is_not_found(key: str) -> None:
    rig = GroupRig()
    rig.node_rig.make_topic("other", 1)
    assert rig.started("a").register(key).error_code is ErrorCode.NOT_FOUND


def test_a_partition_that_cannot_be_read_is_not_given() -> None:
    rig = GroupRig()
    client = rig.started("a")
    rig.node_rig.store._files.damaged["demo-1"] = "demo-1 is damaged"
    balanced_of(client.rig.node_rig.node.core).meta_as_of = -1
    refused = client.register(1)
    assert (refused.error_code, refused.error_message) == (ErrorCode.UNSUBSCRIBABLE, "its log is damaged")
    assert client.register(0).error_code is NONE


def test_who_is_no_member_owns_nothing() -> None:
    rig = GroupRig()
    assert rig.member("a").register(0).error_code is ErrorCode.NO_NODE
    client = rig.started("b")
    client.epoch -= 1
    assert client.register(0).error_code is ErrorCode.NO_NODE


def test_cb25_of_two_that_ask_for_one_partition_exactly_one_gets_it_each_round() -> None:
    rig = GroupRig(1)
    clients = [rig.started("a"), rig.started("b")]
    for number in range(1_000):
        first, second = clients if number % 2 else reversed(clients)
        assert [first.register(0).error_code, second.register(0).error_code] == [NONE, OCCUPIED]
        assert first.unregister(0).error_code is NONE
        assert first.grants["1:demo:0"] == number + 1


def test_the_one_that_is_refused_hears_who_owns_it() -> None:
    rig = GroupRig()
    rig.started("a").register(0)
    refused = rig.started("b").register(0)
    assert (refused.error_code, refused.owner) == (OCCUPIED, "a")
    assert refused.error_message == "a at 10.0.0.1 owns it"


def test_groups_never_stand_in_each_others_way() -> None:
    rig = GroupRig()
    rig.started("a").register(0)
    assert rig.started("b", group_id="other").register(0).error_code is NONE


def test_each_item_of_a_request_has_its_own_answer_and_each_key_counts_once() -> None:
    rig = GroupRig()
    client = rig.started("a")
    rig.started("b").register(1)
    items = tuple(RegisterItem(f"1:demo:{number}") for number in (0, 1, 2, 0))
    reply = client.ask(RegisterPartitions("g", "a", client.epoch, items), RegisterPartitionsReply)
    assert [one.error_code for one in reply.items] == [NONE, OCCUPIED, NONE, ErrorCode.BAD_REQUEST]


def test_when_the_owner_lets_go_the_next_one_owns_by_a_larger_epoch() -> None:
    rig = GroupRig()
    one, other = rig.started("a"), rig.started("b")
    assert one.register(0).reg_epoch == 1
    one.unregister(0)
    assert other.register(0).reg_epoch == 2


def test_cb28_the_partitions_of_a_killed_owner_are_free_when_its_lease_is_over_and_its_batch_comes_again() -> None:
    rig = GroupRig()
    rig.produce(0, 6)
    one, other = rig.started("a", consume_position="first"), rig.started("b", consume_position="first")
    one.register(0)
    assert one.read(0) == list(range(6))
    rig.node_rig.wait(SESSION_MS - 1)
    other.beat()
    assert other.register(0).error_code is OCCUPIED
    rig.node_rig.wait(1)
    assert rig.owners()["1:demo:0"] is None
    assert other.register(0).reg_epoch == 2
    assert other.read(0) == list(range(6))
    lost = PartitionsLost("g", "a", ("1:demo:0",), "lease over")
    assert one.told() == [lost, MemberRemoved("g", "a", "lease over")]


def test_who_asks_at_the_moment_a_lease_is_over_gets_the_partition_in_one_step() -> None:
    rig = GroupRig()
    one, other = rig.started("a"), rig.started("b")
    one.register(0)
    rig.node_rig.wait(10_000)
    other.beat()
    rig.node_rig.now_ms += SESSION_MS - 10_000  # and nobody has looked at leases yet
    assert other.register(0).error_code is NONE
    assert [one.consumer_id for one in rig.view().members] == ["b"]


def test_cb29_an_owner_that_was_paused_too_long_fetches_commits_and_releases_nothing() -> None:
    rig = GroupRig()
    rig.produce(0, 6)
    one, other = rig.started("a", consume_position="first"), rig.started("b", consume_position="first")
    one.register(0)
    one.read(0)
    rig.node_rig.wait(20_000)
    other.beat()
    rig.node_rig.wait(20_000)
    assert one.fetch(0).error_code is ErrorCode.NO_NODE
    other.register(0, 2)
    assert one.fetch(0).error_code is ErrorCode.DUPLICATE_PARTITION
    assert one.confirm(0, 6).error_code is ErrorCode.NOT_OWNER_COMMIT
    assert one.unregister(0, consumed=True).error_code is ErrorCode.DUPLICATE_PARTITION
    assert rig.committed(0) == 2
    assert rig.owners()["1:demo:0"] == "b"


def test_nobodys_partition_is_neither_read_nor_committed_nor_released() -> None:
    rig = GroupRig()
    client = rig.started("a")
    assert client.fetch(0).error_code is ErrorCode.NO_NODE
    assert client.confirm(0, 0).error_code is ErrorCode.NOT_OWNER_COMMIT
    assert client.unregister(0).error_code is ErrorCode.NO_NODE


def test_an_older_grant_of_ones_own_does_not_count() -> None:
    rig = GroupRig()
    client = rig.started("a")
    client.register(0)
    client.unregister(0)
    client.register(0)
    client.grants["1:demo:0"] = 1
    assert client.fetch(0).error_code is ErrorCode.DUPLICATE_PARTITION
    assert client.confirm(0, 0).error_code is ErrorCode.NOT_OWNER_COMMIT
    assert client.unregister(0).error_code is ErrorCode.DUPLICATE_PARTITION


def test_asking_again_for_what_one_owns_is_a_new_grant_that_goes_on_where_it_was_or_as_asked() -> None:
    rig = GroupRig()
    client = rig.started("a", consume_position="latest")
    assert (client.register(0).reg_epoch, client.register(0).position) == (1, 0)
    rig.produce(0, 9)
    again = client.register(0)
    assert (again.reg_epoch, again.position) == (3, 0)
    again = client.register(0, 4)
    assert (again.reg_epoch, again.position) == (4, 4)
    assert client.read(0) == [4, 5, 6, 7, 8]
    rig.restart()
    assert rig.owners()["1:demo:0"] == "a"


# --- where reading begins ---


def at(rig: GroupRig, partition: int, stored: int) -> None:
    """A commit by a member that goes."""
    client = rig.started("before", consume_position="first")
    client.register(partition)
    client.confirm(partition, stored)
    client.leave()


def test_cb31_without_an_offset_reading_goes_on_where_the_group_was() -> None:
    rig = GroupRig()
    rig.produce(0, 50)
    at(rig, 0, 42)
    client = rig.started("a")
    registered = client.register(0)
    assert (registered.position, registered.begin, registered.end) == (42, 0, 50)
    assert client.read(0) == list(range(42, 50))


def test_cb32_an_offset_that_is_named_replaces_what_is_stored() -> None:
    rig = GroupRig()
    rig.produce(0, 50)
    at(rig, 0, 42)
    client = rig.started("a")
    assert client.register(0, 10).position == 10
    assert rig.committed(0) == 10
    assert client.read(0)[0] == 10


def test_cb33_an_offset_out_of_reach_is_moved_to_the_nearer_end() -> None:
    rig = GroupRig()
    rig.produce(0, 5)
    client = rig.started("a")
    assert (client.register(0, 2**62).position, rig.committed(0)) == (5, 5)
    assert PartitionOffsets(3, 9, -1).clamp(0) == 3
    assert PartitionOffsets(3, 9, -1).clamp(10) == 9


@pytest.mark.parametrize(("policy", "position"), [("first", 0), ("latest", 7), ("always_max", 7)])
def test_cb34_with_nothing_stored_the_consume_position_decides(policy: str, position: int) -> None:
    rig = GroupRig()
    rig.produce(0, 7)
    assert rig.started("a", consume_position=policy).register(0).position == position
    assert rig.started("b").register(1, position_policy=policy).position == 0
    assert rig.committed(0) == -1


def test_cb35_always_max_yields_to_a_named_offset_and_is_not_used_up_by_a_refusal() -> None:
    rig = GroupRig()
    rig.produce(0, 50)
    rig.produce(1, 50)
    at(rig, 0, 42)
    holder, client = rig.started("holder"), rig.started("a", consume_position="always_max")
    assert client.register(1, 7).position == 7
    holder.register(0)
    assert client.register(0).error_code is OCCUPIED
    holder.unregister(0)
    assert client.register(0, is_first=True).position == 50
    client.unregister(0)
    assert client.register(0, is_first=False).position == 42


@pytest.mark.parametrize(
    ("policy", "is_first", "stored", "position"),
    [
        (FIRST, True, -1, 3),
        (FIRST, False, -1, 3),
        (FIRST, True, 5, 5),
        (LATEST, True, -1, 9),
        (LATEST, False, -1, 3),
        (LATEST, True, 5, 5),
        (ALWAYS_MAX, True, 5, 9),
        (ALWAYS_MAX, False, 5, 5),
        (ALWAYS_MAX, False, -1, 3),
        (FIRST, True, 1, 3),
        (FIRST, True, 11, 9),
    ],
)
def test_the_table_of_consume_positions(policy: str, is_first: bool, stored: int, position: int) -> None:
    assert initial_position(policy, PartitionOffsets(3, 9, stored), is_first=is_first) == position


def test_an_unknown_policy_is_refused() -> None:
    assert GroupRig().started("a").register(0, position_policy="middle").error_code is ErrorCode.BAD_REQUEST


def test_cb36_a_refusal_leaves_what_the_owner_stored() -> None:
    rig = GroupRig()
    rig.produce(0, 50)
    one, other = rig.started("a"), rig.started("b")
    one.register(0, 42)
    assert other.register(0, 0).error_code is OCCUPIED
    assert rig.committed(0) == 42


# --- reading and confirming ---


def reader(rig: GroupRig, **fields: Any) -> Any:
    client = rig.started("a", consume_position="first", **fields)
    assert client.register(0).error_code is NONE
    return client


def test_a_batch_is_handed_out_until_it_is_confirmed() -> None:
    rig = GroupRig()
    rig.produce(0, 3)
    client = reader(rig)
    assert client.read(0) == [0, 1, 2]
    assert rig.view().partitions[0].in_flight == 3
    assert client.read(0, last_consumed=False) == [0, 1, 2]
    assert client.confirm(0, consumed=False).committed_offset == -1
    assert client.read(0) == [0, 1, 2]
    confirmed = client.confirm(0)
    assert (confirmed.committed_offset, confirmed.end) == (3, 3)
    rig.produce(0, 2)
    assert client.read(0) == [3, 4]


def test_a_confirmation_that_travels_with_the_next_fetch_is_stored() -> None:
    rig = GroupRig()
    rig.produce(0, 3)
    client = reader(rig)
    client.read(0)
    rig.produce(0, 2)
    assert client.read(0, last_consumed=True) == [3, 4]
    assert rig.committed(0) == 3


def test_a_part_of_a_batch_may_be_confirmed() -> None:
    rig = GroupRig()
    rig.produce(0, 5)
    client = reader(rig)
    client.read(0)
    assert client.confirm(0, 2).committed_offset == 2
    assert client.read(0) == [2, 3, 4]


@pytest.mark.parametrize("offset", [None, -5, 1, 99])
def test_what_was_never_handed_out_is_not_confirmed(offset: int | None) -> None:
    rig = GroupRig()
    rig.produce(0, 5)
    client = rig.started("a")
    client.register(0, 2)
    assert client.confirm(0, offset).error_code is ErrorCode.BAD_REQUEST
    assert rig.committed(0) == 2


def test_metadata_stands_beside_the_offset_if_it_is_not_too_long() -> None:
    rig = GroupRig()
    rig.produce(0, 5)
    client = reader(rig)
    key = "1:demo:0"
    for text, error in (("why", NONE), ("x" * 4_097, ErrorCode.OFFSET_METADATA_TOO_LARGE)):
        item = ConfirmItem(key, 1, True, 3, text)
        reply = client.ask(ConfirmConsumed("g", "a", client.epoch, (item,)), ConfirmConsumedReply)
        assert reply.items[0].error_code is error
    committed = rig.node_rig.node.core.shard_of("g").offsets.get("g", "demo", 0)
    assert committed is not None and committed.metadata == "why"


def test_the_next_owner_goes_on_after_a_confirmed_batch_and_gets_an_unconfirmed_one_again() -> None:
    rig = GroupRig()
    rig.produce(0, 3)
    rig.produce(1, 3)
    one, other = rig.started("a", consume_position="first"), rig.started("b", consume_position="first")
    for partition in (0, 1):
        one.register(partition)
        assert one.read(partition) == [0, 1, 2]
    assert one.unregister(0, consumed=True).committed_offset == 3
    assert one.unregister(1, consumed=False).committed_offset == -1
    assert other.register(0).position == 3
    assert other.register(1).position == 0
    assert other.read(1) == [0, 1, 2]


def test_a_fetch_waits_for_records_and_is_answered_when_they_come() -> None:
    rig = GroupRig()
    client = reader(rig)
    item = FetchItem("1:demo:0", 1)
    assert rig.node_rig.ask(client.connection, FetchRegistered("g", "a", client.epoch, (item,), max_wait_ms=500)) == []
    rig.produce(0, 2)
    (reply,) = rig.node_rig.heard(client.connection)
    assert isinstance(reply, FetchRegisteredReply)
    assert (reply.items[0].position, reply.items[0].end, bool(reply.items[0].records)) == (0, 2, True)
    client.confirm(0)
    assert rig.node_rig.ask(client.connection, FetchRegistered("g", "a", client.epoch, (item,), max_wait_ms=500)) == []
    rig.node_rig.wait(500)
    (reply,) = rig.node_rig.heard(client.connection)
    assert isinstance(reply, FetchRegisteredReply)
    assert (reply.items[0].error_code, reply.items[0].end) == (ErrorCode.NOT_FOUND, 2)


def test_a_fetch_that_waited_brings_nothing_of_what_was_lost_meanwhile() -> None:
    rig = GroupRig()
    client, other = reader(rig), rig.started("b")
    message = FetchRegistered("g", "a", client.epoch, (FetchItem("1:demo:0", 1),), max_wait_ms=400_000)
    assert rig.node_rig.ask(client.connection, message) == []
    rig.node_rig.wait(20_000)
    other.beat()
    rig.node_rig.wait(SESSION_MS - 20_000)
    rig.produce(0, 2)
    answers = [one for one in rig.node_rig.heard(client.connection) if isinstance(one, FetchRegisteredReply)]
    for answer in answers:
        assert not answer.items[0].records
    group = balanced_of(rig.node_rig.node.core)
    plan = next_read(group, "a", FetchItem("1:demo:0", 1), PartitionOffsets(0, 2, -1))
    assert plan.error_code is ErrorCode.NO_NODE


def test_what_has_gone_from_the_log_meanwhile_is_passed_over() -> None:
    rig = GroupRig()
    rig.produce(0, 5)
    client = reader(rig)
    known = rig.node_rig.node.core.embedded.log_and_configs("demo", 0)
    assert known is not None
    group = balanced_of(rig.node_rig.node.core)
    plan = next_read(group, "a", FetchItem("1:demo:0", 1), PartitionOffsets(3, 5, -1))
    assert plan.position == 3
    assert client.read(0) == [0, 1, 2, 3, 4]


# --- leaving, and coming again with what is held ---


def test_who_leaves_says_what_is_consumed_and_owns_nothing() -> None:
    rig = GroupRig()
    rig.produce(0, 3)
    rig.produce(1, 3)
    client = reader(rig)
    client.register(1)
    client.read(0)
    client.read(1)
    client.leave(ReleasedKey("1:demo:0", 1, True), ReleasedKey("1:demo:1", 1, False), ReleasedKey("1:demo:2", 9, True))
    assert (rig.committed(0), rig.committed(1)) == (3, -1)
    assert set(rig.owners().values()) <= {None}
    assert client.leave().error_code is ErrorCode.NO_NODE


def test_who_was_removed_and_comes_again_gets_what_is_still_free_anew() -> None:
    rig = GroupRig()
    rig.produce(0, 9)
    client = rig.started("a", consume_position="latest")
    client.register(0)
    client.register(1)
    client.register(2)
    rig.produce(0, 3)
    rig.node_rig.wait(SESSION_MS)
    other = rig.started("b")
    other.register(1)
    other.register(2)
    other.unregister(2)
    held = (HeldKey("1:demo:0", 1, 9), HeldKey("1:demo:1", 1), HeldKey("1:demo:2", 1), HeldKey("1:demo:77", 1))
    assert client.beat().error_code is ErrorCode.NO_NODE
    reply = client.start(held=held)
    assert [(one.key, one.reg_epoch, one.position, one.end) for one in reply.granted] == [("1:demo:0", 2, 9, 12)]
    assert reply.lost == (
        LostKey("1:demo:1", ErrorCode.DUPLICATE_PARTITION),
        LostKey("1:demo:2", ErrorCode.DUPLICATE_PARTITION),
        LostKey("1:demo:77", ErrorCode.NOT_FOUND),
    )
    assert client.read(0) == [9, 10, 11]


def test_what_is_held_goes_on_at_the_stored_offset_if_it_does_not_say_where_it_was() -> None:
    rig = GroupRig()
    rig.produce(0, 9)
    client = reader(rig)
    client.confirm(0, 4)
    rig.node_rig.wait(SESSION_MS)
    assert client.start(held=(HeldKey("1:demo:0", 1),)).granted[0].position == 4


def test_a_start_that_is_repeated_keeps_what_is_held_by_the_same_grant_and_nothing_else() -> None:
    rig = GroupRig()
    client = reader(rig)
    client.register(1)
    reply = client.start(held=(HeldKey("1:demo:0", 1),), attempt=2)
    assert [(one.key, one.reg_epoch) for one in reply.granted] == [("1:demo:0", 1)]
    assert rig.owners() == {"1:demo:0": "a", "1:demo:1": None, "1:demo:2": None, "1:demo:3": None}


def test_a_start_that_comes_late_takes_nothing_away() -> None:
    rig = GroupRig()
    client = rig.member("a")
    client.start(attempt=2)
    client.register(0)
    assert client.start(attempt=1).error_code is ErrorCode.BAD_REQUEST
    assert client.start(attempt=2).error_code is ErrorCode.BAD_REQUEST
    assert client.beat().error_code is NONE
    assert rig.owners()["1:demo:0"] == "a"


def test_a_start_that_comes_after_a_crash_is_as_late_as_it_was_before() -> None:
    rig = GroupRig()
    client = rig.member("a")
    client.start(attempt=2)
    client.register(0)
    rig.restart()
    assert rig.member("a").start(attempt=2).error_code is ErrorCode.BAD_REQUEST
    assert rig.owners()["1:demo:0"] == "a"


def test_of_a_start_that_does_not_count_nobody_knows_how_old_it_is_and_what_it_does_not_name_stays() -> None:
    rig = GroupRig()
    rig.produce(0, 3)
    client = reader(rig)
    reply = client.start()
    assert [(one.key, one.reg_epoch, one.position, one.end) for one in reply.granted] == [("1:demo:0", 1, 0, 3)]
    assert client.read(0) == [0, 1, 2]


def test_a_late_fetch_never_stores_what_was_handed_out_to_nobody() -> None:
    rig = GroupRig()
    rig.produce(0, 3)
    client = reader(rig)
    client.read(0, consumed_to=0)
    assert client.read(0, last_consumed=True, consumed_to=0) == [0, 1, 2]
    assert rig.committed(0) == -1
    rig.produce(0, 2)
    assert client.read(0, last_consumed=True, consumed_to=3) == [3, 4]
    assert rig.committed(0) == 3
    assert client.read(0, last_consumed=True, consumed_to=2) == [3, 4]
    assert rig.committed(0) == 3
    released = ReleasedKey("1:demo:0", 1, True, 4)
    client.beat(released=(released,))
    assert rig.committed(0) == 4
