"""What never gets through the door: a client that is not let in, a request that no bytes can say."""

from protocol.errors import ErrorCode, ProtocolViolation
from protocol.messages import Message
from protocol.messages.node import Refused


class Unwelcome(ProtocolViolation):
    """The server answered the greeting with an error: nothing else can be asked on this connection."""

    def __init__(self, error_code: ErrorCode, sentence: str) -> None:
        super().__init__(sentence)
        self.error_code = error_code


def unsayable(message: Message, reason: Exception) -> Refused:
    """The answer to a request that could not be encoded: the server never saw it."""
    return Refused(ErrorCode.INVALID_REQUEST, f"{type(message).__name__} cannot be sent: {reason}")
