"""EDGE: requests to other nodes, at their HTTP listeners."""

import os
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from http import HTTPStatus
from typing import Final, NamedTuple

import msgspec
from aiohttp import ClientConnectorError, ClientError, ClientSession, ClientTimeout, TCPConnector, web
from multidict import CIMultiDictProxy
from yarl import URL

from coordinator.http.logins import current_credentials, is_loopback
from coordinator.http.nodes.node_routes import FRAME_MEDIA, SERVED_SHARDS, parse_shards
from coordinator.placement import AdvertisedAddress
from diagnosis.problem import GroupProblem
from protocol.errors import ProtocolViolation
from protocol.messages import Message
from protocol.native.client import NativeAnswer, NativeClient

_CONNECTIONS_A_NODE: Final = 8
_LONGEST_REPLY_BYTES: Final = 256 << 20


class NodeSilent(Exception):
    """Raised if a node does not answer; the text says why."""

    def __init__(self, why: str, *, is_late: bool = False) -> None:
        super().__init__(why)
        self.is_late = is_late


class NodeAnswer(NamedTuple):
    """Reply of a node, and the shards that it served while it answered."""

    reply: Message
    shards: frozenset[int] = frozenset()


class _Problems(msgspec.Struct, frozen=True):
    problems: list[dict[str, object]]


class NodeClient:
    """Sends nodes requests as frames of the native protocol in POSTs. A caller needs the same rights at every node, and
    nodes have no rights of their own: the caller's password or token is sent along, only over TLS or loopback."""

    def __init__(self, tls: Callable[[], ssl.SSLContext] | None) -> None:
        """`tls` makes the context of a connection; None: the nodes' listeners speak plaintext."""
        self._tls = tls
        self._session: ClientSession

    @asynccontextmanager
    async def running(self, app: web.Application) -> AsyncIterator[None]:
        """Keep connections while the application runs."""
        connector = TCPConnector(limit=0, limit_per_host=_CONNECTIONS_A_NODE)
        async with ClientSession(connector=connector) as self._session:
            yield

    async def ask(self, node: AdvertisedAddress, message: Message, within_s: float) -> NodeAnswer:
        """Return a node's reply. Raises NodeSilent."""
        native = NativeClient(_LONGEST_REPLY_BYTES)
        _number, frame = native.encode_request(message)
        body, headers = await self._request("POST", node, "ask", within_s, frame)
        try:
            (answer,) = native.receive_data(body)
        except (ProtocolViolation, ValueError) as error:
            raise NodeSilent(f"its answer cannot be read: {error}") from None
        assert isinstance(answer, NativeAnswer)
        return NodeAnswer(answer.reply, parse_shards(headers.get(SERVED_SHARDS, "")))

    async def problems(self, node: AdvertisedAddress, within_s: float) -> list[GroupProblem]:
        """Return the open problems of the node's groups. Raises NodeSilent."""
        body, _headers = await self._request("GET", node, "problems", within_s)
        try:
            found = msgspec.json.decode(body, type=_Problems).problems
            return [msgspec.convert(_without_nulls(one), GroupProblem) for one in found]
        except msgspec.DecodeError as error:
            raise NodeSilent(f"its problems cannot be read: {error}") from None

    def _headers(self, node: AdvertisedAddress, data: bytes | None) -> dict[str, str]:
        headers = {} if data is None else {"Content-Type": FRAME_MEDIA}
        credentials = current_credentials()
        if credentials and (self._tls is not None or is_loopback(node.host)):
            headers["Authorization"] = credentials
        return headers

    async def _request(
        self, method: str, node: AdvertisedAddress, path: str, within_s: float, data: bytes | None = None
    ) -> tuple[bytes, CIMultiDictProxy[str]]:
        where = f"{node.host}:{node.port}"
        scheme = "http" if self._tls is None else "https"
        try:
            async with self._session.request(
                method,
                URL.build(scheme=scheme, host=node.host, port=node.port, path=f"/v1/nodes/{node.node_id}/{path}"),
                data=data,
                headers=self._headers(node, data),
                timeout=ClientTimeout(total=within_s),
                allow_redirects=False,
                ssl=True if self._tls is None else self._tls(),
            ) as answer:
                body = await answer.read()
        except TimeoutError:
            raise NodeSilent(f"it did not answer within {within_s:g} s ({where})", is_late=True) from None
        except (ClientError, OSError, ValueError) as error:
            raise NodeSilent(f"it cannot be reached at {where}: {_reason(error)}") from None
        if answer.status != HTTPStatus.OK:
            raise NodeSilent(f"it answered {answer.status} ({where}): {_detail(body)}")
        return body, answer.headers


def _reason(error: Exception) -> str:
    """Return the system's message for a failed connection, without aiohttp's text around it."""
    found = error.os_error if isinstance(error, ClientConnectorError) else error
    number = getattr(found, "errno", None)
    return os.strerror(number) if number else str(found) or type(found).__name__


def _without_nulls(facts: dict[str, object]) -> dict[str, object]:
    return {name: value for name, value in facts.items() if value is not None}


def _detail(body: bytes) -> str:
    try:
        return str(msgspec.json.decode(body, type=dict[str, object]).get("detail", ""))
    except msgspec.DecodeError:
        return "no reason that can be read"
