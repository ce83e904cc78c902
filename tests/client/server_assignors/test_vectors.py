"""Targets that Apache Kafka 4.3.1 computed (docs/spec/consumer-group-protocol.md#5.5), scenarios 38, 40 and 43."""

import pytest

from tests.client.server_assignors.rig import AssignorRig, check


def test_uniform_with_equal_subscriptions() -> None:
    """Scenario 38, 43."""
    rig = AssignorRig(X=7)
    rig.join("m1", "X")
    assert rig.compute() == {"m1": "X0,1,2,3,4,5,6"}
    rig.join("m2", "X")
    assert rig.compute() == {"m1": "X0,1,2,3", "m2": "X4,5,6"}
    rig.join("m3", "X")
    assert rig.compute() == {"m1": "X0,1,2", "m2": "X4,5", "m3": "X3,6"}
    rig.leave("m1")
    assert rig.compute() == {"m2": "X0,4,5", "m3": "X1,2,3,6"}
    rig.join("m4", "X")
    assert rig.compute() == {"m2": "X0,4,5", "m3": "X1,2", "m4": "X3,6"}
    check(rig)


def test_uniform_with_different_subscriptions() -> None:
    """Scenario 38."""
    rig = AssignorRig(X=6, Y=3, Z=4)
    rig.join("m1", "X")
    assert rig.compute() == {"m1": "X0,1,2,3,4,5"}
    rig.join("m2", "X Y")
    assert rig.compute() == {"m1": "X0,1,2,3,4", "m2": "X5 Y0,1,2"}
    rig.join("m3", "Y Z")
    assert rig.compute() == {"m1": "X0,1,2,3,4", "m2": "X5 Y0,1,2", "m3": "Z0,1,2,3"}
    rig.targets = {}
    assert rig.compute() == {"m1": "X0,2,4,5", "m2": "X1,3 Y0,1", "m3": "Y2 Z0,1,2,3"}
    check(rig)


def test_uniform_over_two_topics_whose_order_is_that_of_a_hash_table() -> None:
    """Scenario 38, 42."""
    rig = AssignorRig(X=5, Y=4)
    rig.join("p", "X Y")
    assert rig.compute() == {"p": "X0,1,2,3,4 Y0,1,2,3"}
    rig.join("a", "X Y")
    assert rig.compute() == {"p": "X0,1,2,3,4", "a": "Y0,1,2,3"}
    rig.join("z", "X Y")
    assert rig.compute() == {"p": "X0,1,2", "a": "Y0,1,2", "z": "X3,4 Y3"}
    rig.leave("a")
    assert rig.compute() == {"p": "X0,1,2 Y0", "z": "X3,4 Y1,2,3"}
    rig.grow("X", 8)
    assert rig.compute() == {"p": "X0,1,2,5,6 Y0", "z": "X3,4,7 Y1,2,3"}
    check(rig)


def test_range_has_static_members_first() -> None:
    """Scenario 40."""
    rig = AssignorRig("range", T=7)
    rig.join("b", "T")
    rig.join("a", "T")
    rig.join("x", "T", instance_id="0")
    assert rig.compute() == {"x": "T0,1,2", "a": "T3,4", "b": "T5,6"}
    check(rig)


def test_the_extra_stays_with_a_holder_if_the_newcomer_comes_first() -> None:
    """Scenario 43: `p` comes before `a` and `z`."""
    rig = AssignorRig(X=7)
    rig.join("a", "X")
    rig.compute()
    rig.join("z", "X")
    assert rig.compute() == {"a": "X0,1,2,3", "z": "X4,5,6"}
    rig.join("p", "X")
    sizes = {member_id: len(rig.targets[member_id][rig.ids["X"]]) for member_id in rig.compute()}
    assert sizes == {"p": 2, "a": 3, "z": 2}
    check(rig)


@pytest.mark.parametrize("count", range(6))
def test_range_gives_the_first_members_one_more(count: int) -> None:
    rig = AssignorRig("range", T=count, U=count)
    for member_id in "abc":
        rig.join(member_id, "T U")
    rig.compute()
    check(rig)
    sizes = [len(rig.targets[member_id].get(rig.ids["T"], ())) for member_id in "abc"]
    assert sizes == [count // 3 + (place < count % 3) for place in range(3)]
    # Topics with as many partitions are shared out alike.
    assert all(target.get(rig.ids["T"]) == target.get(rig.ids["U"]) for target in rig.targets.values())
