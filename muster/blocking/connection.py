"""One connection, one request at a time: ask, and wait for the answer."""

import contextlib
import socket
import time
from collections.abc import Mapping
from types import TracebackType
from typing import Self

from muster.blocking.addresses import parse_bootstrap
from muster.errors import CannotConnect, ClientClosed, Refused, RequestTimedOut
from muster.events import NodeAddress
from protocol.errors import ErrorCode, ProtocolViolation
from protocol.messages import Message
from protocol.messages import node as node_messages
from protocol.messages.node import Hello
from protocol.native.client import Answer, NativeClient

MAX_FRAME_BYTES = 256 * 1024 * 1024
"""What a server may send at most: fetches of 50 MiB and rosters of large groups fit."""
_READ_BYTES = 1024 * 1024


class Connection:
    """A native connection to the first of `bootstrap` that can be reached; made when first needed, made anew when lost.

    Not for several threads at once.
    """

    def __init__(
        self, bootstrap: str | NodeAddress, *, client_id: str = "muster", connect_timeout_s: float = 5.0
    ) -> None:
        self._addresses = (bootstrap,) if isinstance(bootstrap, NodeAddress) else parse_bootstrap(bootstrap)
        self._client_id = client_id
        self._connect_timeout_s = connect_timeout_s
        self._socket: socket.socket | None = None
        self._client = NativeClient(MAX_FRAME_BYTES)
        self._address = self._addresses[0]
        self._is_closed = False

    @property
    def address(self) -> NodeAddress:
        """The node connected to, or last tried."""
        return self._address

    def ask(self, message: Message, timeout_s: float = 30.0) -> Message:
        """The reply, whatever error code it carries. Raises `Refused` where the request was refused as a whole and its
        reply has no place to say so, `CannotConnect`, `RequestTimedOut`; a connection lost meanwhile counts as the
        former.
        """
        deadline = time.monotonic() + timeout_s
        try:
            connected = self._connected(deadline)
            number, data = self._client.encode_request(message)
            connected.settimeout(max(0.001, deadline - time.monotonic()))
            connected.sendall(data)
            answer = self._answer(connected, number, deadline, type(message).__name__)
        except TimeoutError:
            self._drop()
            what = f"{self._address} did not answer {type(message).__name__} within {timeout_s:g} s"
            raise RequestTimedOut(what) from None
        except (OSError, ProtocolViolation) as error:
            self._drop()
            raise CannotConnect(f"the connection to {self._address} was lost: {error}") from error
        if isinstance(answer.reply, node_messages.Refused):
            said = answer.reply.error_message or answer.reply.error_code.name
            raise Refused(answer.reply.error_code, f"{type(message).__name__} was refused: {said}")
        return answer.reply

    def tell(self, message: Message, timeout_s: float = 30.0) -> None:
        """Send what is never answered: a Produce with `acks` 0."""
        deadline = time.monotonic() + timeout_s
        _, data = self._client.encode_request(message)
        try:
            connected = self._connected(deadline)
            connected.sendall(data)
        except OSError as error:
            self._drop()
            raise CannotConnect(f"the connection to {self._address} was lost: {error}") from error

    def close(self) -> None:
        self._is_closed = True
        self._drop()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _connected(self, deadline: float) -> socket.socket:
        if self._is_closed:
            raise ClientClosed("this connection was closed")
        if self._socket is None:
            self._socket = self._connect(deadline)
            self._client = NativeClient(MAX_FRAME_BYTES)
            number, data = self._client.encode_request(Hello(self._client_id))
            self._socket.sendall(data)
            hello = self._answer(self._socket, number, deadline, "Hello").reply
            if getattr(hello, "error_code", ErrorCode.NONE) != ErrorCode.NONE:
                raise CannotConnect(f"{self._address} does not let us in: {hello}")
        return self._socket

    def _connect(self, deadline: float) -> socket.socket:
        failures: dict[NodeAddress, OSError | str] = {}
        for address in self._addresses:
            self._address = address
            try:
                timeout_s = max(0.001, min(self._connect_timeout_s, deadline - time.monotonic()))
                connected = socket.create_connection((address.host, address.port), timeout_s)
            except OSError as error:
                failures[address] = error
                continue
            connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            return connected
        raise CannotConnect(cannot_connect(failures))

    def _answer(self, connected: socket.socket, number: int, deadline: float, method: str) -> Answer:
        while True:
            left_s = deadline - time.monotonic()
            if left_s <= 0:
                raise TimeoutError(method)
            connected.settimeout(left_s)
            data = connected.recv(_READ_BYTES)
            if not data:
                raise ConnectionResetError("the server closed it")
            for said in self._client.receive_data(data):
                if isinstance(said, Answer) and said.number == number:
                    return said

    def _drop(self) -> None:
        if self._socket is not None:
            with contextlib.suppress(OSError):
                self._socket.close()
            self._socket = None


def cannot_connect(failures: Mapping[NodeAddress, OSError | str]) -> str:
    """The sentence for people: each address tried and why it failed, and once what to look at."""
    tried = "; ".join(f"{address}: {_why(error)}" for address, error in failures.items())
    return f"cannot connect to {tried}. Is musterd running there, with its native listener at that address?"


def _why(error: OSError | str) -> str:
    return error if isinstance(error, str) else error.strerror or str(error)
