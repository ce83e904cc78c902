"""Any history of a group: joins, leaves, new partitions, changed subscriptions."""

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from membership.server_assignors.registry import ASSIGNORS
from membership.server_assignors.spec import SubscribedMember, Targets, run
from tests.client.server_assignors.rig import AssignorRig, Topic, check, topic_id
from tests.enumerations import share_of

NAMES = "S T U V"
IDS = [f"consumer-{number}" for number in range(12)]


def sizes(rig: AssignorRig) -> dict[str, int]:
    return {member_id: sum(map(len, target.values())) for member_id, target in rig.targets.items()}


def pairs(target: dict[bytes, frozenset[int]]) -> set[tuple[bytes, int]]:
    return {(topic, partition) for topic, partitions in target.items() for partition in partitions}


def moved(before: Targets, after: Targets) -> set[tuple[bytes, int]]:
    """Partitions that went from a member that is still there to another."""
    owners = {one: member_id for member_id, target in after.items() for one in pairs(target)}
    return {
        one
        for member_id, target in before.items()
        if member_id in after
        for one in pairs(target)
        if owners.get(one) not in {member_id, None}
    }


@pytest.mark.parametrize("seed", range(5))
def test_members_that_come_and_go_have_equal_shares_and_keep_them(seed: int) -> None:
    """Scenario 39: 35 partitions of four topics, forty changes."""
    random = Random(seed)
    rig = AssignorRig(S=12, T=11, U=7, V=5)
    for _ in range(40):
        absent = [member_id for member_id in IDS if member_id not in rig.members]
        if rig.members and (not absent or random.random() < 0.4):
            rig.leave(random.choice(list(rig.members)))
        else:
            rig.join(random.choice(absent), NAMES)
        before = rig.targets
        if not rig.members:
            rig.targets = {}
            continue
        rig.compute()
        check(rig)
        shares = sizes(rig).values()
        assert max(shares) - min(shares) <= 1
        least = 35 // len(rig.members)
        for member_id, target in rig.targets.items():
            kept = pairs(target) & pairs(before.get(member_id, {}))
            assert len(kept) >= min(least, len(pairs(before.get(member_id, {})))), "no more is taken than must be"


@given(st.integers(1, 12), st.integers(0, 40), st.integers(0, 9))
@settings(max_examples=share_of(100), deadline=None)
def test_a_computation_without_a_change_moves_nothing(members: int, partitions: int, more: int) -> None:
    rig = AssignorRig(S=partitions, T=more)
    for member_id in IDS[:members]:
        rig.join(member_id, "S T")
    first = rig.compute()
    assert rig.compute() == first


@given(st.integers(1, 12), st.integers(0, 40), st.integers(0, 11))
@settings(max_examples=share_of(100), deadline=None)
def test_a_static_member_that_returns_with_another_id_moves_nothing(members: int, partitions: int, which: int) -> None:
    """The target of a replaced member is inherited (docs/spec/consumer-group-protocol.md#7.2)."""
    rig = AssignorRig(S=partitions)
    for member_id in IDS[:members]:
        rig.join(member_id, "S", instance_id=f"#{member_id}")
    rig.compute()
    before = dict(rig.targets)
    replaced = IDS[which % members]
    rig.members["returned"] = rig.members.pop(replaced)
    rig.targets["returned"] = rig.targets.pop(replaced)
    rig.compute()
    assert rig.targets == {("returned" if one == replaced else one): target for one, target in before.items()}


@pytest.mark.parametrize("assignor", ASSIGNORS)
@given(
    history=st.lists(
        st.tuples(st.sampled_from(IDS[:6]), st.frozensets(st.sampled_from(NAMES.split())), st.booleans()),
        min_size=1,
        max_size=12,
    ),
    counts=st.lists(st.integers(0, 30), min_size=4, max_size=4),
)
@settings(max_examples=share_of(150), deadline=None)
def test_every_partition_has_one_owner_who_subscribes_to_it(
    assignor: str, history: list[tuple[str, frozenset[str], bool]], counts: list[int]
) -> None:
    rig = AssignorRig(assignor, **dict(zip(NAMES.split(), counts, strict=True)))
    for member_id, names, leaves in history:
        if leaves and member_id in rig.members:
            rig.leave(member_id)
        else:
            rig.join(member_id, " ".join(names))
        rig.compute()
        check(rig)
        first = rig.targets
        rig.compute()
        assert rig.targets == first, "nothing has changed"


@given(
    st.lists(st.frozensets(st.sampled_from(NAMES.split()), min_size=1), min_size=2, max_size=6),
    st.lists(st.integers(0, 20), min_size=4, max_size=4),
)
@settings(max_examples=share_of(150), deadline=None)
def test_nobody_has_three_partitions_more_than_one_who_could_take_one(
    subscriptions: list[frozenset[str]], counts: list[int]
) -> None:
    rig = AssignorRig("uniform", **dict(zip(NAMES.split(), counts, strict=True)))
    for member_id, names in zip(IDS, subscriptions, strict=False):
        rig.join(member_id, " ".join(names))
    rig.compute()
    shares = sizes(rig)
    for owner, target in rig.targets.items():
        for topic in target:
            for other, (_, wanted) in rig.members.items():
                assert topic not in wanted or shares[owner] - shares[other] <= 2


def test_new_partitions_take_none_from_anybody() -> None:
    """Scenario 42."""
    rig = AssignorRig(S=4)
    for member_id in IDS[:3]:
        rig.join(member_id, "S")
    rig.compute()
    before = rig.targets
    rig.grow("S", 8)
    rig.compute()
    check(rig)
    assert not moved(before, rig.targets)


def test_partitions_that_a_topic_no_longer_has_are_dropped() -> None:
    rig = AssignorRig(S=4, T=4)
    rig.join("a", "S T")
    rig.compute()
    for names in ("S T", "S"):
        rig.topics[rig.ids["S"]] = Topic("S", 2)
        rig.join("b", names)
        rig.compute()
        check(rig)


def test_a_group_without_members_or_topics_has_an_empty_target() -> None:
    for assign in ASSIGNORS.values():
        for is_homogeneous in (True, False):
            assert run(assign([], {}, is_homogeneous)) == {}
            members = [SubscribedMember("a", None, frozenset(), {})]
            assert run(assign(members, {}, is_homogeneous)) == {"a": {}}


@pytest.mark.parametrize("assignor", ASSIGNORS)
@pytest.mark.parametrize("is_homogeneous", [True, False])
def test_large_groups_are_computed_in_pieces(assignor: str, is_homogeneous: bool) -> None:
    topics = {topic_id(1, number): Topic(f"t{number}", 100) for number in range(20)}
    wanted = frozenset(topics)
    some = frozenset(sorted(wanted)[1:])
    members = [
        SubscribedMember(f"m{number}", None, wanted if is_homogeneous or number % 2 else some, {})
        for number in range(1_000)
    ]
    costs = []
    work = ASSIGNORS[assignor](members, topics, is_homogeneous)
    while (cost := next(work, None)) is not None:
        costs.append(cost)
    assert len(costs) > 3
    assert max(costs) < 5_000, "microseconds, estimated"
