"""Settings of security: their combinations, their usual names, and secret passwords."""

import pickle
import ssl
from pathlib import Path
from unittest.mock import patch

import pytest
import trustme
from rich.pretty import pretty_repr

from membership.events import NodeAddress
from muster.net.bootstrap import parse_bootstrap
from muster.net.dialects import ClientDialect
from muster.net.dialects.handshake_errors import LoginFailed, new_login
from muster.net.security import NAMES, PLAINTEXT, Security, of_environment, read_security, securities
from protocol.errors import ErrorCode
from protocol.kafka.login import LoginRefused
from protocol.messages.node import SaslAuthenticate, SaslAuthenticateReply, SaslHandshakeReply

SCRAM = {
    "security.protocol": "SASL_SSL",
    "sasl.mechanism": "SCRAM-SHA-512",
    "sasl.username": "alice",
    "sasl.password": "wonderland",
}

ENDPOINT = {
    "security.protocol": "SASL_SSL",
    "sasl.mechanism": "OAUTHBEARER",
    "sasl.oauthbearer.token.endpoint.url": "https://idp.example/token",
    "sasl.oauthbearer.client.id": "billing",
    "sasl.oauthbearer.client.secret": "rabbit",
}


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


def test_without_a_word_nothing_is_secured() -> None:
    assert Security() == PLAINTEXT
    assert PLAINTEXT.context() is None
    assert PLAINTEXT.login("nonce") is None


def test_the_usual_names_make_it() -> None:
    made = Security.from_config({**SCRAM, "ssl.endpoint.identification.algorithm": "none"})
    said = Security(
        protocol="SASL_SSL",
        mechanism="SCRAM-SHA-512",
        username="alice",
        password="wonderland",
        check_hostname=False,
    )
    assert made == said
    assert made.is_tls and made.wants_login
    assert read_security(SCRAM) == Security.from_config(SCRAM)
    login = made.login("nonce")
    assert login is not None and login.begin().mechanism == "SCRAM-SHA-512"


def test_other_spellings_of_clients_mean_the_same() -> None:
    plain = {"sasl.mechanisms": "PLAIN", "sasl.username": "a", "sasl.password": "b"}
    made = Security.from_config({"security.protocol": "sasl_plaintext", **plain})
    assert (made.protocol, made.mechanism) == ("SASL_PLAINTEXT", "PLAIN")
    both = Security.from_config({"security.protocol": "SASL_PLAINTEXT", **plain, "sasl.mechanism": "PLAIN"})
    assert both == made
    java = Security.from_config({"security.protocol": "SSL", "ssl.endpoint.identification.algorithm": ""})
    assert not java.check_hostname


@pytest.mark.parametrize(
    ("config", "why"),
    [
        ({"security.protocol": "TLS"}, "'TLS' is no security protocol: one of PLAINTEXT, SSL, SASL_PLAINTEXT"),
        ({"sasl.pasword": "x"}, "'sasl.pasword' is no setting of security; they are security.protocol, ssl.ca"),
        ({"ssl.ca.location": "ca.pem"}, "ca_location is for the security protocols SSL or SASL_SSL, and this is PLAIN"),
        ({"security.protocol": "SSL", "sasl.username": "a"}, "username is for the security protocols SASL_SSL"),
        ({"security.protocol": "SSL", "ssl.key.location": "k"}, "set certificate_location"),
        ({"security.protocol": "SSL", "ssl.key.password": "k"}, "a key's password and no key"),
        ({"security.protocol": "SSL", "ssl.endpoint.identification.algorithm": "no"}, "https or none is wanted"),
        ({"ssl.endpoint.identification.algorithm": "none"}, "without TLS no name of a host is checked"),
        ({"security.protocol": "SASL_SSL"}, "'' is no mechanism of SASL known here: PLAIN, SCRAM-SHA-256"),
        ({**SCRAM, "sasl.mechanism": "GSSAPI"}, "'GSSAPI' is no mechanism"),
        ({**SCRAM, "sasl.mechanisms": "PLAIN"}, "sasl.mechanism and sasl.mechanisms are two names of one setting"),
        ({**SCRAM, "sasl.username": ""}, "needs a username"),
        ({**SCRAM, "sasl.password": ""}, "needs a password"),
        (
            {**SCRAM, "sasl.oauthbearer.token.endpoint.url": "file:///token"},
            "token_url is for the mechanism",
        ),
        ({**SCRAM, "sasl.mechanism": "OAUTHBEARER"}, "OAUTHBEARER has no username and no password"),
        ({"security.protocol": "SASL_SSL", "sasl.mechanism": "OAUTHBEARER"}, "OAUTHBEARER needs a token_url"),
        (
            {**ENDPOINT, "sasl.oauthbearer.token.endpoint.url": "http://idp.example/token"},
            "OAUTHBEARER needs a token_url",
        ),
        ({**ENDPOINT, "sasl.oauthbearer.token.endpoint.url": "https:///token"}, "OAUTHBEARER needs a token_url"),
        ({**ENDPOINT, "sasl.oauthbearer.token.endpoint.url": "file:///token"}, "client_id is for a token_url of https"),
        ({**ENDPOINT, "sasl.oauthbearer.client.secret": ""}, "wants a client_id and a client_secret"),
        ({**SCRAM, "sasl.oauthbearer.client.id": "a"}, "client_id is for the mechanism OAUTHBEARER"),
        ({**SCRAM, "https.ca.location": "a"}, "https_ca_location is for the mechanism OAUTHBEARER"),
    ],
)
def test_what_does_not_go_together_is_said(config: dict[str, str], why: str) -> None:
    with pytest.raises(ValueError, match=why):
        Security.from_config(config)


