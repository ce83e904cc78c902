"""Outlooks on a change of a group: the assignors' own answers, and what moves."""

from collections.abc import Mapping

import pytest

from membership.consumer_protocol import (
    ConsumerAssignment,
    ConsumerSubscription,
    encode_assignment,
    encode_subscription,
)
from membership.outlook import GroupChange, facts_of, foresee, parse_partitions, subscribed
from membership.topic_partition import TopicPartition
from protocol.messages.groups import DescribedGroup, DescribedMember
from protocol.messages.topics import MetadataPartitionReply, MetadataReply, MetadataTopicReply

IDS = {"orders": b"\x01" * 16, "clicks": b"\x02" * 16}
EAGER = ("range", "roundrobin", "sticky")
EVERY = (*EAGER, "cooperative-sticky")
SERVERS = ("uniform", "range")


def metadata(**counts: int) -> MetadataReply:
    topics = [
        MetadataTopicReply(name, IDS[name], partitions=tuple(MetadataPartitionReply(n, 1) for n in range(count)))
        for name, count in counts.items()
    ]
    return MetadataReply(topics=tuple(topics))


def group(assignor: str, shares: Mapping[str, str], *, by_server: bool = False) -> DescribedGroup:
    """A Stable group whose members read `orders`, each with the partitions of these digits."""
    members = []
    for member_id, digits in shares.items():
        share = encode_assignment(ConsumerAssignment(tuple(TopicPartition("orders", int(one)) for one in digits)))
        members.append(
            DescribedMember(
                member_id,
                None,
                member_id,
                "/10.0.0.1",
                encode_subscription(ConsumerSubscription(("orders",))),
                share,
                target_assignment=share,
            )
        )
    return DescribedGroup(
        "g",
        group_state="Stable",
        protocol_type="consumer",
        protocol_data=assignor,
        members=tuple(members),
        generation_id=3,
        target_epoch=3 if by_server else -1,
    )


def digits(shares: Mapping[str, frozenset[TopicPartition]]) -> dict[str, str]:
    return {who: "".join(str(one.partition) for one in sorted(share)) for who, share in shares.items()}


@pytest.mark.parametrize("assignor", EVERY)
def test_nothing_moves_where_nothing_changes(assignor: str) -> None:
    shares = {"a": "024", "b": "135"} if assignor == "roundrobin" else {"a": "012", "b": "345"}
    outlook = foresee(group(assignor, shares), metadata(orders=6), GroupChange())
    assert (digits(outlook.after), outlook.moved, outlook.assignor) == (shares, [], assignor)


@pytest.mark.parametrize("assignor", SERVERS)
def test_nothing_moves_in_a_server_driven_group_where_nothing_changes(assignor: str) -> None:
    outlook = foresee(group(assignor, {"a": "012", "b": "345"}, by_server=True), metadata(orders=6), GroupChange())
    assert outlook.moved == []


@pytest.mark.parametrize(
    ("assignor", "expected"),
    [
        ("range", {"a": "01", "b": "23", "new-1": "45"}),
        ("roundrobin", {"a": "03", "b": "14", "new-1": "25"}),
        ("sticky", {"a": "01", "b": "34", "new-1": "25"}),
        ("cooperative-sticky", {"a": "01", "b": "34", "new-1": "25"}),
    ],
)
def test_a_member_that_comes_takes_its_share(assignor: str, expected: dict[str, str]) -> None:
    outlook = foresee(group(assignor, {"a": "012", "b": "345"}), metadata(orders=6), GroupChange(members=1))
    assert digits(outlook.after) == expected


def test_a_member_that_comes_to_a_server_driven_group_takes_no_more_than_its_share() -> None:
    before = group("uniform", {"a": "012", "b": "345"}, by_server=True)
    outlook = foresee(before, metadata(orders=6), GroupChange(members=1))
    assert {who: len(share) for who, share in outlook.after.items()} == {"a": 2, "b": 2, "new-1": 2}
    assert [one.next_owner for one in outlook.moved] == ["new-1", "new-1"]


@pytest.mark.parametrize("assignor", EVERY)
def test_what_a_member_had_goes_to_the_others_when_it_leaves(assignor: str) -> None:
    outlook = foresee(group(assignor, {"a": "01", "b": "23", "c": "45"}), metadata(orders=6), GroupChange(members=-2))
    assert digits(outlook.after) == {"a": "012345"}
    assert {one.next_owner for one in outlook.moved} == {"a"}


def test_new_partitions_have_had_no_owner() -> None:
    outlook = foresee(
        group("sticky", {"a": "01", "b": "23"}), metadata(orders=4), GroupChange(partitions={"orders": 6})
    )
    assert [(one.partition.partition, one.owner) for one in outlook.moved] == [(4, ""), (5, "")]


def test_another_assignor_is_asked() -> None:
    outlook = foresee(group("range", {"a": "012", "b": "345"}), metadata(orders=6), GroupChange(assignor="roundrobin"))
    assert digits(outlook.after) == {"a": "024", "b": "135"}
    facts = facts_of("g", outlook)
    assert facts["assignor"] == "roundrobin"
    assert facts["moved"][0] == {"topic": "orders", "partition": 1, "member_id": "a", "next_member_id": "b"}
    assert facts["members"][0]["next_partitions"][1] == {"topic": "orders", "partition": 2}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (GroupChange(members=-2), "2 members cannot leave a group of 2"),
        (GroupChange(members=1_001), "1001 members are too many"),
        (GroupChange(partitions={"orders": 5}), "topic 'orders' has 6 partitions, and never fewer"),
        (GroupChange(partitions={"clicks": 5}), "reads no topic 'clicks'"),
        (GroupChange(partitions={"orders": 100_001}), "100001 partitions are too many"),
        (GroupChange(assignor="uniform"), "there is no assignor named 'uniform'"),
    ],
)
def test_a_change_that_cannot_be_is_refused(change: GroupChange, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        foresee(group("range", {"a": "012", "b": "345"}), metadata(orders=6), change)


def test_a_server_has_its_own_assignors() -> None:
    with pytest.raises(ValueError, match="in coordinators; known are uniform, range"):
        foresee(group("sticky", {"a": "0"}, by_server=True), metadata(orders=1), GroupChange())


@pytest.mark.parametrize(
    ("described", "words"),
    [
        (DescribedGroup("g", protocol_type="connect"), "has no consumers"),
        (DescribedGroup("g", protocol_type="consumer"), "has no members"),
        (
            DescribedGroup(
                "g",
                group_state="PreparingRebalance",
                protocol_type="consumer",
                members=(DescribedMember("a", None, "", ""),),
            ),
            "is PreparingRebalance: ask again",
        ),
        (
            DescribedGroup("g", protocol_type="consumer", members=(DescribedMember("a", None, "", "", b"\x00"),)),
            "what a subscribes to cannot be read",
        ),
    ],
)
def test_a_group_that_tells_no_subscriptions_has_no_outlook(described: DescribedGroup, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        subscribed(described)


def test_partitions_are_read() -> None:
    assert parse_partitions("orders=24,a=b=6") == {"orders": 24, "a=b": 6}
    assert parse_partitions("") == {}
    for text in ("orders", "=3", "orders=", "orders=0", "orders=-1", "orders=\u0665"):
        with pytest.raises(ValueError, match="is not TOPIC=PARTITIONS"):
            parse_partitions(text)
