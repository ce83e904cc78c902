"""The client's side of a native connection, sans-I/O: typed requests to bytes, bytes to typed answers."""

from typing import Final, NamedTuple

import msgspec

from protocol.errors import ErrorCode, ProtocolViolation
from protocol.messages import Message
from protocol.messages.data import Produce
from protocol.messages.node import ErrorReply
from protocol.native import codec
from protocol.native.framing import Framing, Unfinished
from protocol.native.methods import METHODS, PUSHES, Method


class NativeAnswer(NamedTuple):
    """Reply to request `number`: of the request's reply type; or `ErrorReply`, if that type has no `error_code`.
    `error_message` is the server's message for people, empty on success."""

    number: int
    reply: Message
    error_message: str = ""


class Push(NamedTuple):
    """A notification. It only saves time: clients work without it."""

    message: Message


class NativeClient:
    """A client's side of one connection. Requests are numbered as they are made; replies may come in any order."""

    __slots__ = ("_framing", "_next_number", "_unanswered", "_unfinished")

    def __init__(self, max_frame_bytes: int) -> None:
        """`max_frame_bytes` bounds a reply's size."""
        self._framing = Framing(max_frame_bytes)
        self._unfinished: Unfinished | None = None
        self._unanswered: dict[int, Method] = {}
        self._next_number = 0

    @property
    def unanswered(self) -> int:
        return len(self._unanswered)

    def encode_request(self, message: Message) -> tuple[int, bytes]:
        """Return the request's number and its bytes. A Produce with `acks` 0 is never answered."""
        method = METHODS[type(message).__name__]
        number = self._free_number()
        data = codec.encode_request(number, message)
        if not (isinstance(message, Produce) and message.acks == 0):
            self._unanswered[number] = method
        return number, data

    def _free_number(self) -> int:
        number = self._next_number
        while number in self._unanswered:
            number = (number + 1) & codec.MAX_NUMBER
        self._next_number = (number + 1) & codec.MAX_NUMBER
        return number

    def receive_data(self, data: bytes) -> list[NativeAnswer | Push]:
        """Return the replies and notifications that are now complete, in order. Unknown notifications are omitted.

        Raises ProtocolViolation for bytes that no server of this protocol sends.
        """
        frames, self._unfinished = self._framing.split(self._unfinished, data)
        received: list[NativeAnswer | Push] = []
        for value in frames:
            frame = codec.decode_from_server(value)
            if isinstance(frame, codec.ReplyFrame):
                received.append(self._answer(frame))
            elif frame.method in PUSHES:
                received.append(Push(_decode(_PUSH_DECODERS[frame.method], frame.params[0])))
        return received

    def _answer(self, frame: codec.ReplyFrame) -> NativeAnswer:
        method = self._unanswered.pop(frame.number, None)
        if method is None:
            raise ProtocolViolation(f"a reply to request {frame.number}, which waits for none")
        decoder = _REPLY_DECODERS[method.reply]
        if frame.error is None:
            return NativeAnswer(frame.number, _decode(decoder, frame.result))
        number, name, text, details = frame.error
        try:
            code = ErrorCode(number)
        except ValueError:
            code = ErrorCode.UNKNOWN_SERVER_ERROR
        if not code.is_known or number != code:
            text = f"{name} ({number}): {text}"
        if code is ErrorCode.NONE:
            raise ProtocolViolation("an error that says NONE")
        if method.reply not in _REFUSABLE:
            return NativeAnswer(frame.number, ErrorReply(code, text), text)
        # The details carry the reply's other fields. The details of a wire error are not fields of the reply.
        said = {"error_message": text} if "error_message" in method.reply.__struct_fields__ else {}
        reply = msgspec.structs.replace(_decode(decoder, details), error_code=code, **said)
        return NativeAnswer(frame.number, reply, text)


def _decode(decoder: msgspec.msgpack.Decoder[Message], value: msgspec.Raw) -> Message:
    try:
        return codec.decode_params(decoder.decode, value)
    except codec.WrongParams as wrong:
        raise ProtocolViolation(f"not what was asked for: {wrong}") from None


def _is_refusable(reply: type[Message]) -> bool:
    fields = msgspec.structs.fields(reply)
    return any(field.name == "error_code" for field in fields) and not any(field.required for field in fields)


_REPLY_DECODERS: Final = {method.reply: msgspec.msgpack.Decoder(method.reply) for method in METHODS.values()}
_PUSH_DECODERS: Final = {name: msgspec.msgpack.Decoder(push) for name, push in PUSHES.items()}
_REFUSABLE: Final = frozenset(reply for reply in _REPLY_DECODERS if _is_refusable(reply))
