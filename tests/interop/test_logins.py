"""Judgements and the printed page of other people's logins. No server and no client runs here."""

import json
from pathlib import Path

import pytest
from joserfc import jwt
from joserfc.errors import BadSignatureError
from joserfc.jwk import KeySet

from interop.builds import CLIENTS as FOLDERS
from interop.catalogue import read
from interop.logins.beside import told
from interop.logins.guarded import MECHANISMS, PROTOCOLS, Counts, counts
from interop.logins.identity_provider import AUDIENCE, IdentityProvider, credentials
from interop.logins.page import MARK, MARK_BESIDE, failures, table
from interop.logins.playing import CLIENTS, Choice
from interop.logins.story import COLUMNS, check_read, refusal, renewed, written
from interop.processes import Failed
from interop.program import python_settings, security
from interop.table import PAGE, Result, Verdict, spliced

BEFORE = Counts(logins=4, failed=1, expired=2, opened=9)
SENT = [(0, "0"), (1, "1"), (0, "6")]


def test_connections_that_stay_are_reauthenticated() -> None:
    after = BEFORE._replace(logins=10)
    assert "on connections that stayed" in renewed(BEFORE, after, by_reauthentication=True)


def test_a_client_that_connects_anew_is_told_of_and_fails_where_it_can_do_better() -> None:
    after = BEFORE._replace(logins=10, expired=5, opened=12)
    sentence = "3 connections were closed at the end of their login, 3 opened"
    assert renewed(BEFORE, after, by_reauthentication=False) == f"connects anew: {sentence}"
    with pytest.raises(Failed, match=sentence):
        renewed(BEFORE, after, by_reauthentication=True)


def test_connections_that_stay_without_another_login_have_escaped_the_rule() -> None:
    with pytest.raises(Failed, match="1 logins in 3 lives"):
        renewed(BEFORE, BEFORE._replace(logins=5), by_reauthentication=True)


@pytest.mark.parametrize(
    "read_instead", [SENT[:2], [*SENT, (1, "1")], [(0, "6"), (1, "1"), (0, "0")]], ids=["lost", "twice", "disordered"]
)
def test_a_record_that_is_lost_or_read_twice_or_late_fails(read_instead: list[tuple[int, str]]) -> None:
    check_read(SENT, [SENT[1], SENT[0], SENT[2]])
    with pytest.raises(Failed, match="of partition"):
        check_read(SENT, read_instead)


@pytest.mark.parametrize(
    "said",
    [
        "%3|1|FAIL|rdkafka#consumer-1| x: SASL authentication error: Authentication failed",
        "[Error 58] SaslAuthenticationFailed: Authentication failed during authentication",
        "ERROR: Abort ([Error 58] SaslAuthenticationFailedError: x)",
        "org.apache.kafka.common.errors.SaslAuthenticationException: Authentication failed",
        "unable to dial: SASL_AUTHENTICATION_FAILED: SASL Authentication failed.",
        "[ERROR] unable to initialize sasl; broker: seed_0, err: unexpected data in oauth response",
        'kafka: client has run out of brokers: {"status":"invalid_token"}',
    ],
)
def test_clients_tell_of_a_refusal_in_their_own_words(said: str) -> None:
    assert refusal(f"starting\n{said}\n")


@pytest.mark.parametrize(
    "said", ["Exchanging credentials in the clear during Sasl Authentication", "socket disconnected", ""]
)
def test_a_warning_or_a_lost_connection_tells_of_no_refusal(said: str) -> None:
    assert not refusal(said)


def test_of_a_client_that_drops_the_answer_a_lost_connection_is_enough() -> None:
    assert refusal("ERROR: socket disconnected", "kafka-python") and not refusal("a warning", "kafka-python")
    assert refusal("Unable to update metadata from []", "aiokafka")


def test_counters_are_read_from_the_metrics_and_are_0_without_a_line() -> None:
    page = "# TYPE muster_logins_total counter\nmuster_logins_total 7.0\nmuster_connections_opened_total 3.0\n"
    assert counts(page) == Counts(logins=7, failed=0, expired=0, opened=3)


