"""Causes of rebalances, each staged at a node: one sentence has the cause, the initiator, the slowest member and the
cost."""

from collections.abc import Callable

import pytest

from coordinator.config.keys import RebalanceProtocols
from diagnosis.rebalances import noted_rebalances, sentence
from protocol.messages.consumer_groups import ConsumerGroupHeartbeat
from protocol.messages.groups import HoldGroup, LeaveGroup, LeavingMember, ListNotes, ListNotesReply
from protocol.messages.node import Hello
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


@pytest.mark.parametrize("story", STORIES)
def test_a_cause_is_one_sentence(story: Callable[[], Clinic]) -> None:
    clinic = story()
    clinic.run(8_000)

    assert told(clinic)[-1] == STORIES[story]
