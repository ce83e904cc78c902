"""Regular expressions (docs/spec/consumer-group-protocol.md#19.6). Each test names its scenarios."""

from typing import Any

import pytest

from tests.groups.consumer.rig import Rig

BAD, UNKNOWN, FENCED, UNRELEASED = 128, 25, 110, 111


def regex(pattern: str) -> dict[str, Any]:
    return {"subscribed_topic_names": None, "subscribed_topic_regex": pattern}


def matched() -> Rig:
    """A reads /T.*/ and has T0-3."""
    rig = Rig()
    rig.join("A", **regex("T.*"))
    assert rig.seen("A", 1) == (0, 2, "T0,1,2,3")
    return rig


def test_scenario_44_a_pattern_is_resolved_after_the_join() -> None:
    rig = Rig()
    assert rig.joined("A", **regex("T.*")) == (0, 1, "")
    assert rig.described == "Assigning 2/1"
    assert rig.seen("A", 1) == (0, 2, "T0,1,2,3")
    assert rig.written() == "k5 k8 | k16 k3 | k7 k6 k8"


def test_scenario_45_a_known_pattern_moves_the_epoch_at_once() -> None:
    rig = matched()
    written = len(rig.batches)
    assert rig.joined("B", **regex("T.*")) == (0, 3, "")
    assert rig.written(written) == "k5 k3 k7 k7 k6 k8"


def test_scenario_46_a_new_pattern_waits_ten_seconds() -> None:
    rig = matched()
    assert rig.joined("B", "U", subscribed_topic_regex="X|U")[:2] == (0, 3)
    assert rig.held("B") == "U0,1,2"
    rig.topics.create("X", 2)
    rig.wait(10_000)
    assert rig.seen("B", 3) == (0, 3, None)
    rig.wait(1)
    assert rig.seen("B", 3) == (0, 3, None), "this heartbeat starts the resolution"
    assert rig.seen("B", 3) == (0, 4, "U0,1,2 X0,1")


def test_a_new_pattern_does_not_wait_once_nobody_has_the_former() -> None:
    rig = Rig()
    rig.join("A", **regex("T"))
    rig.heartbeat("A", -1)
    rig.join("B", **regex("U"))
    assert rig.group.resolved["U"].topics == {"U"}


def test_another_pattern_moves_no_epoch_before_it_is_resolved() -> None:
    rig = Rig()
    assert rig.joined("A", "U", subscribed_topic_regex="T|X")[:2] == (0, 2)
    rig.group.topics_version = -1  # topics are looked at again, as after the first record of a group
    assert rig.seen("A", 2, subscribed_topic_regex="nothing")[:2] == (0, 3), "what was resolved, and no more"
    assert rig.described.endswith("3/3")


def test_scenario_47_a_new_topic_that_matches() -> None:
    rig = matched()
    rig.topics.create("T2", 1)
    assert rig.seen("A", 2) == (0, 2, None)
    rig.wait(10_001)
    rig.heartbeat("A", 2)
    assert rig.seen("A", 2) == (0, 3, "T0,1,2,3 T20")


@pytest.mark.parametrize("pattern", ["(", "[", "(?!x)a", r"(a)\1"])
def test_scenario_48_a_pattern_that_does_not_compile(pattern: str) -> None:
    rig = Rig()
    assert rig.joined("A", **regex(pattern))[0] == BAD
    rig.join("A", "T", instance_id="i")
    assert rig.seen("A", 9, subscribed_topic_regex=pattern)[0] == FENCED
    assert rig.seen("Z", 9, subscribed_topic_regex=pattern)[0] == UNKNOWN
    assert rig.joined("Z", instance_id="i", **regex(pattern))[0] == UNRELEASED
    assert rig.seen("A", 2, subscribed_topic_regex=pattern)[0] == BAD


def test_scenario_49_the_last_user_of_a_pattern_leaves() -> None:
    rig = matched()
    written = len(rig.batches)
    rig.heartbeat("A", -1)
    assert rig.written(written) == "-k8 -k7 -k5 -k16 k3"


def test_scenario_49_the_last_user_of_a_pattern_changes_it() -> None:
    rig = matched()
    written = len(rig.batches)
    assert rig.seen("A", 2, subscribed_topic_regex="") == (0, 2, "")
    assert rig.written(written) == "k5 -k16 k3 k7 k6 k8"


def test_scenario_50_a_pattern_matches_whole_names() -> None:
    rig = Rig({"foobar": 1, "__consumer_offsets": 3})
    rig.join("A", **regex("foo|zz"))
    assert rig.group.resolved["foo|zz"].topics == frozenset()
    rig.wait(20_000)
    rig.heartbeat("A", 1, subscribed_topic_regex="__consumer.*")
    assert rig.group.resolved["__consumer.*"].topics == {"__consumer_offsets"}


def test_a_clock_that_is_set_back_delays_no_resolution() -> None:
    rig = matched()
    rig.topics.create("T2", 1)
    rig.set_back_ms = 3_600_000
    rig.heartbeat("A", 2)
    assert rig.seen("A", 2) == (0, 3, "T0,1,2,3 T20")


def test_an_unresolved_pattern_matches_nothing() -> None:
    rig = matched()
    assert rig.seen("A", 2, subscribed_topic_regex="U") == (0, 2, "")
    assert rig.held("A") == "T0,1,2,3"


def shared() -> Rig:
    """A reads /T/ and has T0,1; B reads T by name and has T2,3; more than ten seconds ago."""
    rig = Rig()
    rig.join("A", **regex("T"))
    rig.heartbeat("A", 1)
    rig.join("B", "T")
    rig.heartbeat("A", 2)
    rig.heartbeat("A", 2, "T0,1")
    assert rig.seen("B", 3) == (0, 3, "T2,3")
    rig.wait(10_001)
    return rig


def test_topics_of_a_former_pattern_go_to_others_though_the_new_one_matches_nothing() -> None:
    rig = shared()
    assert rig.seen("A", 3, "T0,1", subscribed_topic_regex="nothing", rebalance_timeout_ms=60_000) == (0, 3, "")
    rig.heartbeat("A", 3, "")
    assert rig.seen("B", 3) == (0, 4, "T0,1,2,3")
    assert rig.described == "Stable 4/4"


def test_topics_of_a_former_pattern_go_to_others_though_the_node_crashed_meanwhile() -> None:
    rig = shared()
    rig.holds_work = True
    rig.heartbeat("A", 3, "T0,1", subscribed_topic_regex="nothing", rebalance_timeout_ms=60_000)
    rig.restart()
    rig.holds_work = False
    rig.heartbeat("B", 3)
    assert rig.described == "Assigning 4/3"


def test_a_pattern_without_a_match_moves_no_epoch_for_a_new_member() -> None:
    rig = shared()
    rig.join("C", **regex("nothing"))
    assert rig.group.resolved["nothing"].topics == frozenset()
    assert rig.described == "Stable 3/3"


def test_a_pattern_without_a_match_moves_no_epoch_if_a_target_is_due() -> None:
    rig = Rig(assignment_interval_ms=60_000)
    rig.join("A", **regex("T"))
    rig.heartbeat("A", 1)
    rig.join("B", "T")
    rig.wait(10_001)
    assert rig.described == "Assigning 3/2"
    rig.heartbeat("A", 2, "", subscribed_topic_regex="nothing", rebalance_timeout_ms=60_000)
    assert rig.group.resolved["nothing"].topics == frozenset()
    assert rig.described == "Assigning 3/2"
