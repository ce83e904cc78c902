"""Causes of rebalances, each staged at a node: one sentence has the cause, the initiator, the slowest member and the
cost."""

from collections.abc import Callable

import pytest

from coordinator.config.keys import RebalanceProtocols
from diagnosis.rebalances import noted_rebalances, sentence
from protocol.messages.consumer_groups import ConsumerGroupHeartbeat, TopicIdPartitions
from protocol.messages.groups import HoldGroup, LeaveGroup, LeavingMember, ListedNote, ListNotes, ListNotesReply
from protocol.messages.node import Hello, Measure, MeasureReply
from tests.node.node_rig import LIMITS
from tests.node.operated import DiagnosisRig

HOSTS = ("10.0.0.1", "10.0.0.2", "10.0.0.3")
STRANGER = 7


def team(rig: DiagnosisRig | None = None, **more: object) -> DiagnosisRig:
    """A Stable group of three, of which the second takes two seconds to join again."""
    rig = rig or DiagnosisRig()
    for number, host in enumerate(HOSTS):
        rig.member("g", f"app-{number}", host, slow_ms=2_000 if number == 1 else 0, **more)
    rig.run(8_000)
    return rig


def by_a_stranger(rig: DiagnosisRig) -> None:
    rig.connect_from(STRANGER, "10.0.0.66", 666)
    rig.ask(STRANGER, Hello("stranger", "1.0"))


def told(rig: DiagnosisRig) -> list[str]:
    reply = rig.ask_inside(ListNotes("g", limit=100))
    assert isinstance(reply, ListNotesReply)
    return [sentence(one) for one in noted_rebalances(reply.notes)]


def joined() -> DiagnosisRig:
    rig = team()
    rig.member("g", "new", "10.0.0.4")
    return rig


def leader_rejoined() -> DiagnosisRig:
    rig = team()
    rig.members[0].join()
    return rig


def metadata_changed() -> DiagnosisRig:
    rig = team()
    rig.members[1].topics = ("orders", "more")
    rig.members[1].join()
    return rig


def static_replaced() -> DiagnosisRig:
    rig = DiagnosisRig()
    for name, host in (("app-0", HOSTS[0]), ("app-1", HOSTS[1])):
        rig.member("g", name, host, assignor="range,sticky", instance_id=name)
    rig.run(8_000)
    rig.members[1].close()
    rig.member("g", "app-2", HOSTS[2], assignor="sticky", instance_id="app-1")
    return rig


def left() -> DiagnosisRig:
    rig = team()
    rig.members[0].close()
    return rig


def polled_too_late() -> DiagnosisRig:
    rig = team(poll_ms=30_000)
    rig.members[0].commit(1, 1)
    rig.members[0].is_hung = True
    rig.run(30_000)
    rig.members[0].poll_too_late()
    rig.members.remove(rig.members[0])
    return rig


def evicted() -> DiagnosisRig:
    rig = team()
    by_a_stranger(rig)
    rig.ask(STRANGER, LeaveGroup("g", (LeavingMember(rig.members[0].member_id, None, "it hangs"),)))
    rig.members.remove(rig.members[0])
    return rig


def silent() -> DiagnosisRig:
    rig = team()
    rig.members[0].kill()
    rig.run(45_000)
    return rig


def never_synced() -> DiagnosisRig:
    rig = team(poll_ms=20_000)
    rig.members[0].never_syncs = True
    rig.members[2].close()
    rig.run(30_000)
    return rig


def not_rejoined() -> DiagnosisRig:
    rig = team(poll_ms=20_000)
    rig.members[0].slow_ms = 60_000
    rig.members[2].close()
    rig.run(20_000)
    return rig


def not_stored() -> DiagnosisRig:
    rig = team()
    rig.members[0].user_data = bytes(LIMITS.max_batch_bytes)
    rig.members[2].close()
    rig.run(5_500)
    rig.members[0].user_data = None
    return rig


def too_large() -> DiagnosisRig:
    old = team()
    old.disk.crash()
    rig = DiagnosisRig(disk=old.disk, group_max_size=2)
    for one in old.members:
        rig.member("g", one.name, one.host).member_id = one.member_id
    return rig


def downgraded() -> DiagnosisRig:
    rig = team(DiagnosisRig(group_coordinator_rebalance_protocols=RebalanceProtocols(("classic", "consumer"))))
    rig.connect_from(STRANGER, "10.0.0.66", 666)
    rig.ask(STRANGER, Hello("modern", "1.0"))

    def beat(epoch: int, **more: object) -> None:
        rig.ask(STRANGER, ConsumerGroupHeartbeat("g", "modern", epoch, **more))  # type: ignore[arg-type]

    beat(0, rebalance_timeout_ms=60_000, subscribed_topic_names=("orders",), topic_partitions=())
    rig.run(8_000)
    beat(-1)
    return rig


