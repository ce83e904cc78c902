"""Settings that groups have themselves by the log of their shard."""

from coordinator.groups.classic.group_states import GroupSettings
from coordinator.runtime.kinds.own_settings import OwnSettings
from coordinator.runtime.shard import ShardTools


def test_what_a_group_has_is_in_force_until_it_is_reset_or_the_shard_is_dropped() -> None:
    taken: list[tuple[str, dict[str, str]]] = []
    settings = OwnSettings(lambda group_id, own: taken.append((group_id, own)), {}, GroupSettings())
    settings.set("a", {"group.max.size": "1"})
    settings.set("b", {"group.max.size": "2"})
    settings.set("a", {})
    settings.set("never", {})
    assert (settings.get("a"), settings.get("b")) == ({}, {"group.max.size": "2"})
    del taken[:]
    settings.drop()
    assert taken == [("b", {})]
    assert not settings.get("b")


def test_shards_without_a_node_follow_their_settings() -> None:
    common, other = GroupSettings(max_size=5), GroupSettings(max_size=1)
    settings = OwnSettings(ShardTools._field_defaults["take_settings"], {"a": other}, common)
    settings.set("b", {"group.max.size": "1"})
    assert (settings.in_force("a"), settings.in_force("b")) == (other, common)
