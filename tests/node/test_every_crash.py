"""The machine stops before every operation on the disk of a node's life, and at every place inside every write: nothing
acknowledged is lost, nothing goes back, and the node that starts there serves.
"""

import pytest

from partition_log.inspection.findings import Severity
from partition_log.inspection.inspector import Inspector
from protocol.messages.offsets import OffsetCommit, OffsetCommitPartition, OffsetCommitReply, OffsetCommitTopic
from tests.enumerations import SHARE
from tests.node.crash_story import LIMITS, SETTINGS, CrashStory, Found, cuts, state_of
from tests.node.node_rig import NodeRig
from tests.simulation.disk import SimDisk
from tests.simulation.replay import compare_with_replay

CHUNKS = 6
SEEDS = 2


@pytest.mark.parametrize("seed", range(SEEDS))
@pytest.mark.parametrize("chunk", range(0, CHUNKS, SHARE))
def test_a_crash_anywhere_in_a_nodes_life_loses_nothing_acknowledged_and_takes_nothing_back(
    chunk: int, seed: int
) -> None:
    places: list[Found] = []
    story = CrashStory(places.append, lambda place: place % CHUNKS == chunk)
    story.run()
    assert len(places) > 100
    for number, found in enumerate(places):
        disk = crashed(found, seed * 100_000 + number)
        if seed == 0:
            assert sound(disk), found.place
        rig = NodeRig(disk, LIMITS, **SETTINGS)
        state = state_of(rig.node.core)
        assert state in [live for _position, live in story.history[found.first : found.last]], found.place
        assert not missing(found, rig), found.place
        compare_with_replay(rig.node)
        if number % 5 == seed:
            goes_on(rig, found.place)


def crashed(found: Found, seed: int) -> SimDisk:
    disk = SimDisk(seed)
    disk._root = found.root
    disk.crash()
    return disk


def sound(disk: SimDisk) -> bool:
    """To those who look from outside, too."""
    if "checkpoint" not in disk.list("data/wal"):
        return True  # the first start is not over
    return not [one for one in Inspector(disk, "data").verify() if one.severity is Severity.DAMAGE]


def missing(found: Found, rig: NodeRig) -> list[str]:
    """Return the acknowledged facts that are missing: numbers only grow."""
    core = rig.node.core
    lost = []
    for key, value in found.acknowledged.items():
        assert isinstance(value, int)
        if key[0] == "offset":
            _kind, group_id, topic, partition = key
            shard, _group = core.find(group_id)
            committed = shard.offsets.topics(group_id).get(topic, {}).get(int(partition))
            at = -1 if committed is None else committed.offset
        elif key[0] == "epoch":
            _kind, group_id, topic, partition = key
            owners = None if (group := core.find(group_id)[1]) is None else group.classic.owners
            at = -1 if owners is None else owners.epoch((topic, int(partition)))
        else:
            _shard, group = core.find(key[1])
            at = -1 if group is None else group.classic.generation_id
        if at < value:
            lost.append(f"{key}: {at} after {value}")
    return lost


def goes_on(rig: NodeRig, place: str) -> None:
    """It takes another commit, which is there after another crash, with all the rest."""
    if "orders" not in state_of(rig.node.core)["topics"]:
        rig.make_topic("orders", 2)
    rig.connect(1)
    commit = OffsetCommit("later", (OffsetCommitTopic("orders", (OffsetCommitPartition(0, 7),)),))
    (reply,) = rig.ask(1, commit)
    assert isinstance(reply, OffsetCommitReply)
    assert reply.topics[0].partitions[0].error_code == 0, place
    state = state_of(rig.node.core)
    rig.disk.crash()
    assert state_of(NodeRig(rig.disk, LIMITS, **SETTINGS).node.core) == state, place


def test_the_story_has_in_it_what_a_nodes_life_has() -> None:
    story = CrashStory(lambda _found: None, lambda _place: False)
    story.disk.journal = []
    story.run()
    assert story.disk.operations >= 300
    assert story.clean_stops == 2
    assert story.acknowledged["generation", "team"] == 5
    assert story.acknowledged["epoch", "threads", "orders", "1"] == 4
    rebalances = [notes for notes in story.node_rig.node.core.journal.notes() if notes.group_id == "team"]
    causes = {note.cause for note in rebalances if note.kind == "rebalance"}
    assert {"member joined", "static member replaced", "member left"} <= causes
    assert "replaced" in {note.kind for note in rebalances}
    done = {line.split()[0] for line in story.disk.journal}
    assert done >= {"write_at", "sync", "rename", "remove", "truncate", "sync_folder", "make_folder"}
    assert any(".swap" in line for line in story.disk.journal), "no segment was cleaned"
    assert any("checkpoint.new" in line for line in story.disk.journal)
    assert any(".groups" in line for line in story.disk.journal), "no clean stop left a snapshot"


def test_a_write_is_cut_where_sectors_frames_and_batches_end() -> None:
    assert cuts(0, bytes(1200)) == [512, 1024]
    assert cuts(500, bytes(20)) == [12]
    places: list[Found] = []
    CrashStory(places.append, lambda _place: True).run()
    within = [found.place for found in places if found.place.startswith("within")]
    assert len(within) > 100
    assert len(places) > 1000