def hold_over() -> DiagnosisRig:
    rig = team()
    by_a_stranger(rig)
    rig.ask(STRANGER, HoldGroup("g", 10_000))
    rig.members[0].close()
    rig.run(10_000)
    return rig


STORIES: dict[Callable[[], DiagnosisRig], str] = {
    joined: (
        "member joined by new at 10.0.0.4:40014; "
        "4 members stood still for 4.0 s, the last was app-1 at 10.0.0.2 after 4.0 s; 1 of 4 partitions moved"
    ),
    leader_rejoined: (
        "leader rejoined by app-0 at 10.0.0.1:40011, the leader asked for it: no reason given; "
        "3 members stood still for 4.5 s, the last was app-1 at 10.0.0.2 after 4.5 s; 0 of 4 partitions moved"
    ),
    metadata_changed: (
        "member metadata changed by app-1 at 10.0.0.2:40012, it joined again with other metadata; "
        "3 members stood still for 3.0 s, the last was app-2 at 10.0.0.3 after 3.0 s; 0 of 4 partitions moved"
    ),
    static_replaced: (
        "static member replaced, instance app-1 came back: app-2 at 10.0.0.3:40013; "
        "2 members stood still for 2.0 s, the last was app-0 at 10.0.0.1 after 2.0 s; 0 of 4 partitions moved"
    ),
    left: (
        "member left by app-0 at 10.0.0.1:40011, 1 left: shutting down; "
        "2 members stood still for 4.5 s, the last was app-1 at 10.0.0.2 after 4.5 s; 4 of 4 partitions moved"
    ),
    polled_too_late: (
        "member left by app-0 at 10.0.0.1:40011, 1 left: no reason given, no poll for its max.poll.interval.ms, 30 s; "
        "2 members stood still for 4.5 s, the last was app-1 at 10.0.0.2 after 4.5 s; 4 of 4 partitions moved"
    ),
    evicted: (
        "member left, 1 removed by stranger at 10.0.0.66:666: it hangs; "
        "2 members stood still for 4.5 s, the last was app-1 at 10.0.0.2 after 4.5 s; 4 of 4 partitions moved"
    ),
    silent: (
        "session expired, app-0 at 10.0.0.1:40011 was silent for 45000 ms; "
        "2 members stood still for 2.5 s, the last was app-1 at 10.0.0.2 after 2.5 s; 4 of 4 partitions moved"
    ),
    never_synced: (
        "member never synced by app-0 at 10.0.0.1:40011, never synced: app-0-1; "
        "1 member stood still for 0 ms, the last was app-1 at 10.0.0.2 after 0 ms; 3 of 4 partitions moved"
    ),
    not_rejoined: (
        "member left by app-2 at 10.0.0.3:40013, 1 left: shutting down; "
        "left out: member did not rejoin in time, not back after 20000 ms: app-0-1; "
        "1 member stood still for 20 s, the last was app-1 at 10.0.0.2 after 4.5 s; 3 of 4 partitions moved"
    ),
    not_stored: (
        "assignment could not be stored by app-0 at 10.0.0.1:40011, "
        "the log refused the assignment: UNKNOWN_SERVER_ERROR; "
        "2 members stood still for 0 ms, the last was app-0 at 10.0.0.1 after 0 ms; 2 of 4 partitions moved"
    ),
    too_large: (
        "group larger than allowed, 3 members, 2 allowed; "
        "left out: group larger than allowed, the group has no room for it any more; "
        "2 members stood still for 500 ms, the last was app-0 at 10.0.0.1 after 500 ms; 2 of 4 partitions moved"
    ),
    downgraded: (
        "group downgraded by modern, member left: modern at 10.0.0.66; "
        "3 members stood still for 3.5 s, the last was app-0 at 10.0.0.1 after 3.5 s; 0 of 3 partitions moved"
    ),
    hold_over: (
        "member left by app-0 at 10.0.0.1:40011, 1 left: shutting down; "
        "then hold over, 0 of 2 members joined within 10000 ms; "
        "2 members stood still for 3.5 s, the last was app-1 at 10.0.0.2 after 3.5 s; 4 of 4 partitions moved"
    ),
}


def driven(client: int, name: str, host: str, rig: DiagnosisRig) -> None:
    """Connect a client of the server-driven protocol."""
    rig.connect_from(client, host, 40_000 + client)
    rig.ask(client, Hello(name, "1.0"))


def beat(rig: DiagnosisRig, client: int, member_id: str, epoch: int) -> None:
    """Send a full heartbeat if the member joins, else one that says that it is alive."""
    full = {"rebalance_timeout_ms": 60_000, "subscribed_topic_names": ("orders",), "topic_partitions": ()}
    more = {} if epoch else full
    rig.ask(client, ConsumerGroupHeartbeat("g", member_id, epoch, **more))  # type: ignore[arg-type]


