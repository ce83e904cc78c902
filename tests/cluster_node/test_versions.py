"""Nodes of two versions over one log: what the later one writes does not disturb the earlier one, and is not lost."""

from typing import Any

import msgspec
import pytest

from coordinator.cluster_log.entries import (
    TransactionOffsets,
    claim_batch,
    claiming_node,
    entries_of,
    pending_key,
    read_pending,
    tagged_batch,
)
from coordinator.cluster_node.nodes import NodeView
from coordinator.cluster_node.repair import present_values
from coordinator.gateway.cluster import nodes_protocol
from coordinator.gateway.cluster.user_data import (
    Candidate,
    OwnerTable,
    decode_candidate,
    decode_table,
    encode_candidate,
    encode_table,
)
from membership.assignors.user_data import cooperative_user_data
from protocol.record_batch import encode_batch
from tests.cluster_gateway.nodes_group_rig import BEAT_MS, SESSION_MS, SHARDS, NodesGroupRig
from tests.cluster_node.rig import Cluster
from tests.cluster_node.test_service import committing, error_of, fetched, fetching, joined, owner

_FIELDS = {"node_id", "incarnation", "nodes"}
"""Each of them tells one of the structs."""
LATER_KEY = b"\x00\x63of a kind that is not there yet"


def with_more(data: bytes, begins_at: int = 0) -> bytes:
    """Return msgpack with fields that no present version has, at each level."""

    def more(found: Any) -> Any:
        if isinstance(found, dict):
            extra = {"later": [1]} if _FIELDS & found.keys() else {}
            return {**{key: more(value) for key, value in found.items()}, **extra}
        return [more(one) for one in found] if isinstance(found, list) else found

    return data[:begins_at] + msgspec.msgpack.encode(more(msgspec.msgpack.decode(data[begins_at:], strict=False)))


def test_what_a_later_node_says_of_itself_and_of_all_is_read_as_far_as_it_is_understood() -> None:
    view = NodeView(1, {"kafka": ("a", 9)}, {}, "9.9")
    me = Candidate(view, "b")
    read = decode_candidate(with_more(encode_candidate(me, 3), len(cooperative_user_data((), 3))))
    assert read is not None and read.node.addresses["kafka"] == ("a", 9) and read.node.version == "9.9"
    table = decode_table(with_more(encode_table(OwnerTable((me,), (1, 1), (-1, -1)))))
    assert table is not None and (table.owners, table.heirs) == ((1, 1), (-1, -1))


def test_what_an_earlier_node_does_not_say_is_taken_for_unsaid() -> None:
    said = cooperative_user_data((), 3) + msgspec.msgpack.encode({"node": {"node_id": 7}, "incarnation": "b"})
    read = decode_candidate(said)
    assert read is not None and read.node == NodeView(7)
    assert read.is_ready, "it is given shards at once"
    table = decode_table(msgspec.msgpack.encode({"nodes": [], "owners": [7], "heirs": [-1]}))
    assert table is not None and table.awaited == {}


def without(data: bytes, field: str, begins_at: int = 0) -> bytes:
    """Return the fields of msgpack without one."""
    fields = msgspec.msgpack.decode(data[begins_at:], strict=False)
    del fields[field]
    return data[:begins_at] + msgspec.msgpack.encode(fields)


@pytest.mark.parametrize("earlier", [1, 2])
def test_a_node_of_the_version_before_gives_and_is_given_shards_at_once(
    earlier: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def candidate(me: Candidate, generation_id: int) -> bytes:
        data = encode_candidate(me, generation_id)
        return without(data, "is_ready", len(cooperative_user_data((), 3))) if me.node.node_id == earlier else data

    monkeypatch.setattr(nodes_protocol, "encode_candidate", candidate)
    if earlier == 1:  # it leads
        monkeypatch.setattr(nodes_protocol, "encode_table", lambda table: without(encode_table(table), "awaited"))
        monkeypatch.setattr(nodes_protocol, "_who_shares", lambda nodes: ([one for one, _ in nodes], []))
    rig = NodesGroupRig()
    rig.gives_at_once = True
    one = rig.node(1)
    rig.run(100)
    two = rig.node(2, reads_slowly=True)
    rig.run(4 * BEAT_MS)
    assert len(one.owned) == len(two.owned) == SHARDS // 2
    one.kill()
    rig.run(SESSION_MS + 3 * BEAT_MS)
    assert len(two.owned) == SHARDS


@pytest.mark.parametrize("later", [(1,), (2,), (1, 2)])
def test_nodes_of_two_versions_share_out_the_shards_and_inherit_from_each_other(
    later: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    skipped = len(cooperative_user_data((), 3))

    def candidate(me: Candidate, generation_id: int) -> bytes:
        data = encode_candidate(me, generation_id)
        return with_more(data, skipped) if me.node.node_id in later else data

    monkeypatch.setattr(nodes_protocol, "encode_candidate", candidate)
    monkeypatch.setattr(nodes_protocol, "encode_table", lambda table: with_more(encode_table(table)))
    rig = NodesGroupRig()
    one, two = rig.node(1), rig.node(2)
    rig.run(4 * BEAT_MS)
    assert len(one.owned) == len(two.owned) == SHARDS // 2
    (one if 1 in later else two).kill()
    rig.run(SESSION_MS + 3 * BEAT_MS)
    assert len((two if 1 in later else one).owned) == SHARDS


def test_records_of_a_later_kind_pass_through_an_earlier_owner() -> None:
    cluster, one = owner()
    joined(one, "a")
    one.ask(committing("b", 5))
    shard = one.node.core.placement.shard_of("a")
    one.side.services[shard].log.append(encode_batch([(LATER_KEY, b"more")], timestamp_ms=1))
    one.ask(committing("a", 0))  # a step, at whose end it is written
    one.step_down()
    two = cluster.start(2)
    cluster.give_all(two)
    assert fetched(two.ask(fetching("b"))) == [5]
    assert two.node.core.directory["a"].member_count == 1
    assert not error_of(two.ask(committing("b", 6)))
    assert values_of(cluster, shard, LATER_KEY) == [b"more"]


def values_of(cluster: Cluster, shard: int, key: bytes) -> list[bytes | None]:
    _, data, _ = cluster.partitions[shard].fetch(0, 10**6)
    return [entry.value for _, entries in entries_of(data) for entry in entries if entry.key == key]


def test_a_stale_record_of_a_later_kind_is_left_to_who_knows_it_and_a_pending_one_ends() -> None:
    _, one = owner()
    pending = pending_key(3, 1)
    assert list(present_values(one.node.core.shards[0], [LATER_KEY, pending])) == [(pending, None)]


def test_claims_of_other_versions_are_claims_whoever_made_them() -> None:
    def told(batch: bytes) -> int:
        ((_, (claim,)),) = entries_of(batch)
        return claiming_node(claim)

    assert told(claim_batch((1, 0, 0), 5)) == -1, "an earlier one tells no node"
    assert told(claim_batch((1, 0, 0), 5, 7)) == 7
    ((_, (claim,)),) = entries_of(claim_batch((1, 0, 0), 5, 7))
    assert claiming_node(claim._replace(value=b"node 7 and more")) == -1


def test_offsets_of_transactions_may_say_more() -> None:
    offsets = TransactionOffsets(7, 3, ((b"k", b"v"),))
    longer = msgspec.msgpack.encode([*msgspec.to_builtins(offsets, builtin_types=(bytes,)), "later"])
    ((_, (entry,)),) = entries_of(tagged_batch([(pending_key(1, 1), longer)], 1, (7, 0, 0), 5))
    assert read_pending(entry) == offsets
