"""The server's side of a native connection: see `protocol.session` for what a session promises.

The session itself answers three requests, by `take_data`: Hello; a method that this server does not have
(UNSUPPORTED_VERSION); invalid parameters (INVALID_REQUEST, with the field in the details). Replies may overtake each
other, so requests never wait for each other. A request with the id of an unanswered one is a violation, since their
replies could not be distinguished.
"""

from collections.abc import Generator
from typing import Final

from protocol.errors import ErrorCode, ProtocolViolation
from protocol.messages import Message
from protocol.messages.node import Hello, HelloReply
from protocol.native import codec
from protocol.native.framing import ARRAYS, Framing, Unfinished
from protocol.native.methods import METHODS, Form, Method, only_entry
from protocol.session import Request
from protocol.strangers import guess

__all__ = ["MAX_CLIENT_NAME", "MAX_LOGIN_FRAME_BYTES", "METHODS", "NativeDialect", "NativeSession"]

MAX_CLIENT_NAME: Final = 255
"""Characters of a client's name: it is kept with each of the client's members, and in the log."""
MAX_LOGIN_FRAME_BYTES: Final = 512 * 1024
"""Largest request before the login, as in Kafka's dialect."""


class NativeDialect:
    """The native wire. `server`: the reply to Hello; only methods in its `methods` are served. If `Login` is one of
    them, requests must be small until `logged_in`."""

    __slots__ = ("first_framing", "framing", "name", "server", "served")

    def __init__(self, max_frame_bytes: int, server: HelloReply) -> None:
        unknown = [method for method in server.methods if method not in METHODS]
        assert not unknown, f"no such methods: {unknown}"
        self.name = "native"
        self.framing = Framing(max_frame_bytes)
        logs_in = "Login" in server.methods
        self.first_framing = Framing(min(max_frame_bytes, MAX_LOGIN_FRAME_BYTES)) if logs_in else self.framing
        self.server = server
        self.served = {method: METHODS[method] for method in server.methods}

    def open(self) -> "NativeSession":
        return NativeSession(self)


class NativeSession:
    """The server's side of one connection. An idle one keeps no buffer."""

    __slots__ = (
        "_dialect",
        "_frames",
        "_framing",
        "_outgoing",
        "_unanswered",
        "_unfinished",
        "_whole",
        "client_id",
        "client_software",
    )
    takes_pushes: Final = True

    def __init__(self, dialect: NativeDialect) -> None:
        self.client_id = ""
        self.client_software = ("", "")
        self._dialect = dialect
        self._framing = dialect.first_framing
        self._unfinished: Unfinished | None = None
        self._frames: list[bytes] = []
        """Complete values not yet decoded, the oldest last."""
        self._whole: codec.RequestFrame | None = None
        """A request that arrived alone, served before any of `_frames`."""
        self._unanswered: dict[int, Form] = {}
        self._outgoing: list[bytes] = []

    def logged_in(self) -> None:
        """Allow requests of any size, since the client has logged in."""
        self._framing = self._dialect.framing

    def receive_data(self, data: bytes) -> None:
        drained = self._unfinished is None and self._whole is None and not self._frames
        if drained and len(data) <= self._framing.max_frame_bytes:
            # The usual case: exactly one request, so that nothing must be split.
            self._whole = codec.try_request(data)
            if self._whole is not None:
                return
        if drained and data and data[0] not in ARRAYS:  # before later bytes of it can be found worse
            begun = f"{data[0]:#04x}{guess(data[:4])}"
            raise ProtocolViolation(f"no request: a frame is an array, not a value that begins with {begun}")
        frames, self._unfinished = self._framing.split(self._unfinished, data)
        if len(frames) > 1:
            frames.reverse()
        self._frames = frames + self._frames if self._frames else frames

    def next_request(self) -> Request | None:
        while self._whole is not None or self._frames:
            frame, self._whole = self._whole or codec.decode_request(self._frames.pop()), None
            number = frame.number
            if number in self._unanswered:
                raise ProtocolViolation(f"request id {number} is that of a request not yet answered")
            method = self._dialect.served.get(frame.method)
            if method is None:
                self._answer_unsupported(number, frame.method)
                continue
            try:
                message = codec.decode_params(method.decode, frame.params[0])
                form = Form.WHOLE
                if method.plain is not None:
                    message, form = method.plain(message)
                if method is _HELLO:
                    self._greet(number, message)
                    continue
            except codec.WrongParams as wrong:
                self._answer_wrong_params(number, method, wrong)
                continue
            self._unanswered[number] = form
            return number, message
        return None

    def _greet(self, number: int, hello: Hello) -> None:
        if len(hello.client_name) > MAX_CLIENT_NAME:
            raise codec.WrongParams("client_name", f"is longer than {MAX_CLIENT_NAME} characters")
        self.client_id = hello.client_name
        self.client_software = ("", hello.client_version)
        self._outgoing.append(codec.encode_result(number, self._dialect.server))

    def _answer_unsupported(self, number: int, method: str) -> None:
        name = method if len(method) <= _QUOTED else f"{method[:_QUOTED]}..."
        text = f"{name!r} is no method of this server"
        self._outgoing.append(codec.encode_error(number, ErrorCode.UNSUPPORTED_VERSION, text, {"method": name}))

    def _answer_wrong_params(self, number: int, method: Method, wrong: codec.WrongParams) -> None:
        details = {"method": method.request.__name__, "field": wrong.field}
        self._outgoing.append(codec.encode_error(number, ErrorCode.INVALID_REQUEST, str(wrong), details))

    def encode_reply(self, number: int, reply: Message) -> bytes:
        form = self._unanswered.pop(number)
        if form is not Form.WHOLE:
            if form is Form.NEVER:
                return b""
            reply = only_entry(reply)
        if getattr(reply, "error_code", 0):
            return codec.encode_refusal(number, reply)
        return codec.encode_result(number, reply)

    def encoding(self, reply: Message) -> Generator[None, None, Message]:
        yield from ()  # a hundred thousand groups take a few milliseconds
        return reply

    def encode_push(self, message: Message) -> bytes:
        return codec.encode_push(message)

    def take_data(self) -> bytes:
        if not self._outgoing:
            return b""
        data = b"".join(self._outgoing)
        self._outgoing.clear()
        return data

    @property
    def unanswered(self) -> int:
        return len(self._unanswered)

    @property
    def is_idle(self) -> bool:
        return not self._unanswered

    @property
    def has_waiting_request(self) -> bool:
        return False  # nothing ever waits behind a request

    @property
    def is_behind(self) -> bool:
        return False  # nothing ever waits behind a request

    @property
    def buffered_bytes(self) -> int:
        unfinished = 0 if self._unfinished is None else len(self._unfinished.data)
        whole = 0 if self._whole is None else len(memoryview(self._whole.params[0]))
        return whole + unfinished + sum(map(len, self._frames))


_QUOTED: Final = 64
_HELLO: Final = METHODS["Hello"]
