"""One connection, one request at a time: ask, and wait for the answer."""

import time
from types import TracebackType
from typing import Self

from membership.events import NodeAddress
from muster.errors import CannotConnect, ClientClosed, MusterError, Refused, RequestTimedOut
from muster.net.blocking_socket import Pipe
from muster.net.bootstrap import Bootstrap, cannot_connect, parse_bootstrap
from muster.net.dialects import Dialect, NativeAnswer, Push
from muster.net.dialects.handshake_errors import closed
from muster.net.driver import nonce
from muster.net.exchange import heard
from muster.net.fork_guard import ForkGuard
from muster.net.refusals import authentication_failed
from muster.net.security import PLAINTEXT, SecurityLike, read_security
from protocol.errors import ProtocolViolation
from protocol.messages import Message
from protocol.messages import node as node_messages


class Connection:
    """A connection to the first of `bootstrap` that can be reached; made when first needed, made anew when lost.

    `dialect` is "native" or "kafka"; without it the bootstrap says which ("kafka://HOST:PORT"). `security` says how it
    is reached. Not for several threads at once.
    """

    def __init__(
        self,
        bootstrap: str | NodeAddress,
        *,
        dialect: str | Dialect | None = None,
        security: SecurityLike | None = None,
        client_id: str = "muster",
        connect_timeout_s: float = 5.0,
    ) -> None:
        if isinstance(bootstrap, str):
            self._where = parse_bootstrap(bootstrap, dialect, security)
        else:
            said = read_security(security) or PLAINTEXT
            self._where = Bootstrap((bootstrap,), Dialect(dialect or Dialect.NATIVE), said, said)
        self._client_id = client_id
        self._connect_timeout_s = connect_timeout_s
        self._pipe: Pipe | None = None
        self._address = self._where.addresses[0]
        self._session = self._where.open_session(self._address, client_id, nonce)
        self._guard = ForkGuard()
        self._is_closed = False
        self._has_heard = False
        self._words = self._answers = 0

    @property
    def address(self) -> NodeAddress:
        """The node connected to, or last tried."""
        return self._address

    def ask(self, message: Message, timeout_s: float = 30.0) -> Message:
        """The reply, whatever error code it carries. Raises `Refused` where the request was refused as a whole and its
        reply has no place to say so, `CannotConnect`, `RequestTimedOut`; a connection lost meanwhile counts as the
        former. `AuthenticationFailed` where we are not let in.
        """
        deadline = time.monotonic() + timeout_s
        try:
            connected = self._connected(deadline)
            number, data = self._session.encode_request(message, _now_ms())
            connected.send(data, deadline)
            answer = self._answer(connected, number, deadline)
        except TimeoutError:
            self._drop()
            what = f"{self._address} did not answer {type(message).__name__} within {timeout_s:g} s"
            raise RequestTimedOut(what) from None
        except (OSError, ProtocolViolation) as error:
            self._drop()
            raise self._lost(error) from error
        if isinstance(answer.reply, node_messages.ErrorReply):
            said = answer.reply.error_message or answer.reply.error_code.name
            raise Refused(answer.reply.error_code, f"{type(message).__name__} was refused: {said}")
        return answer.reply

    def tell(self, message: Message, timeout_s: float = 30.0) -> None:
        """Send what is never answered: a Produce with `acks` 0. Raises as `ask` does."""
        deadline = time.monotonic() + timeout_s
        try:
            connected = self._connected(deadline)
            number, data = self._session.encode_request(message, _now_ms())
            connected.send(data, deadline)
            said = self._session.receive_data(b"")
            while not self._session.is_ready:
                said = self._hear(connected, deadline)
        except TimeoutError:
            self._drop()
            raise RequestTimedOut(f"{self._address} could not be told within {timeout_s:g} s") from None
        except (OSError, ProtocolViolation) as error:
            self._drop()
            raise self._lost(error) from error
        for one in said:
            if (
                isinstance(one, NativeAnswer)
                and one.number == number
                and isinstance(one.reply, node_messages.ErrorReply)
            ):
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

    def _connected(self, deadline: float) -> Pipe:
        self._guard.check()
        if self._is_closed:
            raise ClientClosed("this connection was closed")
        if self._pipe is not None and self._pipe.is_over:
            self._drop()
        if self._pipe is None:
            self._pipe = self._connect(deadline)
            self._session = self._where.open_session(self._address, self._client_id, nonce)
            self._words = self._answers = 0
        return self._pipe

    def _lost(self, error: Exception) -> MusterError:
        """A port of something else takes connections too, and hangs up on the first bytes."""
        advice = "" if self._has_heard else f". {self._where.dialect.advice}"
        lost = CannotConnect(f"the connection to {self._address} was lost: {error}{advice}")
        return authentication_failed(self._address, error) or lost

    def _connect(self, deadline: float) -> Pipe:
        failures: dict[NodeAddress, OSError | str] = {}
        for address in self._where.addresses:
            self._address = address
            try:
                context = self._where.security_of(address).context()
                return Pipe.connect(address, context, min(deadline, time.monotonic() + self._connect_timeout_s))
            except (OSError, ValueError) as error:
                if failed := authentication_failed(address, error):
                    raise failed from error
                failures[address] = error if isinstance(error, OSError) else str(error)
        raise CannotConnect(cannot_connect(failures, self._where.dialect))

    def _answer(self, connected: Pipe, number: int, deadline: float) -> NativeAnswer:
        said = self._session.receive_data(b"")  # what the session itself refuses is answered already
        while True:
            for one in said:
                if isinstance(one, NativeAnswer) and one.number == number:
                    return one
            said = self._hear(connected, deadline)

    def _hear(self, connected: Pipe, deadline: float) -> list[NativeAnswer | Push]:
        if deadline <= time.monotonic():
            raise TimeoutError
        try:
            data = connected.receive(deadline)
        except ConnectionResetError as error:
            why = closed(words=self._words, answers=self._answers, is_tls=connected.is_tls, is_up=True)
            raise ConnectionResetError(str(error) or why) from None
        self._words += 1
        said = heard(self._session, data)
        self._answers += sum(isinstance(one, NativeAnswer) for one in said)
        self._has_heard = True
        connected.send(self._session.take_data(), deadline)
        return said

    def _drop(self) -> None:
        if self._pipe is not None:
            self._pipe.close()
            self._pipe = None


def _now_ms() -> int:
    return time.monotonic_ns() // 1_000_000