def test_what_is_no_text_is_said_without_showing_it() -> None:
    with pytest.raises(ValueError, match=r"^password of security is no text$"):
        Security(protocol="SASL_SSL", mechanism="PLAIN", username="a", password=12345)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="broker_security is a list: a Security is wanted"):
        read_security([], "broker_security")  # type: ignore[arg-type]


def test_passwords_are_in_no_text_of_it() -> None:
    kept = Security(
        protocol="SASL_SSL",
        mechanism="PLAIN",
        username="alice",
        password="wonderland",
        certificate_location="c",
        key_password="rabbit",
    )
    for text in (repr(kept), str(kept), f"{kept}", pretty_repr(kept)):
        assert "alice" in text
        assert "wonderland" not in text and "rabbit" not in text
    assert pickle.loads(pickle.dumps(kept)) == kept


def test_those_of_brokers_have_names_of_their_own() -> None:
    both = {"security.protocol": "SSL", **{f"broker.{name}": value for name, value in SCRAM.items()}}
    assert securities(both) == (Security(protocol="SSL"), Security.from_config(SCRAM))
    assert securities({}) == (None, None)
    assert securities(SCRAM) == (Security.from_config(SCRAM), None)


def test_variables_of_the_environment_say_the_same() -> None:
    environment = {
        "MUSTER_SECURITY_PROTOCOL": "SSL",
        "MUSTER_SSL_CA_LOCATION": "ca.pem",
        "MUSTER_BROKER_SASL_PASSWORD": "x",
        "MUSTER_SSL_KEY_PASSWORD": "",
        "MUSTER_BOOTSTRAP": "somewhere",
        "SASL_USERNAME": "nobody",
    }
    assert of_environment(environment) == {
        "security.protocol": "SSL",
        "ssl.ca.location": "ca.pem",
        "broker.sasl.password": "x",
    }
    assert "sasl.password" in NAMES


def test_logins_are_made_in_both_dialects() -> None:
    for bootstrap in ("127.0.0.1:9390", "kafka://127.0.0.1:9092"):
        assert parse_bootstrap(bootstrap, security=SCRAM).security == Security.from_config(SCRAM)


def test_brokers_beside_the_bootstrap_are_reached_as_it_is_unless_told_otherwise() -> None:
    node, broker = NodeAddress("a", 1), NodeAddress("b", 2, 7, "kafka")
    alike = parse_bootstrap("127.0.0.1:9390", security={"security.protocol": "SSL"})
    assert alike.security_of(node) == alike.security_of(broker) == Security(protocol="SSL")
    apart = parse_bootstrap("127.0.0.1:9390", broker_security=SCRAM)
    assert (apart.security_of(node), apart.security_of(broker)) == (PLAINTEXT, Security.from_config(SCRAM))
    of_kafka = parse_bootstrap("127.0.0.1:9092", ClientDialect.KAFKA, SCRAM, {"security.protocol": "SSL"})
    assert of_kafka.security_of(broker) == Security.from_config(SCRAM)


