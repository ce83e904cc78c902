"""TLS without I/O: bytes carried by hand between a tunnel and a server's end."""

import asyncio
import socket
import ssl
from collections.abc import Callable
from unittest.mock import Mock, patch

import pytest
import trustme

from membership.events import MemberEvent, NodeAddress
from muster.errors import AuthenticationFailed
from muster.net.bootstrap import Bootstrap
from muster.net.cores import ConnectionKey
from muster.net.loop import LoopConnection, LoopDriver
from muster.net.refusals import authentication_failed
from muster.net.sockets import SocketConnection
from muster.net.thread import ThreadDriver
from muster.net.tunnel import Tunnel

NODE = NodeAddress("127.0.0.1", 9390)
BROKEN = b"\x15\x03\x03\x00\x13" + b"x" * 19
"""A record that nobody encrypted."""


class Server:
    """The other end, by the same library."""

    def __init__(self, context: ssl.SSLContext) -> None:
        self._in, self._out = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._in, self._out, server_side=True)
        self.heard = b""
        self.is_over = False

    def receive(self, data: bytes) -> bytes:
        self._in.write(data)
        try:
            self._tls.do_handshake()
            while data := self._tls.read(65_536):
                self.heard += data
            self.is_over = True
        except ssl.SSLWantReadError:
            pass
        return self.take()

    def say(self, data: bytes) -> None:
        self._tls.write(data)

    def bye(self) -> None:
        with pytest.raises(ssl.SSLWantReadError):
            self._tls.unwrap()

    def take(self) -> bytes:
        return self._out.read()


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture
def serving(authority: trustme.CA) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1", "musterd.example").configure_cert(context)
    return context


@pytest.fixture
def believing(authority: trustme.CA) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    authority.configure_trust(context)
    return context


def carry(tunnel: Tunnel, server: Server, cut: Callable[[bytes], list[bytes]] = lambda data: [data]) -> bytes:
    """Until nobody has anything to say; what the tunnel heard."""
    heard = b""
    while data := tunnel.take_data():
        for part in cut(server.receive(data)):
            heard += tunnel.receive(part)
    return heard


def test_what_is_said_early_is_sent_once_hands_are_shaken(serving: ssl.SSLContext, believing: ssl.SSLContext) -> None:
    tunnel, server = Tunnel(believing, "127.0.0.1"), Server(serving)
    tunnel.send(b"hello ")
    tunnel.send(b"there")
    was_up = tunnel.is_up
    assert tunnel.unsent > len(b"hello there")
    carry(tunnel, server)
    assert (was_up, tunnel.is_up) == (False, True)
    assert server.heard == b"hello there"
    assert tunnel.unsent == 0
    tunnel.send(b"!")
    carry(tunnel, server)
    assert server.heard == b"hello there!"


def test_all_that_came_is_given_at_once_however_it_was_cut(serving: ssl.SSLContext, believing: ssl.SSLContext) -> None:
    tunnel, server = Tunnel(believing, "musterd.example"), Server(serving)
    one_by_one = carry(tunnel, server, lambda data: [data[at : at + 1] for at in range(len(data))])
    assert one_by_one == b""
    large = bytes(range(256)) * 4000
    server.say(large)
    server.say(b"and more")
    assert tunnel.receive(server.take()) == large + b"and more"
    server.say(large)
    data = server.take()
    assert b"".join(tunnel.receive(data[at : at + 1000]) for at in range(0, len(data), 1000)) == large


def test_who_says_goodbye_is_known_to_be_gone(serving: ssl.SSLContext, believing: ssl.SSLContext) -> None:
    tunnel, server = Tunnel(believing, "127.0.0.1"), Server(serving)
    carry(tunnel, server)
    server.say(b"last words")
    server.bye()
    assert tunnel.receive(server.take()) == b"last words"
    assert tunnel.is_over


def test_a_goodbye_of_ours_ends_it_and_nothing_is_sent_after(
    serving: ssl.SSLContext, believing: ssl.SSLContext
) -> None:
    tunnel, server = Tunnel(believing, "127.0.0.1"), Server(serving)
    carry(tunnel, server)
    tunnel.send(b"first")
    tunnel.close()
    tunnel.send(b"too late")
    tunnel.close()
    server.receive(tunnel.take_data())
    assert server.is_over
    assert server.heard == b"first"


def refused(tunnel: Tunnel, server: Server) -> str:
    with pytest.raises(ssl.SSLError) as raised:
        carry(tunnel, server)
    assert tunnel.take_data(), "the server hears why"
    failed = authentication_failed(NODE, raised.value)
    assert isinstance(failed, AuthenticationFailed)
    return str(failed)


