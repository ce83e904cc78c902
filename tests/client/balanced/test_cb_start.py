"""Refusals before any node is asked, and starting once: docs/spec/client-balanced-groups.md#17.2 to #17.7."""

import pytest

from muster.core.balancing.events import StartAsked
from tests.client.balanced.world import SimMember, World


def started(player: SimMember, targets: dict[str, set[str] | None] | None) -> int:
    return player.ask(lambda number: StartAsked(number, targets, -1, -1)).code


def test_cb2_starting_without_a_topic_that_can_be_is_refused_and_nothing_has_started() -> None:
    world = World()
    one = world.member()
    hopeless: list[dict[str, set[str] | None] | None] = [{}, None, {"  ": None}, {"t" * 65: None}]
    for targets in hopeless:
        assert started(one, targets) == 400
    assert one.core.is_shutdown
    assert one.sent == []
    assert started(one, {"t" * 64: None}) == 200
    assert not one.core.is_shutdown


def test_cb3_too_many_filters_too_long_a_filter_and_a_blank_one_are_refused() -> None:
    world = World()
    one = world.member()
    assert started(one, {"t": {str(number) for number in range(501)}}) == 400
    assert started(one, {"t": {"f" * 257}}) == 400
    assert started(one, {"t": {"red", "  "}}) == 400
    assert one.sent == []
    assert started(one, {"t": {str(number) for number in range(499)} | {"f" * 256}}) == 200


@pytest.mark.parametrize("node_id", [3, -1])
def test_cb4_a_node_that_is_none_of_so_many_is_refused_before_any_network_traffic(node_id: int) -> None:
    world = World()
    one = world.member()
    assert one.start(3, node_id).code == 400
    assert one.sent == []
    assert one.core.is_shutdown
    assert one.start(3, 2).ok


def test_cb6_a_source_count_of_none_at_all_is_refused() -> None:
    world = World()
    one = world.member()
    assert one.start(0, 0).code == 400
    assert one.start(0, -1).code == 400
    assert one.sent == []


def test_cb7_a_second_start_is_refused_and_the_first_is_unaffected() -> None:
    world = World()
    one = world.member()
    first = one.begin(one.starting(3, 1, t={"red"}))
    assert one.ask(one.starting(2, 0)).code == 400  # while it is starting
    world.run_until(lambda: first.is_over)
    assert first.result.ok
    again = one.start(2, 0)
    assert (again.code, "shut it down first" in again.msg) == (400, True)
    assert one.kinds().count("StartMember") == 1
    assert (one.core.source_count, one.core.node_id, one.core.targets) == (3, 1, {"t": ("red",)})
    assert one.meta().ok
