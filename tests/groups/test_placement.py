import pytest

from coordinator.placement import AdvertisedAddress, Placement, java_string_hash

# See docs/spec/group-protocol.md#5.1: group id, its hash, its shard of 50
VECTORS = [
    ("", 0, 0),
    ("a", 97, 47),
    ("grp", 102629, 29),
    ("test", 3556498, 48),
    ("group-1", 293427299, 49),
    ("my-group", -1906497762, 12),
    ("payments.v1", -1539522340, 40),
    ("connect-cluster", 1440343063, 13),
    ("polygenelubricants", -2147483648, 0),
    ("g\u00e9nial", -1127603320, 20),
    ("\U0001f600-group", -1198440043, 43),
]
PLACEMENT = Placement(7, 50, {"native": ("here", 1), "http": ("there", 2)})


@pytest.mark.parametrize(("group_id", "value", "shard"), VECTORS)
def test_a_group_lives_where_java_puts_it(group_id: str, value: int, shard: int) -> None:
    assert java_string_hash(group_id) == value
    assert PLACEMENT.shard_of(group_id) == shard


def test_half_of_a_surrogate_pair_is_hashed_like_any_unit() -> None:
    assert java_string_hash("\ud83d") == 0xD83D


def test_one_node_serves_every_shard_there_is() -> None:
    assert all(PLACEMENT.is_mine(shard) for shard in range(50))
    assert not PLACEMENT.is_mine(50)
    assert not PLACEMENT.is_mine(-1)


def test_clients_are_told_the_address_of_their_dialect_or_else_one_there_is() -> None:
    assert [node.node_id for node in PLACEMENT.nodes("native")] == [7]
    told = [PLACEMENT.coordinator_of(3, dialect) for dialect in ("http", "kafka")]
    assert [(one.host, one.port) for one in told if one is not None] == [("there", 2), ("here", 1)]
    assert Placement(7, 50, {}).coordinator_of(0, "native") == AdvertisedAddress(7, "", -1)
