"""A process that takes the instance id of another, which is still connected, leaves one line in the audit log and one
act in the audit; a restart leaves none."""

import json
from typing import Any

import pytest

from coordinator.node.effects import Effect, WriteAudit
from protocol.consumer_protocol import Subscription, encode_subscription
from protocol.errors import ErrorCode
from protocol.messages.consumer_groups import ConsumerGroupHeartbeat
from protocol.messages.groups import (
    Heartbeat,
    JoinGroup,
    JoinGroupReply,
    JoinProtocol,
    ListAudit,
    ListedNote,
    ListNotes,
)
from protocol.messages.node import Hello
from tests.node.operated import DiagnosisRig, SimMember

ASKING, OLD, NEW = 3, 4, 5


class TakeoverRig(DiagnosisRig):
    """A node with an audit log, and clients in server-driven groups on the connections OLD and NEW."""

    def __init__(self) -> None:
        self.lines: list[dict[str, Any]] = []
        super().__init__(audit_log_location="audit.log")
        self.connect_from(ASKING, "10.9.9.9", 51_515)
        for number, name in ((OLD, "old"), (NEW, "new")):
            self.connect_from(number, f"10.0.1.{number}", 40_000 + number)
            self.ask(number, Hello(name))
        self.told()

    def _carry_out(self, effect: Effect) -> None:
        if isinstance(effect, WriteAudit):
            self.lines += map(json.loads, effect.lines)
        else:
            super()._carry_out(effect)

    def told(self) -> list[dict[str, Any]]:
        self.wait(1_000)
        lines, self.lines = self.lines, []
        return lines

    def acts(self) -> list[ListedNote]:
        (reply,) = self.ask(ASKING, ListAudit())
        return [one.note for one in reply.notes]  # type: ignore[attr-defined]

    def static(self, name: str, host: str) -> SimMember:
        member = self.member("g", name, host, instance_id="i")
        self.run(4_000)
        return member

    def beat(self, number: int, member_id: str, epoch: int) -> Any:
        joining = {"rebalance_timeout_ms": 60_000, "subscribed_topic_names": ("orders",), "topic_partitions": ()}
        more: dict[str, Any] = joining if epoch == 0 else {}
        (reply,) = self.ask(number, ConsumerGroupHeartbeat("g", member_id, epoch, instance_id="i", **more))
        return reply

    def classic_join(self, number: int) -> JoinGroupReply:
        protocols = (JoinProtocol("range", encode_subscription(Subscription(("orders",)))),)
        replies = self.ask(number, JoinGroup("g", 45_000, "", "consumer", protocols, 300_000, "i"))
        return next(one for one in replies if isinstance(one, JoinGroupReply))


@pytest.fixture
def rig() -> TakeoverRig:
    return TakeoverRig()


def test_a_takeover_in_a_classic_group_is_told_once_with_both_processes(rig: TakeoverRig) -> None:
    old = rig.static("old", "10.0.0.1")
    held = old.member_id
    new = rig.static("new", "10.0.0.2")
    assert old.error is ErrorCode.FENCED_INSTANCE_ID

    for _ in range(5):  # the fenced process retries: that is no further line
        rig.ask(old.number, Heartbeat("g", 1, held, "i"))
    (line,) = rig.told()

    assert (line["event"], line["group"], line["instance"]) == ("takeover", "g", "i")
    who = ("client_id", "host", "port", "listener", "member_id")
    assert [line[name] for name in who] == ["new", "10.0.0.2", new.port, "native", new.member_id]
    previous = line["previous"]
    assert 0 <= previous.pop("heard_ago_ms") <= 4_000
    assert previous == {"member_id": held, "client_id": "old", "host": "10.0.0.1"}
    (act,) = rig.acts()
    assert (act.act, act.cause) == ("takeover", "static member replaced")
    assert act.origin is not None and act.origin.client_id == "new" and act.previous is not None
    assert "; old at 10.0.0.1, heard " in act.detail and act.detail.endswith(" ms ago, is fenced")


