"""Causes of rebalances, each staged at a node: one sentence has the cause, the initiator, the slowest member and the
cost."""

from collections.abc import Callable

import pytest

from coordinator.config.keys import RebalanceProtocols
from diagnosis.rebalances import noted_rebalances, sentence
from protocol.messages.consumer_groups import ConsumerGroupHeartbeat
from protocol.messages.groups import HoldGroup, LeaveGroup, LeavingMember, ListedNote, ListNotes, ListNotesReply
from protocol.messages.node import Hello, Measure, MeasureReply
from tests.node.desk import LIMITS
from tests.node.operated import Clinic

HOSTS = ("10.0.0.1", "10.0.0.2", "10.0.0.3")
STRANGER = 7


def team(clinic: Clinic | None = None, **more: object) -> Clinic:
    """A Stable group of three, of which the second takes two seconds to join again."""
    clinic = clinic or Clinic()
    for number, host in enumerate(HOSTS):
        clinic.member("g", f"app-{number}", host, slow_ms=2_000 if number == 1 else 0, **more)
    clinic.run(8_000)
    return clinic


def by_a_stranger(clinic: Clinic) -> None:
    clinic.connect_from(STRANGER, "10.0.0.66", 666)
    clinic.ask(STRANGER, Hello("stranger", "1.0"))


def told(clinic: Clinic) -> list[str]:
    reply = clinic.ask_inside(ListNotes("g", limit=100))
    assert isinstance(reply, ListNotesReply)
    return [sentence(one) for one in noted_rebalances(reply.notes)]


def joined() -> Clinic:
    clinic = team()
    clinic.member("g", "new", "10.0.0.4")
    return clinic


def leader_rejoined() -> Clinic:
    clinic = team()
    clinic.members[0].join()
    return clinic


def metadata_changed() -> Clinic:
    clinic = team()
    clinic.members[1].topics = ("orders", "more")
    clinic.members[1].join()
    return clinic


def static_replaced() -> Clinic:
    clinic = Clinic()
    for name, host in (("app-0", HOSTS[0]), ("app-1", HOSTS[1])):
        clinic.member("g", name, host, assignor="range,sticky", instance_id=name)
    clinic.run(8_000)
    clinic.members[1].close()
    clinic.member("g", "app-2", HOSTS[2], assignor="sticky", instance_id="app-1")
    return clinic


def left() -> Clinic:
    clinic = team()
    clinic.members[0].close()
    return clinic


def polled_too_late() -> Clinic:
    clinic = team(poll_ms=30_000)
    clinic.members[0].commit(1, 1)
    clinic.members[0].is_hung = True
    clinic.run(30_000)
    clinic.members[0].poll_too_late()
    clinic.members.remove(clinic.members[0])
    return clinic


def evicted() -> Clinic:
    clinic = team()
    by_a_stranger(clinic)
    clinic.ask(STRANGER, LeaveGroup("g", (LeavingMember(clinic.members[0].member_id, None, "it hangs"),)))
    clinic.members.remove(clinic.members[0])
    return clinic


def silent() -> Clinic:
    clinic = team()
    clinic.members[0].kill()
    clinic.run(45_000)
    return clinic


def never_synced() -> Clinic:
    clinic = team(poll_ms=20_000)
    clinic.members[0].never_syncs = True
    clinic.members[2].close()
    clinic.run(30_000)
    return clinic


def not_rejoined() -> Clinic:
    clinic = team(poll_ms=20_000)
    clinic.members[0].slow_ms = 60_000
    clinic.members[2].close()
    clinic.run(20_000)
    return clinic


def not_stored() -> Clinic:
    clinic = team()
    clinic.members[0].user_data = bytes(LIMITS.max_batch_bytes)
    clinic.members[2].close()
    clinic.run(5_500)
    clinic.members[0].user_data = None
    return clinic


def too_large() -> Clinic:
    old = team()
    old.disk.crash()
    clinic = Clinic(disk=old.disk, group_max_size=2)
    for one in old.members:
        clinic.member("g", one.name, one.host).member_id = one.member_id
    return clinic


def downgraded() -> Clinic:
    clinic = team(Clinic(group_coordinator_rebalance_protocols=RebalanceProtocols(("classic", "consumer"))))
    clinic.connect_from(STRANGER, "10.0.0.66", 666)
    clinic.ask(STRANGER, Hello("modern", "1.0"))

    def beat(epoch: int, **more: object) -> None:
        clinic.ask(STRANGER, ConsumerGroupHeartbeat("g", "modern", epoch, **more))  # type: ignore[arg-type]

    beat(0, rebalance_timeout_ms=60_000, subscribed_topic_names=("orders",), topic_partitions=())
    clinic.run(8_000)
    beat(-1)
    return clinic


def hold_over() -> Clinic:
    clinic = team()
    by_a_stranger(clinic)
    clinic.ask(STRANGER, HoldGroup("g", 10_000))
    clinic.members[0].close()
    clinic.run(10_000)
    return clinic


STORIES: dict[Callable[[], Clinic], str] = {
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


def driven(client: int, name: str, host: str, clinic: Clinic) -> None:
    """Connect a client of the server-driven protocol."""
    clinic.connect_from(client, host, 40_000 + client)
    clinic.ask(client, Hello(name, "1.0"))


def beat(clinic: Clinic, client: int, member_id: str, epoch: int) -> None:
    """Send a full heartbeat if the member joins, else one that says that it is alive."""
    full = {"rebalance_timeout_ms": 60_000, "subscribed_topic_names": ("orders",), "topic_partitions": ()}
    more = {} if epoch else full
    clinic.ask(client, ConsumerGroupHeartbeat("g", member_id, epoch, **more))  # type: ignore[arg-type]


def test_a_rebalance_of_a_server_driven_group_ends_with_its_target() -> None:
    clinic = Clinic()
    for client, host in ((1, HOSTS[0]), (2, HOSTS[1]), (3, HOSTS[2])):
        driven(client, f"app-{client}", host, clinic)
    beat(clinic, 1, "one", 0)
    clinic.wait(400)
    beat(clinic, 2, "two", 0)  # within the interval of assignments, so there is no target yet
    beat(clinic, 3, "three", 0)
    clinic.wait(600)
    beat(clinic, 1, "one", 2)
    clinic.wait(1_000)
    beat(clinic, 3, "three", -1)
    assert told(clinic) == [
        (
            "member joined, group epoch 2: app-1 at 10.0.0.1 reads orders; "
            "epoch 2 by uniform: another target for 1 of 1 member"
        ),
        (
            "member joined, group epoch 3: app-2 at 10.0.0.2 reads orders; "
            "then member joined, group epoch 4: app-3 at 10.0.0.3 reads orders; "
            "after 600 ms, epoch 4 by uniform: another target for 3 of 3 members, 2 of 4 partitions move"
        ),
        "member left, group epoch 5: app-3 at 10.0.0.3; it is not over",
    ]
    reply = clinic.ask_inside(Measure(10))
    assert isinstance(reply, MeasureReply)
    assert [one.rebalances for one in reply.groups] == [3], "the second of two joins came while one was under way"
    clinic.wait(1_000)
    beat(clinic, 2, "two", -1)
    beat(clinic, 1, "one", -1)
    assert told(clinic)[-1].endswith("app-1 at 10.0.0.1; no member is left")
    beat(clinic, 1, "one", 0)
    assert told(clinic)[-1].startswith("member joined, group epoch 8"), "and the one before is over"


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
def test_a_cause_is_one_sentence(story: Callable[[], Clinic]) -> None:
    clinic = story()
    clinic.run(8_000)

    assert told(clinic)[-1] == STORIES[story]
