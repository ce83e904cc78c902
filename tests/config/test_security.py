"""Keys of TLS and logins: what goes together, what is refused, and what is never shown."""

import pytest

from coordinator.config.config import Config, ConfigError, load_config
from coordinator.config.keys import ListenerKinds, NameCheck, SaslMechanism, Secret, SecurityProtocol
from coordinator.config.security import SecurityConfig, check_security, security_warnings
from protocol.kafka.login import MECHANISMS, OAUTHBEARER

CERTIFICATE = "tls.certificate.location=c.pem"
PASSWORD = "upstream.sasl.password (MUSTER_UPSTREAM_SASL_PASSWORD)"
NAME = ("upstream.sasl.username=muster", "upstream.sasl.password=geheim")


def load(*settings: str, flags: tuple[str, ...] = (), file: str = "") -> Config:
    arguments = [part for setting in settings for part in ("--set", setting)]
    named = ("--config", "m.toml") if file else ()
    return load_config([*flags, *named, *arguments], {}, lambda _: file.encode())


def refusal(*settings: str, file: str = "") -> str:
    with pytest.raises(ConfigError) as refused:
        load(*settings, file=file)
    return str(refused.value)


def test_nothing_is_secured_unless_it_is_wanted() -> None:
    config = Config()
    assert not any(config.speaks_tls(kind) or config.asks_who(kind) for kind in ("native", "kafka", "http"))
    assert config.upstream_protocol is SecurityProtocol.PLAINTEXT


def test_with_a_certificate_all_listeners_speak_tls_or_those_that_are_named() -> None:
    assert all(load(CERTIFICATE).speaks_tls(kind) for kind in ("native", "kafka", "http"))
    some = load(CERTIFICATE, "tls.listeners=kafka, native", "tls.client.ca.location=ca.pem")
    assert some.tls_listeners == ListenerKinds(("kafka", "native"))
    assert [kind for kind in ("native", "kafka", "http") if some.speaks_tls(kind)] == ["native", "kafka"]
    assert some.asks_who("kafka")
    assert not some.asks_who("http")


@pytest.mark.parametrize("listeners", ["", "kafka,", "smtp", "all"])
def test_a_listener_that_is_none_is_refused(listeners: str) -> None:
    assert refusal(CERTIFICATE, f"tls.listeners={listeners}") == (
        f"tls.listeners = {listeners} (--set): some of native,kafka,http is allowed"
    )


def test_where_clients_show_a_certificate_the_network_need_not_be_trusted() -> None:
    asks = (CERTIFICATE, "tls.client.ca.location=ca.pem")
    assert load(*asks, flags=("--kafka", "0.0.0.0:9092")).open_to_network is False
    for settings in ((CERTIFICATE,), (*asks, "tls.listeners=http")):
        with pytest.raises(ConfigError, match="clients would need no login"):
            load(*settings, flags=("--kafka", "0.0.0.0:9092"))


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        (
            ("tls.key.location=k.pem",),
            "tls.key.location = k.pem (--set): there is no TLS without tls.certificate.location",
        ),
        (("tls.listeners=http",), "tls.listeners = http (--set): there is no TLS without tls.certificate.location"),
        (
            ("upstream.ssl.ca.location=ca.pem",),
            "upstream.ssl.ca.location = ca.pem (--set): upstream.security.protocol PLAINTEXT has no TLS",
        ),
        (
            (*NAME, "upstream.ssl.ca.location=ca.pem"),
            "upstream.ssl.ca.location = ca.pem (--set): upstream.security.protocol SASL_PLAINTEXT has no TLS",
        ),
        (
            (*NAME, "upstream.security.protocol=SSL"),
            "upstream.sasl.username = muster (--set): upstream.security.protocol SSL has no login",
        ),
        (
            ("upstream.sasl.mechanism=SCRAM-SHA-512",),
            "upstream.sasl.mechanism = SCRAM-SHA-512 (--set): upstream.security.protocol PLAINTEXT has no login",
        ),
        (
            ("upstream.security.protocol=SASL_SSL",),
            f"upstream.security.protocol = SASL_SSL (--set): a login needs upstream.sasl.username and {PASSWORD}",
        ),
        (
            NAME[:1],
            f"upstream.sasl.username = muster (--set): {PASSWORD} is missing",
        ),
        (
            ("upstream.security.protocol=SSL", "upstream.ssl.key.location=k.pem"),
            "upstream.ssl.key.location = k.pem (--set): there is no upstream.ssl.certificate.location it is of",
        ),
        (
            ("upstream.security.protocol=TLS",),
            "upstream.security.protocol = TLS (--set): PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL is allowed",
        ),
        (
            (*NAME, "upstream.sasl.mechanism=GSSAPI"),
            "upstream.sasl.mechanism = GSSAPI (--set): PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512 is allowed",
        ),
        (
            ("upstream.ssl.endpoint.identification.algorithm=no",),
            "upstream.ssl.endpoint.identification.algorithm = no (--set): https or none is allowed",
        ),
    ],
)
def test_what_would_leave_open_what_somebody_believes_closed_is_refused(
    settings: tuple[str, ...], sentence: str
) -> None:
    assert refusal(*settings) == sentence


def test_a_name_means_a_login_and_the_protocol_may_say_more() -> None:
    assert load(*NAME).upstream_protocol is SecurityProtocol.SASL_PLAINTEXT
    secured = load(*NAME, "upstream.security.protocol=SASL_SSL", "upstream.sasl.mechanism=SCRAM-SHA-256")
    assert secured.upstream_protocol.is_tls
    assert secured.upstream_protocol.is_sasl
    assert secured.upstream_sasl_mechanism is SaslMechanism.SCRAM_SHA_256
    assert secured.upstream_ssl_endpoint_identification_algorithm is NameCheck.HTTPS


def test_the_mechanisms_are_those_that_are_spoken() -> None:
    assert (*SaslMechanism, OAUTHBEARER) == MECHANISMS, "brokers are not shown tokens"


def test_a_name_that_can_be_no_login_is_refused_without_its_password() -> None:
    sentence = refusal("upstream.sasl.username=a\0b", "upstream.sasl.password=geheim")
    assert "control characters" in sentence
    assert "geheim" not in refusal("upstream.sasl.username=muster", "upstream.sasl.password=geheim\0")


def test_a_password_is_never_shown() -> None:
    config = load(*NAME, CERTIFICATE, "tls.key.password=zu")
    assert config.upstream_sasl_password == Secret("geheim") == "geheim"
    assert "geheim" not in repr(config)
    assert "zu" not in repr(config).replace("zum", "")
    assert refusal(file="upstream.sasl.password = 4711") == (
        "upstream.sasl.password = (hidden) (in m.toml): a text that is not empty is allowed"
    )
    assert "zu" not in refusal("tls.key.password=zu")


def test_who_lends_brokers_its_name_to_everybody_is_warned() -> None:
    lends = ("upstream.servers=b:9093", "upstream.security.protocol=SSL", "upstream.ssl.certificate.location=c.pem")
    assert "all clients have the principal of" in load(*lends).warnings[0]
    assert load(*lends, CERTIFICATE, "tls.client.ca.location=ca.pem").warnings == ()
    assert security_warnings(SecurityConfig()) == ()
    check_security(SecurityConfig(), {}, lambda key, why: ConfigError(f"{key}{why}"))
