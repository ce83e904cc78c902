"""Tokens of an identity provider at a real daemon: stock clients, our own, and keys that are replaced."""

import asyncio
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import aiokafka
import aiokafka.abc
import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient
from joserfc.jwk import RSAKey

from coordinator.accounts.oauth import TokenSettings, TokenVerifier
from coordinator.config.config import Config
from coordinator.io.jwks import KeyReader, read_keys
from muster.blocking import ClusterClient
from muster.errors import AuthenticationFailed
from protocol.messages.groups import ListGroups, ListGroupsReply
from tests.accounts.identity_provider import AUDIENCE, ISSUER, claims, key_set, rsa_key, token
from tests.edges.musterd import Daemon, running, within

WAIT_S = 60.0
KEY = rsa_key()


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def fresh(key: RSAKey = KEY, **changed: Any) -> str:
    return token(key, claims(now_ms(), **changed))


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    folder = tmp_path_factory.mktemp("oauth")
    (folder / "keys.json").write_bytes(key_set(KEY))
    with running(
        folder / "data",
        "sasl.enabled.mechanisms=OAUTHBEARER",
        f"sasl.oauthbearer.jwks.endpoint.url=file://{folder / 'keys.json'}",
        f"sasl.oauthbearer.expected.audience={AUDIENCE}",
        f"sasl.oauthbearer.expected.issuer={ISSUER}",
        "authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users=User:alice",
        with_kafka=True,
    ) as one:
        yield one


def librdkafka(daemon: Daemon, given: str) -> AdminClient:
    settings: dict[str, Any] = {
        "bootstrap.servers": f"127.0.0.1:{daemon.kafka_port}",
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "OAUTHBEARER",
        "oauth_cb": lambda _config: (given, time.time() + 300, "alice", {"traceId": "5"}),
    }
    return AdminClient(settings)


def test_librdkafka_comes_in_by_a_token(daemon: Daemon) -> None:
    assert librdkafka(daemon, fresh()).list_topics(timeout=WAIT_S).brokers


def test_librdkafka_hears_that_its_token_is_refused(daemon: Daemon) -> None:
    client = librdkafka(daemon, fresh(aud="another service"))
    with pytest.raises(KafkaException):
        client.list_topics(timeout=5)


class Provider(aiokafka.abc.AbstractTokenProvider):  # type: ignore[misc]
    async def token(self) -> str:
        return fresh()


async def test_aiokafka_comes_in_by_a_token(daemon: Daemon) -> None:
    client = aiokafka.AIOKafkaConsumer(
        bootstrap_servers=f"127.0.0.1:{daemon.kafka_port}",
        security_protocol="SASL_PLAINTEXT",
        sasl_mechanism="OAUTHBEARER",
        sasl_oauth_token_provider=Provider(),
    )
    async with asyncio.timeout(WAIT_S):
        await client.start()
        assert await client.topics() == set()
        await client.stop()


def comes_in(address: str, path: Path) -> bool:
    security = {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.oauthbearer.token.endpoint.url": f"file://{path}",
    }
    try:
        with ClusterClient(address, security=security) as connection:
            return isinstance(connection.ask(ListGroups()), ListGroupsReply)
    except AuthenticationFailed:
        return False


@pytest.mark.parametrize("dialect", ["native", "kafka"])
def test_our_own_client_reads_its_token_from_a_file_at_each_login(daemon: Daemon, tmp_path: Path, dialect: str) -> None:
    path = tmp_path / "token"
    address = daemon.bootstrap if dialect == "native" else f"kafka://127.0.0.1:{daemon.kafka_port}"
    path.write_text(fresh() + "\n")
    assert comes_in(address, path)
    path.write_text(fresh(iss="https://evil.example"))
    assert not comes_in(address, path)
    path.unlink()
    assert not comes_in(address, path)


def test_a_token_with_a_new_key_has_the_keys_read_again(daemon: Daemon, tmp_path: Path) -> None:
    path, keys = tmp_path / "token", daemon.folder.parent / "keys.json"
    new = rsa_key("new")
    path.write_text(fresh(new))
    assert not comes_in(daemon.bootstrap, path)
    keys.write_bytes(key_set(KEY, new))
    assert within(WAIT_S, lambda: comes_in(daemon.bootstrap, path), every_s=0.5)
    keys.write_text("no keys")
    path.write_text(fresh(rsa_key("newer")))
    assert not comes_in(daemon.bootstrap, path)
    path.write_text(fresh(new))
    assert comes_in(daemon.bootstrap, path), "what cannot be read takes no key away"
    keys.write_bytes(key_set(KEY, new))


# --------------------------------------------------------------------------------------------------- keys at an address


class Provided(BaseHTTPRequestHandler):
    """An identity provider that answers as `answers` say, the last one again and again."""

    answers: list[tuple[int, bytes]]

    def do_GET(self) -> None:
        code, body = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        self.send_response(code)
        if code == 302:
            self.send_header("Location", f"http://127.0.0.1:{self.server.server_port}/elsewhere")  # type: ignore[attr-defined]
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_given: Any) -> None:
        """Say nothing."""


@pytest.fixture
def provider() -> Iterator[tuple[type[Provided], str]]:
    class Own(Provided):
        answers = [(200, key_set(KEY))]

    server = ThreadingHTTPServer(("127.0.0.1", 0), Own)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield Own, f"http://127.0.0.1:{server.server_port}/keys"
    server.shutdown()
    server.server_close()
    thread.join()


async def test_keys_at_an_address_are_tried_until_they_can_be_read(provider: tuple[type[Provided], str]) -> None:
    kind, url = provider
    kind.answers = [(500, b"no"), (302, b""), (200, b"no keys"), (200, b" " * (2 << 20)), (200, key_set(KEY))]
    verifier = TokenVerifier(TokenSettings((AUDIENCE,), ISSUER))
    settings: dict[str, Any] = {"sasl_oauthbearer_jwks_endpoint_url": url}
    reader = KeyReader(Config(**settings, sasl_oauthbearer_jwks_endpoint_retry_backoff_ms=1), verifier)
    reader.start()
    assert await asyncio.to_thread(within, WAIT_S, lambda: verifier.has_keys)
    assert verifier.verify(fresh(), now_ms()).name == "alice" and len(kind.answers) == 1
    reader.stop()


async def test_a_file_that_cannot_be_used_is_told_at_the_start(tmp_path: Path) -> None:
    verifier = TokenVerifier(TokenSettings())
    for path, why in ((tmp_path / "none", "No such file"), (tmp_path / "wrong", "no JSON Web Key Set")):
        if path.name == "wrong":
            path.write_text("[]")
        reader = KeyReader(Config(sasl_oauthbearer_jwks_endpoint_url=f"file://{path}"), verifier)
        with pytest.raises(ValueError, match=why):
            reader.start()
        reader.stop()


def test_no_more_is_read_than_keys_can_be(tmp_path: Path) -> None:
    (tmp_path / "large").write_bytes(b" " * (2 << 20))
    with pytest.raises(OSError, match="more than"):
        read_keys(f"file://{tmp_path / 'large'}")