def test_certificates_are_read_from_files_and_folders(authority: trustme.CA, tmp_path: Path) -> None:
    one, own, key = tmp_path / "ca.pem", tmp_path / "own.pem", tmp_path / "key.pem"
    authority.cert_pem.write_to_path(one)
    issued = authority.issue_cert("client")
    issued.private_key_and_cert_chain_pem.write_to_path(own)
    issued.private_key_pem.write_to_path(key)
    context = Security(protocol="SSL", ca_location=str(one), certificate_location=str(own)).context()
    assert context is not None
    assert (context.verify_mode, context.check_hostname) == (ssl.CERT_REQUIRED, True)
    assert context.minimum_version >= ssl.TLSVersion.TLSv1_2
    assert len(context.get_ca_certs()) == 1
    with patch.object(ssl, "create_default_context", side_effect=AssertionError("the system's are not wanted")):
        assert Security(protocol="SSL", ca_location=str(tmp_path)).context() is not None
    loose = Security(
        protocol="SSL", certificate_location=str(own), key_location=str(key), check_hostname=False
    ).context()
    assert loose is not None
    assert (loose.verify_mode, loose.check_hostname) == (ssl.CERT_REQUIRED, False)


def test_files_that_cannot_be_read_are_said_where_a_client_is_made(authority: trustme.CA, tmp_path: Path) -> None:
    nothing, text = str(tmp_path / "nothing.pem"), tmp_path / "text.pem"
    text.write_text("no certificate")
    for bad, why in ((nothing, "No such file"), (str(text), "certificates to believe servers by")):
        with pytest.raises(ValueError, match=why) as refused:
            parse_bootstrap("127.0.0.1:1", security={"security.protocol": "SSL", "ssl.ca.location": bad})
        assert bad in str(refused.value)
    with pytest.raises(ValueError, match="a certificate and its key"):
        Security(protocol="SSL", certificate_location=str(text)).context()


def test_an_encrypted_key_wants_its_password_and_asks_nobody(authority: trustme.CA, tmp_path: Path) -> None:
    from cryptography.hazmat.primitives import serialization as form

    issued = authority.issue_cert("client")
    own, key = tmp_path / "own.pem", tmp_path / "key.pem"
    issued.cert_chain_pems[0].write_to_path(own)
    plain = form.load_pem_private_key(issued.private_key_pem.bytes(), None)
    key.write_bytes(
        plain.private_bytes(form.Encoding.PEM, form.PrivateFormat.PKCS8, form.BestAvailableEncryption(b"rabbit"))
    )
    files = {"protocol": "SSL", "certificate_location": str(own), "key_location": str(key)}
    assert Security(**files, key_password="rabbit").context() is not None  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="key_password is wanted"):
        Security(**files).context()  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="a certificate and its key"):
        Security(**files, key_password="hare").context()  # type: ignore[arg-type]


def test_a_token_is_read_from_its_file_at_each_login(tmp_path: Path) -> None:
    path = tmp_path / "the token"
    url = path.as_uri()
    security = Security(protocol="SASL_SSL", mechanism="OAUTHBEARER", token_url=url)
    with pytest.raises(LoginFailed, match="there is no token: No such file"):
        new_login(lambda: security.login("nonce"))
    path.write_text("")
    with pytest.raises(LoginFailed, match="OAUTHBEARER needs a token"):
        new_login(lambda: security.login("nonce"))
    for text in ("a.b.c", "d.e.f\n"):
        path.write_text(text)
        login = new_login(lambda: security.login("nonce"))
        assert login is not None
        login.begin()
        assert login.on_reply(SaslHandshakeReply()) == SaslAuthenticate(
            f"n,,\x01auth=Bearer {text.strip()}\x01\x01".encode()
        )
        with pytest.raises(LoginRefused) as refused:
            login.on_reply(SaslAuthenticateReply(ErrorCode.SASL_AUTHENTICATION_FAILED, f"no: {text.strip()}"))
        assert str(refused.value) == "the token is not let in by OAUTHBEARER: no: ***"


def test_the_secret_of_a_token_endpoint_is_shown_nowhere() -> None:
    security = Security.from_config({**ENDPOINT, "sasl.oauthbearer.scope": "orders", "https.ca.location": "ca.pem"})
    assert (security.client_id, security.client_secret, security.scope) == ("billing", "rabbit", "orders")
    assert "rabbit" not in repr(security) + pretty_repr(security)