def test_a_rebalance_of_a_server_driven_group_ends_with_its_target() -> None:
    rig = DiagnosisRig()
    for client, host in ((1, HOSTS[0]), (2, HOSTS[1]), (3, HOSTS[2])):
        driven(client, f"app-{client}", host, rig)
    beat(rig, 1, "one", 0)
    rig.wait(400)
    beat(rig, 2, "two", 0)  # within the interval of assignments, so there is no target yet
    beat(rig, 3, "three", 0)
    rig.wait(600)
    beat(rig, 1, "one", 2)
    rig.wait(1_000)
    beat(rig, 3, "three", -1)
    assert told(rig) == [
        (
            "member joined, group epoch 2: app-1 at 10.0.0.1:40001 reads orders; "
            "epoch 2 by uniform: another target for 1 of 1 member"
        ),
        (
            "member joined, group epoch 3: app-2 at 10.0.0.2:40002 reads orders; "
            "then member joined, group epoch 4: app-3 at 10.0.0.3:40003 reads orders; "
            "after 600 ms, epoch 4 by uniform: another target for 3 of 3 members, 2 of 4 partitions move"
        ),
        "member left, group epoch 5: app-3 at 10.0.0.3:40003; it is not over",
    ]
    reply = rig.ask_inside(Measure(10))
    assert isinstance(reply, MeasureReply)
    assert [one.rebalances for one in reply.groups] == [3], "the second of two joins came while one was under way"
    rig.wait(1_000)
    beat(rig, 2, "two", -1)
    beat(rig, 1, "one", -1)
    assert told(rig)[-1].endswith("app-1 at 10.0.0.1:40001; no member is left")
    beat(rig, 1, "one", 0)
    assert told(rig)[-1].startswith("member joined, group epoch 8"), "and the one before is over"


def test_an_upgrade_is_told_with_the_join_that_caused_it() -> None:
    rig = team()
    rig.run(8_000)
    driven(STRANGER, "modern", "10.0.0.9", rig)
    beat(rig, STRANGER, "m", 0)
    assert "modern at 10.0.0.9:40007 reads orders; then group upgraded by modern at 10.0.0.9:40007, " in told(rig)[-1]
    assert "classic members of generation" in told(rig)[-1]


def test_an_upgrade_that_moves_no_epoch_is_no_cause_of_a_rebalance_before_it() -> None:
    joined = ListedNote(1, 2, "member joined", "m", 1_000, members=1)
    done = ListedNote(2, 3, "rebalance completed", "m", 1_050, members=1, kind="completed", took_ms=50)
    upgraded = ListedNote(3, 3, "group upgraded", "m", 9_000, members=1, kind="converted")
    (rebalance,) = noted_rebalances((joined, done, upgraded))
    assert rebalance.causes == [joined]


def test_a_rebalance_of_a_server_driven_group_names_who_revoked_late() -> None:
    rig = DiagnosisRig()
    for client, host in ((1, HOSTS[0]), (2, HOSTS[1])):
        driven(client, f"app-{client}", host, rig)
    beat(rig, 1, "one", 0)
    rig.wait(1_000)
    beat(rig, 2, "two", 0)
    beat(rig, 1, "one", 2)
    rig.wait(9_000)
    beat(rig, 2, "two", 3)
    rig.wait(3_400)
    orders = rig.node.core.topics.id_of("orders")
    assert orders is not None
    acknowledged = ConsumerGroupHeartbeat("g", "one", 2, topic_partitions=(TopicIdPartitions(orders, (0, 1)),))
    rig.ask(1, acknowledged)
    assert told(rig)[-1] == (
        "member joined, group epoch 3: app-2 at 10.0.0.2:40002 reads orders; "
        "epoch 3 by uniform: another target for 2 of 2 members, 2 of 4 partitions move; "
        "2 partitions (orders-2, orders-3) revoked after 12400 ms: app-1 at 10.0.0.1"
    )
    beat(rig, 2, "two", -1)
    assert told(rig)[-1].endswith("it is not over"), "what came late belongs to the rebalance before"


def test_what_came_while_a_target_was_computed_begins_the_next_rebalance() -> None:
    def note(number: int, kind: str, epoch: int) -> ListedNote:
        return ListedNote(number, epoch, f"cause {number}", "m", 1_000 + number, kind=kind, members=1)

    notes = (note(1, "epoch", 3), note(2, "epoch", 4), note(3, "target", 3), note(4, "epoch", 5), note(5, "target", 5))
    first, second = noted_rebalances(notes)
    assert (first.causes, first.end) == ([notes[0]], notes[2])
    assert (second.causes, second.end) == ([notes[1], notes[3]], notes[4])
    (alone, after) = noted_rebalances(notes[1:])
    assert (alone.causes, alone.first, after.causes) == ([], notes[2], [notes[1], notes[3]])
    assert all(one.is_driven for one in (first, second, alone))


@pytest.mark.parametrize("story", STORIES)
def test_a_cause_is_one_sentence(story: Callable[[], DiagnosisRig]) -> None:
    rig = story()
    rig.run(8_000)

    assert told(rig)[-1] == STORIES[story]
