"""Principals of connections that show a certificate."""

from typing import Any

import pytest

from coordinator.node.events import Call, Opened
from protocol.messages.consumer_groups import ConsumerGroupHeartbeat
from protocol.messages.groups import ApplyOffsets, JoinGroup, JoinProtocol, ListNotes, OffsetChange
from protocol.messages.offsets import OffsetFetch, OffsetFetchGroup
from tests.node.node_rig import NodeRig
from tests.node.test_audit import commit

SUBJECT = ((("organizationName", "Pay"),), (("commonName", "billing"),))


@pytest.mark.parametrize(
    ("rules", "principal"),
    [("DEFAULT", "User:CN=billing,O=Pay"), ("RULE:^CN=(.*?),.*$/$1/", "User:billing")],
)
def test_a_connection_is_named_by_the_rules(rules: str, principal: str) -> None:
    rig = NodeRig(ssl_principal_mapping_rules=rules)
    rig.step(Opened(1, "native", "10.0.0.1", subject=SUBJECT))
    assert rig.node.core.connections[1].principal == principal
    rig.step(Opened(2, "native", "10.0.0.1"))
    assert rig.node.core.connections[2].principal == "User:ANONYMOUS"


@pytest.mark.parametrize("is_classic", [True, False])
def test_notes_name_the_certificate_of_who_did_it(*, is_classic: bool) -> None:
    rig = NodeRig(ssl_principal_mapping_rules="DEFAULT")
    rig.make_topic("orders", 1)
    rig.connect_from(1, "10.0.0.1", subject=SUBJECT, serial="0A1B")
    if is_classic:
        rig.ask(1, JoinGroup("g", 45_000, "", "consumer", (JoinProtocol("range", b""),), wants_member_id_first=False))
        rig.wait(4_000)
    else:
        joining: dict[str, Any] = {
            "rebalance_timeout_ms": 60_000,
            "subscribed_topic_names": ("orders",),
            "topic_partitions": (),
        }
        rig.ask(1, ConsumerGroupHeartbeat("g", "m", 0, **joining))
    rig.connect(2)
    (reply,) = rig.ask(2, ListNotes("g"))
    origin = next(one.origin for one in reply.notes if one.origin is not None)  # type: ignore[attr-defined]
    assert (origin.listener, origin.principal) == ("native", "User:CN=billing,O=Pay")
    assert origin.certificate == "CN=billing,O=Pay serial=0A1B"
    assert rig.node.core.client(2).certificate == ""


def test_a_commit_names_the_certificate_of_its_client() -> None:
    rig = NodeRig()
    rig.make_topic("orders", 1)
    rig.connect_from(1, "10.0.0.1", subject=SUBJECT, serial="0A1B")
    rig.ask(1, commit({0: 5}))
    (reply,) = rig.ask(1, OffsetFetch((OffsetFetchGroup("g", with_origins=True),)))
    (origin,) = reply.groups[0].topics[0].origins  # type: ignore[attr-defined]
    assert origin.certificate == "CN=billing,O=Pay serial=0A1B"


@pytest.mark.parametrize("principal", ["", "User:alice"])
def test_an_act_over_http_names_the_certificate_with_a_login_and_without_one(principal: str) -> None:
    rig = NodeRig()
    rig.make_topic("orders", 1)
    rig.connect(1)
    rig.ask(1, commit({0: 5}))
    change = ApplyOffsets("g", (OffsetChange("orders", 0, 5, 3),), actor="alice", actor_host="10.0.0.7")
    rig.step(Call(7, change, principal, "10.0.0.7", "CN=alice serial=0C"))
    rig.wait(0)
    assert 7 in rig.replied and not rig.node.core.callers
    (reply,) = rig.ask(1, ListNotes("g"))
    origin = reply.notes[-1].origin  # type: ignore[attr-defined]
    assert (origin.client_id, origin.client_host, origin.listener) == ("alice", "/10.0.0.7", "http")
    assert (origin.principal, origin.certificate) == (principal, "CN=alice serial=0C")


def test_a_long_name_takes_little_of_a_note() -> None:
    rig = NodeRig()
    rig.step(Opened(1, "native", "10.0.0.1", subject=((("commonName", "n" * 9_000),),), serial="0A1B"))
    certificate = rig.node.core.connections[1].certificate
    assert len(certificate) < 600 and certificate.endswith("n serial=0A1B")


def test_a_certificate_without_a_subject_is_told_by_its_serial_number() -> None:
    rig = NodeRig()
    rig.step(Opened(1, "native", "10.0.0.1", serial="0A1B"))
    connection = rig.node.core.connections[1]
    assert (connection.certificate, connection.principal) == ("serial=0A1B", "User:ANONYMOUS")


def test_a_name_that_no_rule_matches_is_closed() -> None:
    rig = NodeRig(ssl_principal_mapping_rules="RULE:^CN=other$/x/")
    rig.step(Opened(1, "native", "10.0.0.1", subject=SUBJECT))
    assert "no rule of ssl.principal.mapping.rules matches" in rig.closed[1]
    assert not rig.node.core.connections
