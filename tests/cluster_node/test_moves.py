"""Notes of groups whose shard moves from node to node: the next owner has them, and tells of the move."""

import pytest

from coordinator.cluster_log.events import OwnershipRevoked
from coordinator.cluster_node.events import NewsReceived, NodeEnded, ShardChanged
from coordinator.cluster_node.nodes import LetGo, Taken
from coordinator.records.records import Note
from protocol.messages.groups import ListAudit, ListAuditReply, ListedNote, ListNotes, ListNotesReply
from tests.cluster_node.rig import SESSION_MS, SHARDS, Cluster, LogNode
from tests.cluster_node.test_service import committing, joined, owner


def notes(node: LogNode, group_id: str = "a") -> list[ListedNote]:
    """Notes that the node, which has the group, tells of it."""
    reply = node.ask(ListNotes(group_id))
    assert isinstance(reply, ListNotesReply)
    return list(reply.notes)


def known(node: LogNode, group_id: str = "a") -> list[ListedNote]:
    """Notes that the node knows, whoever has the group."""
    return list(node.node.core.journal.list(ListNotes(group_id)).notes)


def hand_over(node: LogNode) -> None:
    for shard in range(SHARDS):
        node.step(ShardChanged(shard, OwnershipRevoked()))
    node.rest()


def moved(node: LogNode, group_id: str = "a") -> ListedNote:
    newest = notes(node, group_id)[-1]
    assert (newest.kind, newest.cause) == ("moved", "coordinator moved")
    return newest


def group_at_one_of_two_nodes() -> tuple[Cluster, LogNode, LogNode]:
    """Nodes 1 and 2; the first has the group, with a member."""
    cluster, one = owner()
    two = cluster.start(2)
    cluster.give_all(one)
    joined(one, "a")
    return cluster, one, two


def test_what_happened_at_a_killed_node_is_told_by_the_next_and_so_is_the_move() -> None:
    cluster, one, two = group_at_one_of_two_nodes()
    before = notes(one)
    assert [note.kind for note in before] == ["rebalance", "completed"]
    cluster.nodes.remove(one)
    cluster.now_ms += SESSION_MS + 100
    two.beat()
    noticed_ms = cluster.now_ms
    cluster.now_ms += 400
    cluster.give_all(two, noticed_ms)
    told = notes(two)
    assert told[:-1] == before and [note.number for note in told] == [0, 1, 2]
    newest = moved(two)
    assert newest.detail == "from node 1 to node 2, 6.4 s, node 1 was silent for the session of the nodes, 6.0 s"
    assert (newest.took_ms, newest.members, newest.generation_id, newest.group_state) == (6_400, 1, 1, "Stable")


def test_a_node_whose_process_was_seen_to_end_is_not_called_silent() -> None:
    cluster, one, two = group_at_one_of_two_nodes()
    cluster.nodes.remove(one)
    two.step(NodeEnded(1))
    cluster.now_ms += 1_000
    two.beat()
    cluster.give_all(two, cluster.now_ms)  # its successor had it removed from the group
    assert moved(two).detail == "from node 1 to node 2, 1.0 s, node 1 ended"
    assert moved(two).took_ms == 1_000


def test_the_end_of_a_process_explains_the_next_move_of_its_shards_alone() -> None:
    cluster, one, two = group_at_one_of_two_nodes()
    two.step(NodeEnded(1))
    two.beat()
    for before, after in ((one, two), (two, one), (one, two)):  # its next process gets them back, and falls silent
        before.step_down()
        cluster.now_ms += 2_000
        after.beat()
        cluster.give_all(after, cluster.now_ms)
    assert [note.detail for note in notes(two) if note.kind == "moved"] == [
        "from node 1 to node 2, 2.0 s, node 1 ended",
        "from node 2 to node 1",
        "from node 1 to node 2",
    ]


