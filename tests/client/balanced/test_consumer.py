"""The consumer as applications have it: the seventeen calls, records, filters, the loop."""

import logging
import tomllib
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

from muster import CannotDeserialize, ConsumerRecord
from muster.balanced import (
    BalancedConfig,
    BalancedLoop,
    Batch,
    ClientBalancedConsumer,
    Confirm,
    Result,
    Round,
    Shortfall,
    index_mod,
    rebalance_once,
)
from tests.client.balanced.model import Headers
from tests.client.balanced.sim_driver import SimDrivers
from tests.client.balanced.world import World

K0, K1 = "1:t:0", "1:t:1"
FIRST = BalancedConfig(consume_position="first", ready_wait_ms=1_000)


@pytest.fixture
def world() -> World:
    world = World()
    world.model.configure(K0).append([b"a", b"b"])
    world.model.configure(K1)
    return world


@pytest.fixture
def hands(world: World, monkeypatch: pytest.MonkeyPatch) -> SimDrivers:
    return SimDrivers(world, monkeypatch)


def reading(
    hands: SimDrivers, *keys: str, filters: set[str] | None = None, config: BalancedConfig = FIRST, **settings: Any
) -> ClientBalancedConsumer:
    consumer = hands.consumer(config, **settings)
    assert consumer.start({"t": filters}).ok
    assert consumer.partition_meta().ok
    for key in keys:
        assert consumer.connect_partition(key).ok
    return consumer


def batch_of(result: Result) -> Batch:
    assert isinstance(result.data, Batch), result
    return result.data


def test_the_seventeen_calls_from_start_to_shutdown(hands: SimDrivers, world: World) -> None:
    consumer = hands.consumer(FIRST)
    assert consumer.is_shutdown()
    assert (consumer.source_count(), consumer.node_id()) == (None, None)
    assert consumer.config() is FIRST
    assert consumer.consumer_id().startswith("g_") and "Balance" in consumer.consumer_id()
    assert consumer.get_message().code == 420
    assert consumer.start({"t": {"red"}, "u": None}, 2, 1).ok
    assert not consumer.is_shutdown()
    assert (consumer.source_count(), consumer.node_id()) == (2, 1)
    assert [consumer.is_filter_consume(topic) for topic in ("t", "u", "v")] == [True, False, False]
    assert consumer.partition_meta().data == {K0: True, K1: True}
    assert not consumer.partitions_ready(100)
    connected = consumer.connect_partition(K0)
    assert (connected.data.curr, connected.data.max) == (0, 2)
    assert connected.data.updated_ms == world.now_ms + 1_000_000
    assert consumer.partitions_ready(0)
    assert consumer.registered_partitions() == [K0]
    assert consumer.partition_offsets() == {K0: connected.data}
    assert consumer.disconnect_partition(K0).ok
    assert consumer.registered_partitions() == []
    assert consumer.describe_group().data.members[0].consumer_id == consumer.consumer_id()
    consumer.shutdown()
    assert consumer.is_shutdown()
    consumer.shutdown()
    assert consumer.start({"t": None}).code == 420
    assert world.model.members == {}


def test_a_batch_comes_as_records_and_its_confirmation_says_where_the_group_stands(
    hands: SimDrivers, world: World
) -> None:
    consumer = reading(hands, K0, value_deserializer=bytes.decode)
    assert consumer.oldest_unconfirmed_ms() is None
    batch = batch_of(consumer.get_message())
    assert batch.messages == (
        ConsumerRecord("t", 0, 0, 1, None, "a"),
        ConsumerRecord("t", 0, 1, 1, None, "b"),
    )
    assert (batch.key, batch.topic, batch.curr, batch.max) == (K0, "t", 2, 2)
    world.run(1_500)
    assert consumer.oldest_unconfirmed_ms() in range(1_500, 1_510)
    assert consumer.confirm_consume(batch.confirm_ctx).data == Confirm(K0, "t", 2, 2)
    assert consumer.oldest_unconfirmed_ms() is None
    assert consumer.get_message().code == 404
    assert consumer.get_message().code == 404  # the partition has rested for 400 ms


