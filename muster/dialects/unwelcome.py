"""The server's door."""

from protocol.errors import ErrorCode, ProtocolViolation


class Unwelcome(ProtocolViolation):
    """The server answered the greeting with an error: nothing else can be asked on this connection."""

    def __init__(self, error_code: ErrorCode, sentence: str) -> None:
        super().__init__(sentence)
        self.error_code = error_code