def test_a_server_of_another_authority_is_not_believed(serving: ssl.SSLContext) -> None:
    stranger = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    trustme.CA().configure_trust(stranger)
    sentence = refused(Tunnel(stranger, "127.0.0.1"), Server(serving))
    assert sentence.startswith("127.0.0.1:9390: its certificate is not believed: ")
    assert "unable to get local issuer certificate" in sentence


def test_nor_is_one_of_another_name(serving: ssl.SSLContext, believing: ssl.SSLContext) -> None:
    sentence = refused(Tunnel(believing, "broker.example"), Server(serving))
    assert "Hostname mismatch, certificate is not valid for 'broker.example'" in sentence


def test_unless_names_are_not_looked_at(serving: ssl.SSLContext, believing: ssl.SSLContext) -> None:
    believing.check_hostname = False
    tunnel = Tunnel(believing, "broker.example")
    carry(tunnel, Server(serving))
    assert tunnel.is_up


def test_what_speaks_no_tls_is_said_to(believing: ssl.SSLContext) -> None:
    tunnel = Tunnel(believing, "127.0.0.1")
    tunnel.take_data()
    with pytest.raises(ssl.SSLError) as raised:
        tunnel.receive(b"\0\0\0\x08 no TLS at all")
    assert "does not speak TLS there" in str(authentication_failed(NODE, raised.value))


def test_an_answer_is_given_though_what_came_with_it_is_broken_and_then_that_is_said(
    serving: ssl.SSLContext, believing: ssl.SSLContext
) -> None:
    tunnel, server = Tunnel(believing, "127.0.0.1"), Server(serving)
    carry(tunnel, server)
    server.say(b"an answer")
    assert tunnel.receive(server.take() + BROKEN) == b"an answer"
    assert tunnel.is_over
    assert tunnel.take_data(), "the server hears of it"
    for data in (b"", b"more"):
        with pytest.raises(ssl.SSLError) as raised:
            tunnel.receive(data)
        assert raised.value is tunnel.failure


def test_the_thread_and_the_event_loop_behind_a_client_are_told_what_was_broken(
    serving: ssl.SSLContext, believing: ssl.SSLContext
) -> None:
    way = ConnectionKey(Mock(), NODE, Mock())
    ours, theirs = socket.socketpair()
    with ours, theirs:
        tunnel, server = Tunnel(believing, "127.0.0.1"), Server(serving)
        carry(tunnel, server)
        server.say(b"an answer")
        theirs.sendall(server.take() + BROKEN)
        thread, heard = ThreadDriver(Bootstrap((NODE,)), "c"), list[bytes]()

        def hear(data: bytes) -> list[MemberEvent]:
            heard.append(data)
            return []

        exchange = Mock(receive_data=hear, take_data=lambda: b"", departed=lambda _unsent: [])
        connection = SocketConnection(way, exchange, tunnel, ours)
        with pytest.raises(ssl.SSLError), patch.object(thread, "_send_out"):
            thread._receive(connection)
        assert heard == [b"an answer"]
    tunnel, server = Tunnel(believing, "127.0.0.1"), Server(serving)
    carry(tunnel, server)
    server.say(b"an answer")
    heard.clear()
    loop = LoopDriver(Bootstrap((NODE,)), "c")
    in_loop = LoopConnection(loop, way, exchange, tunnel)
    in_loop._transport = Mock(asyncio.Transport, get_write_buffer_size=lambda: 0)
    loop._connections[way] = in_loop
    with patch.object(loop, "_lose") as lose, patch.object(loop, "_look"):
        in_loop.data_received(server.take() + BROKEN)
    assert heard == [b"an answer"]
    lose.assert_called_once_with(in_loop, tunnel.failure)


def test_a_certificate_that_we_do_not_have_is_missed_at_the_first_word(
    serving: ssl.SSLContext, believing: ssl.SSLContext, authority: trustme.CA
) -> None:
    """In TLS 1.3 hands are shaken before the server looks at what was shown."""
    serving.verify_mode = ssl.CERT_REQUIRED
    authority.configure_trust(serving)
    tunnel, server = Tunnel(believing, "127.0.0.1"), Server(serving)
    tunnel.receive(server.receive(tunnel.take_data()))
    with pytest.raises(ssl.SSLError):
        server.receive(tunnel.take_data())
    with pytest.raises(ssl.SSLError) as raised:
        tunnel.receive(server.take())
    assert "it refuses our certificate, or requires one" in str(authentication_failed(NODE, raised.value))


def test_a_host_that_is_no_name_is_a_value_error(believing: ssl.SSLContext) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - the library's own words
        Tunnel(believing, "." * 300)