RED: Headers = (("filter", b"red"),)
BLUE: Headers = (("x", b"red"), ("filter", b"blue"))
BOTH: Headers = (("filter", b"blue"), ("filter", b"red"))


def test_filters_match_headers_of_that_name_and_what_matches_none_is_passed_over(
    hands: SimDrivers, world: World
) -> None:
    log = world.model.configured[K1]
    log.append([b"1", b"2"], [BLUE, ()])
    log.append([b"3", b"4", b"5"], [RED, BLUE, BOTH])
    log.append([b"6"], [(("filter", None),)])
    consumer = reading(hands, K1, filters={"red", "green"})
    batch = batch_of(consumer.get_message())
    assert [record.value for record in batch.messages] == [b"3", b"5"]
    assert batch.curr == 5
    assert consumer.confirm_consume(batch.confirm_ctx).data.curr == 5
    assert consumer.get_message().code == 404  # the last was passed over by itself
    assert world.model.stored[K1] == 6


def test_where_nothing_ever_matches_a_read_still_ends(hands: SimDrivers, world: World) -> None:
    for number in range(2_000):
        world.model.configured[K1].append([b"%d" % number], [BLUE])
    consumer = reading(hands, K1, filters={"red"})
    began_ms = world.now_ms
    assert consumer.get_message().code == 404
    assert 1_000 <= world.now_ms - began_ms <= 1_010


def test_what_cannot_be_deserialized_comes_as_an_error_and_its_partition_can_be_moved_past_it(
    hands: SimDrivers,
) -> None:
    def refuse_a(value: bytes) -> str:
        if value == b"a":
            raise ValueError("no")
        return value.decode()

    consumer = reading(hands, K0, value_deserializer=refuse_a)
    for _ in range(2):  # it does not block the partition, and does not go away
        said = consumer.get_message()
        assert said.code == 500
        assert isinstance(said.data, CannotDeserialize)
        assert f"connect it at {said.data.offset + 1}" in said.msg
    assert consumer.disconnect_partition(K0).ok
    assert consumer.connect_partition(K0, 1).ok
    assert [record.value for record in batch_of(consumer.get_message()).messages] == ["b"]


def test_records_before_one_that_cannot_be_read_come_first(hands: SimDrivers) -> None:
    def refuse_b(value: bytes) -> str:
        if value == b"b":
            raise ValueError("no")
        return value.decode()

    consumer = reading(hands, K0, value_deserializer=refuse_b)
    batch = batch_of(consumer.get_message())
    assert ([record.value for record in batch.messages], batch.curr) == (["a"], 1)
    assert consumer.confirm_consume(batch.confirm_ctx).data.curr == 1
    assert consumer.get_message().code == 500


def test_a_deserializer_that_is_interrupted_gives_the_batch_back(hands: SimDrivers) -> None:
    interrupts = [KeyboardInterrupt]

    def interrupted(value: bytes) -> bytes:
        if interrupts:
            raise interrupts.pop()
        return value

    consumer = reading(hands, K0, value_deserializer=interrupted)
    with pytest.raises(KeyboardInterrupt):
        consumer.get_message()
    assert [record.value for record in batch_of(consumer.get_message()).messages] == [b"a", b"b"]


def test_a_batch_whose_lease_ends_while_its_records_are_made_out_is_not_handed_out(
    hands: SimDrivers, world: World
) -> None:
    takes_long = [True]

    def slow(value: bytes) -> bytes:
        if takes_long:
            takes_long.pop()
            hands.of(consumer).is_cut = True
            world.run(31_000)
            hands.of(consumer).is_cut = False
        return value

    consumer = reading(hands, K0, value_deserializer=slow)
    assert consumer.get_message().code == 406
    assert consumer.registered_partitions() == []


