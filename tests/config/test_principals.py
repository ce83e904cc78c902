"""Names from certificates: RFC 2253, and Kafka's rules."""

import pytest

from coordinator.config.principals import distinguished_name, map_name, parse_rules

SUBJECT = (
    (("countryName", "DE"),),
    (("organizationName", 'Pay, "Inc"'),),
    (("organizationalUnitName", "Teams"), ("organizationalUnitName", "Ops")),
    (("commonName", "billing"),),
)
NAME = r"CN=billing,OU=Teams+OU=Ops,O=Pay\, \"Inc\",C=DE"


def test_a_subject_is_written_by_rfc_2253_the_last_part_first() -> None:
    assert distinguished_name(SUBJECT) == NAME


def test_an_address_has_no_keyword_in_rfc_2253() -> None:
    assert distinguished_name(((("emailAddress", "a@b"),),)) == "1.2.840.113549.1.9.1=#1603614062"


@pytest.mark.parametrize(
    ("rules", "name", "mapped"),
    [
        ("DEFAULT", "CN=billing,C=DE", "CN=billing,C=DE"),
        ("", "CN=billing", "CN=billing"),
        (r"RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/,DEFAULT", "CN=kafka,OU=ServiceUsers,C=DE", "kafka"),
        (r"RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/,DEFAULT", "CN=kafka,OU=Other", "CN=kafka,OU=Other"),
        (r"RULE:^CN=(.*?),OU=(.*?),O=(.*?)$/$1@$2/L", "CN=Ann,OU=Ops,O=X", "ann@ops"),
        (r"RULE:^.*[Cc][Nn]=([a-zA-Z0-9.]*).*$/$1/U", "cn=ann,O=X", "ANN"),
        (r"RULE:^CN=(.*)$/a\/$1/", "CN=x", "a/x"),
        (r"RULE:^CN=(.*?)$/$1/", "O=x", None),
    ],
)
def test_the_first_rule_that_matches_names_the_principal(rules: str, name: str, mapped: str | None) -> None:
    assert map_name(parse_rules(rules), name) == mapped


@pytest.mark.parametrize("rules", ["RULE:", "RULE:a/b", "RULE:(/x/", "default", "RULE:a/b/X", "DEFAULT;DEFAULT"])
def test_what_is_no_rule_is_refused(rules: str) -> None:
    with pytest.raises(ValueError, match="is no r"):
        parse_rules(rules)
