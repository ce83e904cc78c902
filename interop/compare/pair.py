"""Two servers that are asked the same, and what their answers differ in."""

import re
import socket
from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from protocol.apis import BY_MESSAGE
from protocol.errors import ErrorCode
from protocol.kafka.client import KafkaClient
from protocol.messages import Message

PATIENCE_S = 10.0
MAX_FRAME_BYTES = 1 << 26

OLDEST = {0: 3, 1: 4, 2: 1, 8: 2, 9: 1, 19: 2, 20: 1, 23: 2, 32: 1}
"""Oldest versions of Apache Kafka 4.3, by API, if not 0."""

_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f-]{22}")
_OWN = {"port": "PORT", "cluster_id": "CLUSTER", "producer_id": "PRODUCER"}
"""Fields that are each server's own."""


class Server:
    """One of the two. A connection that it closes, or that says nothing, is an answer too."""

    def __init__(self, address: str) -> None:
        host, _, port = address.rpartition(":")
        self._address = (host, int(port))
        self._open: tuple[socket.socket, KafkaClient] | None = None

    def ask(self, message: Message, version: int) -> Message | str:
        if self._open is None:
            self._open = socket.create_connection(self._address, PATIENCE_S), KafkaClient("compare", MAX_FRAME_BYTES)
        connection, client = self._open
        connection.sendall(client.encode_request(message, version)[1])
        try:
            while data := connection.recv(1 << 16):
                answers = client.receive_data(data)
                if answers:
                    return answers[0].reply
        except TimeoutError:
            return self._gone("says nothing")
        except ConnectionError:
            pass
        return self._gone("hangs up")

    def _gone(self, how: str) -> str:
        self.close()
        return how

    def close(self) -> None:
        if self._open is not None:
            self._open[0].close()
            self._open = None


class Pair:
    """`differences`: sentence to the versions it was seen in."""

    def __init__(self, kafka: Server, muster: Server) -> None:
        self.servers = (kafka, muster)
        self.asked = 0
        self.differences: dict[tuple[str, str], list[int]] = {}

    def ask(self, label: str, message: Message, versions: list[int] | None = None) -> tuple[Any, Any]:
        """The same to both, in these versions or all; the last answers."""
        return self.ask_each(label, (message, message), versions)

    def ask_each(
        self, label: str, messages: tuple[Message, Message], versions: list[int] | None = None
    ) -> tuple[Any, Any]:
        """Send both servers the same request, except for ids that each server made."""
        answers: tuple[Any, Any] = (None, None)
        for version in versions if versions is not None else versions_of(messages[0]):
            kafka, muster = (
                server.ask(message, version) for server, message in zip(self.servers, messages, strict=True)
            )
            answers = kafka, muster
            self.asked += 1
            for difference in differences(cleaned(kafka), cleaned(muster)):
                self.differences.setdefault((label, difference), []).append(version)
        return answers

    def make(self, message: Callable[[int], Message], version: int) -> tuple[Any, Any]:
        """To each its own, and nothing compared."""
        kafka, muster = (server.ask(message(index), version) for index, server in enumerate(self.servers))
        return kafka, muster


def versions_of(message: Message) -> list[int]:
    """Return the versions that both servers speak."""
    api = BY_MESSAGE[type(message)]
    return list(range(max(OLDEST.get(api.key, 0), api.request.oldest), api.request.newest + 1))


def cleaned(value: Any) -> Any:
    """Without what must differ: ids, ports, sentences, the order of lists."""
    if isinstance(value, ErrorCode):
        return value.name
    if isinstance(value, msgspec.Struct):
        return {name: _field(name, getattr(value, name)) for name in value.__struct_fields__}
    if isinstance(value, tuple):
        return sorted((cleaned(one) for one in value), key=repr)
    return _UUID.sub("ID", value) if isinstance(value, str) else value


def _field(name: str, value: Any) -> Any:
    if name == "topic_id":
        return "ID" if any(value) else None
    if name in ("error_message", "documentation"):
        return None  # theirs are theirs
    return _OWN.get(name) or cleaned(value)


def differences(kafka: Any, muster: Any, path: str = "") -> Iterator[str]:
    """In sentences, by path."""
    if isinstance(kafka, dict) and isinstance(muster, dict) and kafka.keys() == muster.keys():
        for name in kafka:
            yield from differences(kafka[name], muster[name], f"{path}.{name}" if path else name)
    elif isinstance(kafka, list) and isinstance(muster, list) and len(kafka) == len(muster):
        for number, (one, other) in enumerate(zip(kafka, muster, strict=True)):
            yield from differences(one, other, f"{path}[{number}]")
    elif kafka != muster:
        yield f"{path or 'the answer'}: Kafka {_short(kafka)}, Muster {_short(muster)}"


def _short(value: Any) -> str:
    text = str(value)
    return text if len(text) <= 100 else f"{text[:97]}..."