def test_a_restart_and_a_rejoin_take_nothing_over(rig: TakeoverRig) -> None:
    old = rig.static("old", "10.0.0.1")
    old.join()  # it knows its member id
    rig.run(4_000)
    old.member_id = ""
    old.join()  # it does not, but is the same process on the same connection
    rig.run(4_000)
    old.kill()
    rig.static("old", "10.0.0.1")

    assert rig.told() == []
    assert rig.acts() == []
    (reply,) = rig.ask(ASKING, ListNotes("g"))
    assert "static member replaced" in {one.cause for one in reply.notes}  # type: ignore[attr-defined]


def test_a_restart_after_a_takeover_does_not_hide_it(rig: TakeoverRig) -> None:
    rig.static("old", "10.0.0.1")
    new = rig.static("new", "10.0.0.2")
    new.kill()
    rig.run(1_000)
    rig.static("new", "10.0.0.2")
    assert [act.times for act in rig.acts()] == [1]


def test_a_takeover_after_restarts_is_told(rig: TakeoverRig) -> None:
    one = rig.static("old", "10.0.0.1")
    for _ in range(2):
        one.kill()
        rig.run(1_000)
        one = rig.static("old", "10.0.0.1")
    assert rig.told() == []
    rig.static("new", "10.0.0.2")
    assert len(rig.told()) == 1 and [act.times for act in rig.acts()] == [1]


def test_a_holder_that_was_heard_on_a_newer_connection_is_fenced(rig: TakeoverRig) -> None:
    old = rig.static("old", "10.0.0.1")
    member_id, generation = old.member_id, old.generation
    old.kill()
    rig.wait(500)
    rig.ask(OLD, Heartbeat("g", generation, member_id, "i"))
    rig.wait(500)
    rig.static("new", "10.0.0.2")

    assert [line["event"] for line in rig.told()] == ["takeover"]


def test_a_takeover_during_a_rebalance_is_told(rig: TakeoverRig) -> None:
    rig.static("old", "10.0.0.1")
    slow = rig.member("g", "slow", "10.0.0.3", slow_ms=60_000)
    rig.run(8_000)
    rig.member("g", "another", "10.0.0.4")  # `slow` lets everyone wait
    rig.run(8_000)
    assert rig.node.core.directory["g"].classic.state.title == "PreparingRebalance"
    assert not slow.error

    rig.static("new", "10.0.0.2")

    (line,) = rig.told()
    assert (line["client_id"], line["previous"]["client_id"]) == ("new", "old")


def test_two_processes_that_fence_each_other_fill_neither_notes_nor_lines(rig: TakeoverRig) -> None:
    rig.static("first", "10.0.0.1")
    for number in (OLD, NEW) * 32:
        rig.classic_join(number)
        rig.wait(1_000)

    lines, acts = rig.told(), rig.acts()
    assert [line.get("times", 1) for line in lines] == [1, 2, 4, 8, 16, 32, 64]
    assert len(acts) <= 3


def test_a_takeover_in_a_server_driven_group_is_told(rig: TakeoverRig) -> None:
    assert not rig.beat(OLD, "m-old", 0).error_code
    rig.wait(1_500)
    rig.told()

    taken = rig.classic_join(NEW)

    assert not taken.error_code
    (line,) = rig.told()
    told = [line[name] for name in ("event", "group", "instance", "member_id")]
    assert told == ["takeover", "g", "i", taken.member_id]
    assert (line["client_id"], line["host"], line["listener"]) == ("new", f"10.0.1.{NEW}", "native")
    assert (line["previous"]["member_id"], line["previous"]["client_id"]) == ("m-old", "old")
    assert 1_500 <= line["previous"]["heard_ago_ms"] < 5_000
    assert [one.act for one in rig.acts()] == ["takeover"]
    refused = rig.beat(OLD, "m-old", 1)
    assert refused.error_code and rig.told() == []


def test_a_member_of_the_consumer_protocol_takes_over_from_a_classic_one(rig: TakeoverRig) -> None:
    rig.static("classic", "10.0.0.1")
    rig.told()
    assert not rig.beat(NEW, "m-new", 0).error_code

    (line,) = rig.told()
    assert (line["member_id"], line["previous"]["client_id"]) == ("m-new", "classic")


def test_a_member_that_is_away_has_nothing_taken_over(rig: TakeoverRig) -> None:
    rig.beat(OLD, "m-old", 0)
    rig.beat(OLD, "m-old", -2)
    assert not rig.beat(NEW, "m-new", 0).error_code
    assert rig.told() == []
