"""Principals of connections that show a certificate."""

from typing import Any

import pytest

from coordinator.node.events import Opened
from protocol.messages.consumer_groups import ConsumerGroupHeartbeat
from protocol.messages.groups import JoinGroup, JoinProtocol, ListNotes
from tests.node.node_rig import NodeRig

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
