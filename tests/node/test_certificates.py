"""Principals of connections that show a certificate."""

import pytest

from coordinator.node.events import Opened
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


def test_a_name_that_no_rule_matches_is_closed() -> None:
    rig = NodeRig(ssl_principal_mapping_rules="RULE:^CN=other$/x/")
    rig.step(Opened(1, "native", "10.0.0.1", subject=SUBJECT))
    assert "no rule of ssl.principal.mapping.rules matches" in rig.closed[1]
    assert not rig.node.core.connections
