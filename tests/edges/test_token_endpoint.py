"""Our own clients and the token endpoint of an identity provider: they ask it themselves, and again in time."""

import asyncio
import json
import socket
import ssl
import threading
import time
from base64 import b64encode
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import NamedTuple
from urllib.parse import parse_qsl

import pytest

import muster.aio
from muster import Producer
from muster.blocking import ClusterClient
from muster.errors import AuthenticationFailed
from protocol.errors import ErrorCode
from protocol.messages.groups import ListGroups, ListGroupsReply
from protocol.messages.topics import CreatableTopic, CreateTopics, CreateTopicsReply
from tests.accounts.identity_provider import AUDIENCE, ISSUER, claims, key_set, rsa_key, token
from tests.edges.certificates import Folder
from tests.edges.musterd import Daemon, running

WAIT_S = 300.0
KEY = rsa_key()
SECRET = "the secret of a client"


class Answer(NamedTuple):
    """Answer in place of a token."""

    status: int
    body: object = None
    location: str = ""


class Provider(ThreadingHTTPServer):
    """A token endpoint with TLS. `lifetime_s` is that of its tokens, `answers` come before any."""

    daemon_threads = False  # closing it waits for those it serves

    def __init__(self, folder: Folder) -> None:
        super().__init__(("127.0.0.1", 0), Endpoint)
        self.lifetime_s = 300
        self.answers: list[Answer] = []
        self.asked: list[tuple[str, dict[str, str]]] = []
        self.given = 0
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(folder.chain, folder.key)
        plain: socket.socket = self.socket
        self.socket = context.wrap_socket(plain, server_side=True, do_handshake_on_connect=False)
        self.url = f"https://127.0.0.1:{self.server_port}/token"

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that does not trust us hangs up."""

    def answer(self, path: str, authorization: str | None, form: dict[str, str]) -> Answer:
        self.asked.append((path, form))
        if self.answers:
            return self.answers.pop(0)
        if authorization != "Basic " + b64encode(f"billing:{SECRET}".encode()).decode():
            return Answer(401, {"error": "invalid_client"})
        self.given += 1
        now_ms = time.time_ns() // 1_000_000
        said = claims(now_ms, exp=now_ms // 1_000 + self.lifetime_s + 1)
        return Answer(200, {"access_token": token(KEY, said), "expires_in": self.lifetime_s})


class Endpoint(BaseHTTPRequestHandler):
    server: Provider
    timeout = WAIT_S

    def do_POST(self) -> None:
        form = dict(parse_qsl(self.rfile.read(int(self.headers["Content-Length"])).decode()))
        answer = self.server.answer(self.path, self.headers["Authorization"], form)
        body = answer.body.encode() if isinstance(answer.body, str) else json.dumps(answer.body).encode()
        self.send_response(answer.status)
        if answer.location:
            self.send_header("Location", answer.location)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_GET = do_POST  # noqa: N815

    def log_message(self, *_args: object) -> None:
        pass


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Folder:
    return Folder(tmp_path_factory.mktemp("provider"))


@pytest.fixture
def provider(folder: Folder) -> Iterator[Provider]:
    with Provider(folder) as made:
        thread = threading.Thread(target=made.serve_forever)
        thread.start()
        yield made
        made.shutdown()
        thread.join()


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    folder = tmp_path_factory.mktemp("daemon")
    (folder / "keys.json").write_bytes(key_set(KEY))
    with running(
        folder / "data",
        "sasl.enabled.mechanisms=OAUTHBEARER",
        f"sasl.oauthbearer.jwks.endpoint.url=file://{folder / 'keys.json'}",
        f"sasl.oauthbearer.expected.audience={AUDIENCE}",
        f"sasl.oauthbearer.expected.issuer={ISSUER}",
        with_kafka=True,
    ) as one:
        security = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "OAUTHBEARER"}
        (folder / "token").write_text(token(KEY, claims(time.time_ns() // 1_000_000)))
        security["sasl.oauthbearer.token.endpoint.url"] = f"file://{folder / 'token'}"
        with ClusterClient(one.bootstrap, security=security) as connection:
            made = connection.ask(CreateTopics((CreatableTopic("orders", 1),)))
            assert isinstance(made, CreateTopicsReply) and made.topics[0].error_code is ErrorCode.NONE
        yield one


def settings(provider: Provider, folder: Folder, **changed: str) -> dict[str, str]:
    given = {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.oauthbearer.token.endpoint.url": provider.url,
        "sasl.oauthbearer.client.id": "billing",
        "sasl.oauthbearer.client.secret": SECRET,
        "https.ca.location": str(folder.ca),
    }
    return given | {name.replace("_", "."): value for name, value in changed.items()}


def asks(address: str, security: dict[str, str]) -> bool:
    with ClusterClient(address, security=security) as connection:
        return isinstance(connection.ask(ListGroups()), ListGroupsReply)


@pytest.mark.parametrize("dialect", ["native", "kafka"])
def test_a_client_asks_the_endpoint_for_its_token(
    daemon: Daemon, provider: Provider, folder: Folder, dialect: str
) -> None:
    address = daemon.bootstrap if dialect == "native" else f"kafka://127.0.0.1:{daemon.kafka_port}"
    given = settings(provider, folder, sasl_oauthbearer_scope="muster orders")
    assert asks(address, given)
    assert asks(address, given), "with the same token"
    assert provider.asked == [("/token", {"grant_type": "client_credentials", "scope": "muster orders"})]


async def test_the_face_of_asyncio_asks_it_and_its_loop_goes_on(
    daemon: Daemon, provider: Provider, folder: Folder
) -> None:
    async with asyncio.timeout(WAIT_S):
        async with muster.aio.Producer(daemon.bootstrap, security=settings(provider, folder)) as producer:
            await (await producer.send("orders", b"x"))
    assert provider.given == 1


def test_a_producer_with_a_thread_of_its_own_asks_it(daemon: Daemon, provider: Provider, folder: Folder) -> None:
    provider.answers = [Answer(503)]
    with Producer(daemon.bootstrap, security=settings(provider, folder)) as producer:
        assert producer.send("orders", b"x").result(WAIT_S).offset >= 0
    assert provider.given == 1


@pytest.mark.long
def test_a_token_is_renewed_before_it_ends_while_it_is_used(daemon: Daemon, provider: Provider, folder: Folder) -> None:
    provider.lifetime_s = 5
    ends_at = time.monotonic() + WAIT_S
    with ClusterClient(daemon.bootstrap, security=settings(provider, folder)) as connection:
        while provider.given < 4:
            assert isinstance(connection.ask(ListGroups()), ListGroupsReply)
            assert time.monotonic() < ends_at
            time.sleep(0.05)


def test_an_endpoint_that_fails_for_a_while_is_asked_again(daemon: Daemon, provider: Provider, folder: Folder) -> None:
    provider.answers = [Answer(503), Answer(429, "no")]
    assert asks(daemon.bootstrap, settings(provider, folder))
    assert len(provider.asked) == 3


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"sasl_oauthbearer_client_secret": "a wrong one"}, "answers 401"),
        ({"https_ca_location": "/nowhere/ca.pem"}, "No such file"),
    ],
)
def test_what_somebody_must_change_is_told_at_once(
    daemon: Daemon, provider: Provider, folder: Folder, changed: dict[str, str], why: str
) -> None:
    with pytest.raises(AuthenticationFailed, match=why) as failed:
        asks(daemon.bootstrap, settings(provider, folder, **changed))
    assert "a wrong one" not in str(failed.value) and SECRET not in str(failed.value)
    assert not provider.given


def test_an_endpoint_that_is_not_trusted_is_not_told_the_secret(
    daemon: Daemon, provider: Provider, folder: Folder
) -> None:
    given = settings(provider, folder)
    del given["https.ca.location"]
    with pytest.raises(AuthenticationFailed, match="certificate verify failed"):
        asks(daemon.bootstrap, given)
    assert not provider.asked


@pytest.mark.parametrize(
    "answer",
    [
        Answer(307, location="/elsewhere"),
        Answer(302, location="/elsewhere"),
        Answer(200, "no json"),
        Answer(200, []),
        Answer(200, {"access_token": "a\x01b"}),
        Answer(200, {"access_token": "a.b.c", "expires_in": "soon"}),
        Answer(200, {"access_token": "x" * (1 << 18)}),
    ],
)
def test_a_strange_answer_gives_no_token(daemon: Daemon, provider: Provider, folder: Folder, answer: Answer) -> None:
    provider.answers = [answer]
    with pytest.raises(AuthenticationFailed, match="there is no token"):
        asks(daemon.bootstrap, settings(provider, folder))
    assert {path for path, _ in provider.asked} == {"/token"}