def test_logins_at_a_broker_are_read_from_its_log() -> None:
    log = (
        "[x] DEBUG Successfully authenticated with /127.0.0.1 (Selector)\n"
        "[x] DEBUG Successfully re-authenticated with /127.0.0.1 (Selector)\n"
        "[x] INFO [SocketServer] Failed authentication with /127.0.0.1 (Authentication failed: Invalid) (Selector)\n"
    )
    assert told(log, 5) == Counts(logins=1, failed=1, expired=0, opened=5)


def test_a_token_is_signed_by_the_key_that_is_shown_unless_the_secret_is_wrong() -> None:
    provider = IdentityProvider("reader", "right")
    shown = KeySet.import_key_set(json.loads(provider.key_set()))
    claims = jwt.decode(provider.token("reader:right", 1_000), shown).claims
    assert (claims["sub"], claims["aud"], claims["exp"]) == ("reader", AUDIENCE, 1_300)
    with pytest.raises(BadSignatureError):
        jwt.decode(provider.token("reader:wrong", 1_000), shown)
    assert b'"d"' not in provider.key_set(), "the private key is nobody's"


def test_credentials_are_those_of_basic() -> None:
    assert credentials("Basic cmVhZGVyOnJpZ2h0") == "reader:right"
    assert credentials("Bearer cmVhZGVyOnJpZ2h0") is credentials("Basic ???") is credentials(None) is None


def test_a_program_reads_the_settings_that_were_written(tmp_path: Path) -> None:
    given = {"security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN", "sasl.username": "a", "sasl.password": "b=c d"}
    found = security(str(written(tmp_path / "x.properties", given)))
    assert found == given and security(None) == {}
    assert python_settings(found) == {
        "security_protocol": "SASL_SSL",
        "sasl_mechanism": "PLAIN",
        "sasl_plain_username": "a",
        "sasl_plain_password": "b=c d",
    }
    by_token = python_settings(found | {"sasl.mechanism": "OAUTHBEARER"})
    assert by_token == {"security_protocol": "SASL_SSL", "sasl_mechanism": "OAUTHBEARER"}


def test_every_client_of_the_matrix_is_tried_by_each_of_its_mechanisms_over_both_protocols() -> None:
    cells = list(Choice().cells())
    assert {cell[0] for cell in cells} == set(CLIENTS) and {cell[1] for cell in cells} == set(PROTOCOLS)
    for name in CLIENTS:
        own = read((FOLDERS / name / "client.toml").read_bytes()).mechanisms
        assert own and set(own) <= set(MECHANISMS)
        assert [cell for cell in cells if cell[0] == name] == [(name, at, by) for at in PROTOCOLS for by in own]
    assert list(Choice(("aiokafka",), PROTOCOLS[:1], ("PLAIN",)).cells()) == [("aiokafka", "SASL_PLAINTEXT", "PLAIN")]


def test_the_table_has_a_line_a_login_and_says_what_is_alike_once() -> None:
    joined = Result("joins", Verdict.PASSED, "6 partitions")
    found = {
        ("x", "SASL_PLAINTEXT", "PLAIN"): [joined],
        ("x", "SASL_SSL", "PLAIN"): [joined, Result("reauthenticates", Verdict.FAILED, "a|b\nc")],
    }
    assert table(found).splitlines() == [
        f"| client | protocol | mechanism | {' | '.join(COLUMNS)} |",
        "| --- | --- | --- | --- | --- | --- | --- |",
        "| x | SASL_PLAINTEXT | PLAIN | ok |  |  |  |",
        "| x | SASL_SSL | PLAIN | ok | **failed** |  |  |",
        "",
        "* x, *joins* (SASL_PLAINTEXT PLAIN, SASL_SSL PLAIN): 6 partitions",
        "* x, *reauthenticates* (SASL_SSL PLAIN): FAILED: a\\|b c",
    ]
    assert failures(found) == ["x SASL_SSL PLAIN, reauthenticates: a|b\nc"]


def test_the_page_has_a_place_for_the_table() -> None:
    for mark in (MARK, MARK_BESIDE):
        assert "new\n" in spliced(PAGE.read_text(), "new\n", mark)