def test_that_a_node_was_silent_once_explains_no_move_after_it_had_its_shards_again() -> None:
    cluster, one, two = group_at_one_of_two_nodes()
    three = cluster.start(3)
    cluster.give_all(one)
    cluster.nodes.remove(one)
    cluster.now_ms += SESSION_MS + 100
    cluster.give_all(two, cluster.now_ms)
    again = cluster.start(1)
    for before, after in ((two, again), (again, three)):
        before.step_down()
        cluster.now_ms += 2_000
        after.beat()
        cluster.give_all(after, cluster.now_ms)
    assert moved(three).detail == "from node 1 to node 3"


def test_that_a_process_ended_long_ago_explains_no_move() -> None:
    cluster, one, two = group_at_one_of_two_nodes()
    two.step(NodeEnded(1))
    cluster.nodes.remove(one)
    cluster.now_ms += 3 * SESSION_MS
    two.beat()
    cluster.give_all(two, cluster.now_ms)
    assert moved(two).detail.endswith("node 1 was silent for the session of the nodes, 6.0 s")


def test_a_planned_move_is_told_with_the_time_since_the_shard_was_handed_over() -> None:
    cluster, one, two = group_at_one_of_two_nodes()
    hand_over(one)
    assert {type(news) for news in cluster.told} == {Note, LetGo, Taken}
    cluster.now_ms += 300
    cluster.give_all(two, cluster.now_ms)
    assert moved(two).detail == "from node 1 to node 2, 0.3 s, node 1 handed it over"
    assert moved(two).took_ms == 300


def test_what_was_handed_over_before_the_last_claim_is_of_no_account() -> None:
    cluster, one = owner()
    joined(one, "a")
    hand_over(one)
    cluster.give_all(one)
    assert moved(one).detail == "back to node 1, 0.0 s, node 1 handed it over"
    cluster.now_ms += 10_000
    cluster.nodes.remove(one)
    two = cluster.start(2)
    cluster.give_all(two)
    assert moved(two).detail == "from node 1 to node 2" and moved(two).took_ms == -1, "it was not there to see"


def test_groups_without_members_and_shards_that_nobody_had_are_told_of_no_move() -> None:
    cluster, one = owner()
    one.ask(committing("a", 1))
    joined(one, "b")
    assert {note.kind for note in notes(one, "b")} == {"rebalance", "completed"}
    one.step_down()
    two = cluster.start(2)
    cluster.give_all(two)
    assert "moved" not in {note.kind for note in notes(two, "a")}
    assert moved(two, "b").members == 1


def test_a_move_begins_no_rebalance_and_counts_as_none() -> None:
    cluster, one = owner()
    joined(one, "a")
    one.step_down()
    two = cluster.start(2)
    cluster.give_all(two)
    assert moved(two).generation_id == 1
    assert two.node.core.journal.rebalances == {}


def test_notes_about_a_node_itself_stay_with_it() -> None:
    cluster, one = owner()
    two = cluster.start(2)
    note = Note("", "admin", "topic created", "", "t", 0, 0, "", 1, act="create")
    one.node.core.shards[0].append_notes([note], one.moment)
    assert known(one, "") and not known(two, "") and note not in cluster.told


def test_an_act_is_audited_by_the_node_that_has_the_group_alone() -> None:
    cluster, one = owner()
    two = cluster.start(2)
    cluster.give_all(one)
    one.ask(committing("a", 5))
    one.ask(committing("a", 3))

    def acts(node: LogNode) -> list[str]:
        reply = node.ask(ListAudit(since_ms=0, limit=100))
        assert isinstance(reply, ListAuditReply)
        return [audited.group_id for audited in reply.notes if audited.group_id]

    assert known(two), "both know of it"
    assert acts(one) and not acts(two)


@pytest.mark.parametrize("times", [1, 2])
def test_a_note_that_is_told_again_is_kept_once(times: int) -> None:
    cluster, one, two = group_at_one_of_two_nodes()
    for _ in range(times):
        two.step(NewsReceived(tuple(cluster.told)))
    assert known(two) == notes(one) != []
