"""A daemon that stands still for longer than sessions are, and goes on."""

import signal
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from bench.wire import Refusal, Wire, WireMember
from muster.blocking import ClusterClient
from protocol.messages.groups import DescribeGroups, DescribeGroupsReply
from tests.edges.musterd import Daemon, running, within

SESSION_MS = 1_000
SETTINGS = ("group.min.session.timeout.ms=500", "group.initial.rebalance.delay.ms=0")


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[Daemon]:
    with running(tmp_path / "data", *SETTINGS) as daemon:
        yield daemon


def has_members(daemon: Daemon) -> bool:
    with ClusterClient(daemon.bootstrap) as connection:
        reply = connection.ask(DescribeGroups(("g",)))
    assert isinstance(reply, DescribeGroupsReply)
    return bool(reply.groups[0].members)


def test_nobody_is_evicted_whose_heartbeats_lay_in_sockets_while_the_process_was_stopped(daemon: Daemon) -> None:
    assert daemon.process is not None
    with ExitStack() as stack:
        wires = [stack.enter_context(Wire(("127.0.0.1", daemon.port))) for _ in range(5)]
        # So few that the last has joined well before the first one's session ends.
        members = [WireMember(wire, f"g{n}", session_timeout_ms=SESSION_MS) for n, wire in enumerate(wires)]
        for member in members:
            member.join()
            member.heartbeat()
        daemon.process.send_signal(signal.SIGSTOP)
        sent = []
        for member in members:
            about = {"group_id": member.group_id, "member_id": member.member_id, "generation_id": member.generation_id}
            sent.append(member.wire.send("Heartbeat", **about))
        time.sleep(2 * SESSION_MS / 1000)
        daemon.process.send_signal(signal.SIGCONT)
        for member, number in zip(members, sent, strict=True):
            member.wire.answer(number)


def test_who_is_silent_after_the_stall_as_well_is_evicted(daemon: Daemon) -> None:
    assert daemon.process is not None
    with Wire(("127.0.0.1", daemon.port)) as wire:
        member = WireMember(wire, "g", session_timeout_ms=SESSION_MS)
        member.join()
        daemon.process.send_signal(signal.SIGSTOP)
        time.sleep(2 * SESSION_MS / 1000)
        daemon.process.send_signal(signal.SIGCONT)
        assert within(10, lambda: not has_members(daemon))
        with pytest.raises(Refusal, match="UNKNOWN_MEMBER_ID"):
            member.heartbeat()
