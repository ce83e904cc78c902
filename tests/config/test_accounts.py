"""Keys of accounts: those that need each other, and those that a cluster's own rules replace."""

import pytest

from coordinator.config.accounts import Audiences, Mechanisms, Principals
from coordinator.config.config import Config, ConfigError, load_config

AUTHORIZER = "authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer"
OAUTH = "sasl.enabled.mechanisms=OAUTHBEARER"
JWKS = "sasl.oauthbearer.jwks.endpoint.url="
LOGINS = "sasl.enabled.mechanisms=SCRAM-SHA-512,PLAIN"


def load(*settings: str) -> Config:
    arguments = [part for one in settings for part in ("--set", one)]
    return load_config(arguments, {}, lambda path: b"")


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        (("super.users=User:root",), "super.users = User:root (--set): there are no access control lists without"),
        (("allow.everyone.if.no.acl.found=true",), "there are no access control lists without authorizer.class.name"),
        (("connections.max.reauth.ms=1",), "there are no logins without sasl.enabled.mechanisms"),
        (("initial.admin=root:hush",), "initial.admin = (hidden) (--set): there are no logins"),
        ((LOGINS, "initial.admin=hush"), "initial.admin = (hidden) (--set): NAME:PASSWORD is allowed"),
        ((LOGINS, "upstream.servers=b:1"), "in front of a cluster its own users and access control lists rule"),
        ((AUTHORIZER, "upstream.servers=b:1"), "in front of a cluster its own users and access control lists rule"),
        (("sasl.enabled.mechanisms=GSSAPI",), "some of PLAIN,SCRAM-SHA-256,SCRAM-SHA-512,OAUTHBEARER, or nothing"),
        ((OAUTH,), "OAUTHBEARER needs sasl.oauthbearer.jwks.endpoint.url"),
        (("sasl.oauthbearer.expected.audience=x",), "sasl.enabled.mechanisms has no OAUTHBEARER"),
        ((LOGINS, f"{JWKS}https://idp/keys"), "sasl.enabled.mechanisms has no OAUTHBEARER"),
        ((OAUTH, f"{JWKS}http://idp.example.net/keys"), "https://, file:/// or http:// of a loopback address"),
        ((OAUTH, f"{JWKS}ftp://idp.example.net/keys"), "https://, file:/// or http:// of a loopback address"),
        ((OAUTH, f"{JWKS}file://host/keys"), "https://, file:/// or http:// of a loopback address"),
        ((OAUTH, f"{JWKS}https://[/keys"), "https://, file:/// or http:// of a loopback address"),
        ((AUTHORIZER, "super.users=root"), "User:NAME[;User:NAME...] or nothing is allowed"),
        (("ssl.principal.mapping.rules=RULE:x",), "'RULE:x' is no rule: DEFAULT or RULE:pattern/replacement/[LU] is"),
        (("authorizer.class.name=my.Own",), "(--set): org.apache.kafka.metadata.authorizer.StandardAuthorizer is"),
        (("kafka=0.0.0.0:9092",), "tls.client.ca.location or sasl.enabled.mechanisms, or --open-to-network"),
        (("native=0.0.0.0:9390",), "tls.client.ca.location or sasl.enabled.mechanisms, or --open-to-network"),
        (
            (LOGINS, "http=0.0.0.0:9391"),
            "tls.client.ca.location or sasl.enabled.mechanisms with TLS",
        ),
    ],
)
def test_a_setting_that_would_protect_nothing_ends_the_start(settings: tuple[str, ...], sentence: str) -> None:
    with pytest.raises(ConfigError) as refused:
        load(*settings)
    assert sentence in str(refused.value)
    assert "hush" not in str(refused.value)


def test_logins_open_the_listener_of_kafkas_clients_to_the_network() -> None:
    config = load(LOGINS, "kafka=0.0.0.0:9092")
    assert config.sasl_enabled_mechanisms == Mechanisms(("SCRAM-SHA-512", "PLAIN"))
    assert config.wants_logins and config.has_accounts
    assert not Config().has_accounts


def test_super_users_are_divided_by_semicolons_since_names_in_certificates_have_commas() -> None:
    config = load(AUTHORIZER, "super.users=User:CN=a,O=b; User:c")
    assert config.super_users == Principals(frozenset({"User:CN=a,O=b", "User:c"}))


@pytest.mark.parametrize("url", ["https://idp.example.net/keys", "file:///etc/keys.json", "http://127.0.0.1:80/keys"])
def test_tokens_need_keys_that_nobody_can_replace_and_an_audience(url: str) -> None:
    config = load(OAUTH, f"{JWKS}{url}")
    assert config.accepts_tokens and config.wants_logins
    assert any("any other service is accepted" in one for one in config.warnings)
    config = load(OAUTH, f"{JWKS}{url}", "sasl.oauthbearer.expected.audience=muster, other")
    assert config.sasl_oauthbearer_expected_audience == Audiences(("muster", "other"))
    assert not any("any other service" in one for one in config.warnings)