def test_who_is_interrupted_while_waiting_leaves_no_batch_behind(
    hands: SimDrivers, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    consumer = reading(hands, K0)
    changed = hands.of(consumer).changed  # type: ignore[attr-defined]
    wait_for = changed.wait_for

    def interrupt(holds: Callable[[], bool], timeout_s: float) -> bool:
        wait_for(holds, timeout_s)
        raise KeyboardInterrupt

    monkeypatch.setattr(changed, "wait_for", interrupt)
    with pytest.raises(KeyboardInterrupt):
        consumer.get_message()
    monkeypatch.undo()
    assert hands.of(consumer).core.registered == [K0]
    asker = hands.of(consumer).core
    assert asker.oldest_unconfirmed_ms is None


def test_a_context_manager_shuts_down(hands: SimDrivers, world: World) -> None:
    with reading(hands, K0, K1) as consumer:
        assert consumer.registered_partitions() == [K0, K1]
    assert world.model.owners == {}
    assert consumer.is_shutdown()


WRONG: dict[str, Callable[[ClientBalancedConsumer], object]] = {
    "targets": lambda one: one.start(["t"]),  # type: ignore[arg-type]
    "a topic": lambda one: one.start({1: None}),  # type: ignore[dict-item]
    "the filters": lambda one: one.start({"t": "red"}),
    "a filter": lambda one: one.start({"t": {1}}),  # type: ignore[arg-type]
    "source_count": lambda one: one.start({"t": None}, True, 0),
    "node_id": lambda one: one.start({"t": None}, 2, "1"),  # type: ignore[arg-type]
    "max_wait_ms": lambda one: one.partitions_ready(1.5),  # type: ignore[arg-type]
    "key": lambda one: one.connect_partition(None),  # type: ignore[arg-type]
    "bootstrap_offset": lambda one: one.connect_partition(K0, None),  # type: ignore[arg-type]
    "confirm_ctx": lambda one: one.confirm_consume(None),  # type: ignore[arg-type]
    "consumed": lambda one: one.confirm_consume("1:t:0:1", 1),  # type: ignore[arg-type]
}


@pytest.mark.parametrize("name", WRONG)
def test_values_of_the_wrong_type_raise_and_nothing_else_does(hands: SimDrivers, name: str) -> None:
    consumer = hands.consumer()
    with pytest.raises(TypeError, match=f"^{name}"):
        WRONG[name](consumer)
    assert hands.of(consumer).sent == []


def test_what_cannot_work_is_refused_where_it_is_said() -> None:
    with pytest.raises(ValueError, match="native listener"):
        ClientBalancedConsumer("kafka://127.0.0.1:9092", "g")
    with pytest.raises(ValueError, match="group_id is empty"):
        ClientBalancedConsumer("127.0.0.1:9390", " ")
    hopeless: list[dict[str, Any]] = [
        {"consume_position": "somewhere"},
        {"ready_check_slice_ms": 1_001},
        {"heartbeat_interval_ms": 10_001},
        {"start_tries": 0},
        {"confirm_wait_ms": -1},
    ]
    for settings in hopeless:
        with pytest.raises(ValueError, match=next(iter(settings))):
            BalancedConfig(**settings)
    assert BalancedConfig(meta_check_period_ms=1).meta_period_ms == 5_000


def test_the_client_s_version_is_the_distribution_s(hands: SimDrivers) -> None:
    project = tomllib.loads((Path(__file__).parents[3] / "pyproject.toml").read_text())["project"]
    assert hands.consumer().client_version() == project["version"]


# ------------------------------------------------------------------------------------------------------------ the loop


def numbered(hands: SimDrivers, count: int, node: int) -> ClientBalancedConsumer:
    consumer = hands.consumer(FIRST)
    assert consumer.start({"t": None}, count, node).ok
    return consumer


def test_a_round_gives_up_first_and_then_connects_what_is_missing(hands: SimDrivers, world: World) -> None:
    consumer = numbered(hands, 2, 0)
    assert rebalance_once(consumer, index_mod) == Round(connected=(K0,))
    assert rebalance_once(consumer, index_mod) == Round()
    world.model.configure("1:a:0")  # sorts before the others, which move
    world.run(10_000)
    hands.of(consumer).sent.clear()
    assert rebalance_once(consumer, index_mod, {K1: 0}) == Round(connected=("1:a:0", K1), released=(K0,))
    assert [kind for kind in hands.of(consumer).kinds() if kind != "MemberHeartbeat"] == [
        "PartitionMeta", "UnregisterPartitions", "RegisterPartitions", "RegisterPartitions",
    ]  # fmt: skip


def test_a_round_that_is_refused_a_partition_goes_on_with_the_others(hands: SimDrivers) -> None:
    other = reading(hands, K0)
    consumer = reading(hands)
    done = rebalance_once(consumer, lambda keys, _count, _node: set(keys))
    assert (done.connected, {key: said.code for key, said in done.refused.items()}) == ((K1,), {K0: 410})
    assert other.registered_partitions() == [K0]
    consumer.shutdown()
    assert rebalance_once(consumer).is_last


def test_a_round_without_the_coordinator_keeps_everything(hands: SimDrivers, world: World) -> None:
    consumer = numbered(hands, 1, 0)
    assert rebalance_once(consumer).connected == (K0, K1)
    world.run(10_000)
    hands.of(consumer).is_cut = world.refuses_connections = True
    done = rebalance_once(consumer)
    assert done.trouble is not None and done.trouble.code == 500
    assert consumer.registered_partitions() == [K0, K1]


def test_the_loop_warns_once_of_a_missing_node_and_names_what_nobody_reads(
    hands: SimDrivers, world: World, caplog: pytest.LogCaptureFixture
) -> None:
    world.model.configure("1:t:2")
    consumer = numbered(hands, 3, 0)
    rounds: list[Round] = []

    def count(done: Round) -> None:
        rounds.append(done)
        if len(rounds) == 4:
            loop.stop()
        elif len(rounds) == 3:
            assert rebalance_once(second, index_mod).connected == (K1,)

    second = numbered(hands, 3, 1)
    loop = BalancedLoop(consumer, index_mod, period_s=0.0, on_round=count)
    with caplog.at_level(logging.WARNING, "muster.balanced"):
        loop.run()
    assert [record.message for record in caplog.records] == [
        "no member is node 2 of 3; not read: 1:t:2",
    ]
    assert loop.shortfall == Shortfall((2,), ("1:t:2",))


def test_members_that_are_not_numbered_lack_nothing(hands: SimDrivers, caplog: pytest.LogCaptureFixture) -> None:
    consumer = reading(hands)
    loop = BalancedLoop(consumer, period_s=0.0, on_round=lambda _done: loop.stop())
    loop.run()
    assert not loop.shortfall
    assert caplog.records == []


def test_a_share_function_that_raises_costs_a_round_and_no_more(
    hands: SimDrivers, caplog: pytest.LogCaptureFixture
) -> None:
    consumer = numbered(hands, 1, 0)
    mistakes = [ZeroDivisionError]

    def share(keys: Iterable[str], _count: int, _node: int) -> set[str]:
        if mistakes:
            raise mistakes.pop()
        return set(keys)

    loop = BalancedLoop(consumer, share, period_s=0.0, on_round=lambda _done: loop.stop())
    loop.run()
    assert consumer.registered_partitions() == [K0, K1]
    assert [record.exc_info is not None for record in caplog.records] == [True]


def test_a_loop_that_is_restarted_begins_where_the_application_saved_that_it_is(
    hands: SimDrivers, world: World
) -> None:
    saved: dict[str, int] = {}

    def looped() -> ClientBalancedConsumer:
        consumer = numbered(hands, 1, 0)
        loop = BalancedLoop(consumer, saved=saved, period_s=0.0, on_round=lambda _done: loop.stop())
        loop.run()
        assert consumer.registered_partitions() == [K0, K1]
        return consumer

    first = looped()
    batch = batch_of(first.get_message())
    saved[batch.key] = batch.curr  # and it is killed before it confirms
    hands.of(first).is_cut = True
    world.run(60_000)
    world.model.configured[K0].append([b"c"])
    assert world.model.stored.get(K0, 0) < 2, "the server knows of nothing that was done"
    assert [record.value for record in batch_of(looped().get_message()).messages] == [b"c"]
