"""One connection, one request at a time: ask, and wait for the answer."""

import contextlib
import socket
import time
from types import TracebackType
from typing import Self

from muster.dialects import Answer, Dialect, Push, open_session
from muster.dialects.bootstrap import Bootstrap, cannot_connect, parse_bootstrap
from muster.errors import CannotConnect, ClientClosed, Refused, RequestTimedOut
from muster.events import NodeAddress
from protocol.errors import ProtocolViolation
from protocol.messages import Message
from protocol.messages import node as node_messages

_READ_BYTES = 1024 * 1024


class Connection:
    """A connection to the first of `bootstrap` that can be reached; made when first needed, made anew when lost.

    `dialect` is "native" or "kafka"; without it the bootstrap says which ("kafka://HOST:PORT"). Not for several threads
    at once.
    """

    def __init__(
        self,
        bootstrap: str | NodeAddress,
        *,
        dialect: str | Dialect | None = None,
        client_id: str = "muster",
        connect_timeout_s: float = 5.0,
    ) -> None:
        if isinstance(bootstrap, str):
            parsed = parse_bootstrap(bootstrap, dialect)
        else:
            parsed = Bootstrap((bootstrap,), Dialect(dialect or Dialect.NATIVE))
        self._addresses, self._dialect = parsed
        self._client_id = client_id
        self._connect_timeout_s = connect_timeout_s
        self._socket: socket.socket | None = None
        self._session = open_session(self._dialect, client_id)
        self._address = self._addresses[0]
        self._is_closed = False
        self._has_heard = False

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
            number, data = self._session.encode_request(message)
            connected.settimeout(max(0.001, deadline - time.monotonic()))
            connected.sendall(data)
            answer = self._answer(connected, number, deadline)
        except TimeoutError:
            self._drop()
            what = f"{self._address} did not answer {type(message).__name__} within {timeout_s:g} s"
            raise RequestTimedOut(what) from None
        except (OSError, ProtocolViolation) as error:
            self._drop()
            raise CannotConnect(self._lost(error)) from error
        if isinstance(answer.reply, node_messages.Refused):
            said = answer.reply.error_message or answer.reply.error_code.name
            raise Refused(answer.reply.error_code, f"{type(message).__name__} was refused: {said}")
        return answer.reply

    def tell(self, message: Message, timeout_s: float = 30.0) -> None:
        """Send what is never answered: a Produce with `acks` 0. Raises as `ask` does."""
        deadline = time.monotonic() + timeout_s
        try:
            connected = self._connected(deadline)
            number, data = self._session.encode_request(message)
            connected.settimeout(max(0.001, deadline - time.monotonic()))
            connected.sendall(data)
            said = self._session.receive_data(b"")
            while not self._session.is_ready:
                said = self._hear(connected, deadline)
        except TimeoutError:
            self._drop()
            raise RequestTimedOut(f"{self._address} could not be told within {timeout_s:g} s") from None
        except (OSError, ProtocolViolation) as error:
            self._drop()
            raise CannotConnect(self._lost(error)) from error
        for one in said:
            if isinstance(one, Answer) and one.number == number and isinstance(one.reply, node_messages.Refused):
                raise Refused(one.reply.error_code, f"{type(message).__name__} was refused: {one.reply.error_message}")

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
        if self._socket is not None and _is_over(self._socket):
            self._drop()
        if self._socket is None:
            self._socket = self._connect(deadline)
            self._session = open_session(self._dialect, self._client_id)
        return self._socket

    def _lost(self, error: Exception) -> str:
        """A port of something else takes connections too, and hangs up on the first bytes."""
        advice = "" if self._has_heard else f". {self._dialect.advice}"
        return f"the connection to {self._address} was lost: {error}{advice}"

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
        raise CannotConnect(cannot_connect(failures, self._dialect))

    def _answer(self, connected: socket.socket, number: int, deadline: float) -> Answer:
        heard = self._session.receive_data(b"")  # what the session itself refuses is answered already
        while True:
            for said in heard:
                if isinstance(said, Answer) and said.number == number:
                    return said
            heard = self._hear(connected, deadline)

    def _hear(self, connected: socket.socket, deadline: float) -> list[Answer | Push]:
        left_s = deadline - time.monotonic()
        if left_s <= 0:
            raise TimeoutError
        connected.settimeout(left_s)
        data = connected.recv(_READ_BYTES)
        if not data:
            raise ConnectionResetError("the server closed it")
        heard = self._session.receive_data(data)
        self._has_heard = True
        more = self._session.take_data()
        if more:
            connected.sendall(more)
        return heard

    def _drop(self) -> None:
        if self._socket is not None:
            with contextlib.suppress(OSError):
                self._socket.close()
            self._socket = None


def _is_over(connected: socket.socket) -> bool:
    """Whether the server has closed it meanwhile, as Kafka's brokers do with connections that were idle for long."""
    connected.settimeout(0)
    try:
        return not connected.recv(1, socket.MSG_PEEK)
    except BlockingIOError:
        return False
    except OSError:
        return True
