"""Connections to one server, each with one request at a time: what is parked there holds nothing else up."""

import asyncio
from collections.abc import Callable

from protocol.errors import ProtocolViolation
from protocol.kafka.client import KafkaClient
from protocol.messages import Message

MAX_FRAME_BYTES = 1 << 26
HANGS_UP = "hangs up"

Heard = Callable[[Message | str], None]


class Connection(asyncio.Protocol):
    """Sends one request and passes its answer on; a connection that was closed instead says `HANGS_UP`."""

    def __init__(self, client_id: str) -> None:
        self._client = KafkaClient(client_id, MAX_FRAME_BYTES)
        self._transport: asyncio.Transport | None = None
        self._heard: Heard | None = None

    @property
    def is_free(self) -> bool:
        """Return whether the connection is open and owes no answer."""
        return self._heard is None and self._transport is not None

    def ask(self, message: Message, version: int, heard: Heard) -> None:
        """Send it; `heard` is called once."""
        assert self._transport is not None, "the connection is closed"
        assert self._heard is None, "the connection has an unanswered request"
        self._heard = heard
        self._transport.write(self._client.encode_request(message, version)[1])

    def close(self) -> None:
        """Close it; what is unanswered stays so."""
        self._heard = None
        if self._transport is not None:
            self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        try:
            answers = self._client.receive_data(data)
        except ProtocolViolation as error:
            self._say(f"sends bytes that are no answer: {error}")
            self.close()
            return
        for answer in answers:
            self._say(answer.reply)

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        self._say(HANGS_UP)

    def _say(self, answer: Message | str) -> None:
        heard, self._heard = self._heard, None
        if heard is not None:
            heard(answer)


class Connections:
    """The connections of one history to one server, by client id."""

    def __init__(self, address: tuple[str, int]) -> None:
        self._address = address
        self._open: dict[str, list[Connection]] = {}

    async def ask(self, client_id: str, message: Message, version: int, heard: Heard) -> None:
        """Over a connection of this client on which nothing is unanswered."""
        (await self._free(client_id)).ask(message, version, heard)

    async def call(self, client_id: str, message: Message, version: int) -> Message:
        """The same, and wait. Raises ConnectionError where there is no answer."""
        answered: asyncio.Future[Message | str] = asyncio.get_running_loop().create_future()

        def heard(answer: Message | str) -> None:
            if not answered.done():
                answered.set_result(answer)

        await self.ask(client_id, message, version, heard)
        answer = await answered
        if isinstance(answer, str):
            raise ConnectionError(f"{self._address[0]}:{self._address[1]} {answer}")
        return answer

    async def _free(self, client_id: str) -> Connection:
        for connection in self._open.setdefault(client_id, []):
            if connection.is_free:
                return connection
        loop = asyncio.get_running_loop()
        _, made = await loop.create_connection(lambda: Connection(client_id), *self._address)
        self._open[client_id].append(made)
        return made

    def close(self) -> None:
        for connections in self._open.values():
            for connection in connections:
                connection.close()
