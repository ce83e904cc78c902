"""A static member that was restarted, on another host and under another client id: people are shown where it is now."""

from collections.abc import Iterator

import pytest

from coordinator.config.config import Config
from coordinator.groups.classic.group_states import GroupState
from coordinator.groups.classic.state import ClassicGroup
from protocol.messages.groups import JoinGroup, JoinProtocol, SyncGroup, SyncGroupAssignment
from protocol.messages.node import Hello
from tests.transcripts.rig import Link, Rig

NEWCOMER = ("restarted", "/10.0.0.2")


@pytest.fixture
def rig() -> Iterator[Rig]:
    config = Config(group_initial_rebalance_delay_ms=100, offsets_topic_num_partitions=2)
    with Rig(config, lambda _line: None, lambda *_answer: None) as rig:
        yield rig


def join(rig: Rig, client_id: str, *protocols: str) -> Link:
    link = rig.open_link()
    rig.send(link, Hello(client_id))
    offered = tuple(JoinProtocol(protocol, b"t") for protocol in protocols or ("range",))
    rig.send(link, JoinGroup("g", 10_000, "", "consumer", offered, 60_000, group_instance_id="i"))
    return link


def sync(rig: Rig, link: Link) -> None:
    found = group(rig)
    assert found.leader is not None
    assignments = (SyncGroupAssignment(found.leader, b"t-0"),)
    rig.send(link, SyncGroup("g", found.generation_id, found.leader, assignments=assignments))


def group(rig: Rig) -> ClassicGroup:
    found = rig.node.core.find("g")[1]
    assert found is not None
    return found.classic


def client(rig: Rig) -> tuple[str, str]:
    (member,) = group(rig).members.values()
    return member.client_id, member.client_host


def test_while_the_group_gathers(rig: Rig) -> None:
    join(rig, "first")
    assert (group(rig).state, client(rig)) == (GroupState.PREPARING, ("first", "/10.0.0.1"))
    join(rig, "restarted")
    assert (group(rig).state, client(rig)) == (GroupState.PREPARING, NEWCOMER)


def test_before_assignments_are_there(rig: Rig) -> None:
    join(rig, "first")
    rig.wait(100)
    assert group(rig).state is GroupState.COMPLETING
    join(rig, "restarted")
    assert client(rig) == NEWCOMER


@pytest.mark.parametrize("protocols", [("range",), ("roundrobin", "range")])
def test_in_a_stable_group_and_after_a_crash(rig: Rig, protocols: tuple[str, ...]) -> None:
    sync_by = join(rig, "first")
    rig.wait(100)
    sync(rig, sync_by)
    assert group(rig).state is GroupState.STABLE
    again = join(rig, "restarted", *protocols)
    assert client(rig) == NEWCOMER
    if group(rig).state is not GroupState.STABLE:  # another protocol: it rebalances
        sync(rig, again)
    rig.crash()
    assert (group(rig).state, client(rig)) == (GroupState.STABLE, NEWCOMER)
