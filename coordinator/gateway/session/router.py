"""Routing of requests for all proxied connections to one broker."""

from struct import Struct
from typing import Final, NamedTuple

from coordinator.gateway.session.apis import (
    API_VERSIONS,
    CONFIG_APIS,
    FIND_COORDINATOR,
    FORWARDED_VERSIONS,
    METADATA,
    OFFLINE_APIS,
    OFFLINE_KEYS,
    REWRITTEN_KEYS,
    SASL_HANDSHAKE,
    SHARED_KEYS,
    advertised_versions,
    local_keys,
    names_only_groups,
    newest_version,
)
from coordinator.gateway.session.replies import Addresses, ReplyRewriter, reply_rewriter
from protocol.apis import BY_MESSAGE, WIRE_APIS
from protocol.errors import ProtocolViolation
from protocol.kafka.reading import MAX_ENTRIES
from protocol.kafka.session import KafkaDialect, KafkaSession
from protocol.kafka.varint import read_tags
from protocol.kafka.version_codec import VersionCodec
from protocol.messages import Message
from protocol.messages.configs import AlterConfigs, DescribeConfigs, IncrementalAlterConfigs
from protocol.messages.node import ApiVersionsReply, FindCoordinator

_PROBE_METADATA_VERSION: Final = 4
_CLIENT_ID_AT: Final = 14
_TRANSACTION_KEY_TYPE: Final = 1
"""Key type of a FindCoordinator for a transaction's coordinator."""
_INT16: Final = Struct(">h").unpack_from
_LENGTH: Final = Struct(">i").unpack_from


class Route(NamedTuple):
    """Destination of the requests of one version of an API: `is_local`, or the broker, whose replies `rewriter`
    changes."""

    is_local: bool
    rewriter: ReplyRewriter | None = None


_LOCAL: Final = Route(True)
_FORWARD: Final = Route(False)


class Reachability:
    """Reachability of the cluster, shared by the routers of all brokers and by connections that outlive their router.
    While `is_offline`, no broker can be reached."""

    __slots__ = ("is_offline", "minute")

    def __init__(self) -> None:
        self.is_offline = False
        self.minute = 0
        """Minute of the node's clock when a broker was last reached. Authentications seen in an earlier minute are
        checked again."""


class Router:
    """Routes for the listener of one broker.

    `broker_versions` is the broker's reply to ApiVersions. `addresses` has the listeners by broker id and may change at
    any time. `requires_sasl`: the broker serves no client without SASL. `is_server_driven`: groups that the coordinator
    balances are served (KIP-848). `is_transactional`: so are commits in transactions.
    """

    __slots__ = (
        "_broker_versions",
        "_dialect",
        "_local_keys",
        "_routes",
        "addresses",
        "advertised",
        "max_frame_bytes",
        "probe_version",
        "reachability",
        "requires_sasl",
    )

    def __init__(
        self,
        broker_versions: ApiVersionsReply,
        addresses: Addresses,
        max_frame_bytes: int,
        max_entries: int = MAX_ENTRIES,
        *,
        requires_sasl: bool = False,
        reachability: Reachability | None = None,
        is_server_driven: bool = False,
        is_transactional: bool = False,
    ) -> None:
        self.requires_sasl = requires_sasl
        self.reachability = reachability or Reachability()
        self.advertised = advertised_versions(
            broker_versions, is_server_driven=is_server_driven, is_transactional=is_transactional
        )
        self._local_keys = local_keys(is_server_driven=is_server_driven, is_transactional=is_transactional)
        local = {WIRE_APIS[key].message for key in self._local_keys}
        self._broker_versions = {row.api_key: row for row in broker_versions.api_keys}
        self.addresses = addresses
        self.max_frame_bytes = max_frame_bytes
        self._dialect = KafkaDialect(max_frame_bytes, {*local, *CONFIG_APIS, *OFFLINE_APIS}, max_entries)
        self._dialect.offer = self.advertised
        self._routes: dict[int, Route] = {}
        newest = [row.max_version for row in self.advertised.api_keys if row.api_key == METADATA]
        self.probe_version = min(_PROBE_METADATA_VERSION, *newest) if newest else _PROBE_METADATA_VERSION

    def version_of(self, message: type[Message], oldest: int, newest: int) -> int | None:
        """Return the newest version in the range that the broker speaks; None if it speaks none."""
        row = self._broker_versions.get(BY_MESSAGE[message].key)
        if row is None:
            return None
        version = min(row.max_version, newest)
        return version if version >= max(row.min_version, oldest) else None

    def open_local(self) -> KafkaSession:
        """Return a session that decodes and answers local requests."""
        return self._dialect.open()

    def route(self, key: int, version: int) -> Route:
        """Return the route. Raises ProtocolViolation for a version that is not advertised."""
        if key == API_VERSIONS:
            return _LOCAL
        key_and_version = (key & 0xFFFF) << 16 | (version & 0xFFFF)
        known = self._routes.get(key_and_version)
        if known is None:
            known = self._routes[key_and_version] = self._find_route(key, version)
        return known

    def _find_route(self, key: int, version: int) -> Route:
        if key in REWRITTEN_KEYS:
            request = WIRE_APIS[key].request
            if request.oldest <= version <= request.newest:
                return Route(key in self._local_keys, reply_rewriter(key, version))
        elif key in self._local_keys:
            if version <= newest_version(key) and self._dialect.codec(key, version) is not None:
                return _LOCAL
        elif 0 <= version <= FORWARDED_VERSIONS.get(key, -1) and (key != SASL_HANDSHAKE or version):
            is_shared = key in SHARED_KEYS and self._dialect.codec(key, version) is not None
            return _LOCAL if is_shared else _FORWARD
        raise ProtocolViolation(f"API {key} in version {version} is not offered in front of a broker")

    def serves_offline(self, key: int) -> bool:
        """Return whether a request for the broker is answered here because no broker can be reached."""
        return self.reachability.is_offline and key in OFFLINE_KEYS

    def decode(self, key: int, version: int, frame: bytes) -> Message | None:
        """Return the request in a whole frame; None if it cannot be read, or is not whole."""
        if _LENGTH(frame)[0] != len(frame) - 4:
            return None
        try:
            codec = VersionCodec(WIRE_APIS[key], version)
            message: Message = codec.read(frame, _body_position(frame, is_flexible=codec.is_flexible))
        except (ProtocolViolation, ValueError):
            return None
        return message

    def belongs_to_broker(self, key: int, version: int, frame: bytes) -> bool:
        """Return whether a request of a shared API, given as a whole frame, is the broker's."""
        codec = self._dialect.codec(key, version)
        assert codec is not None
        body = _body_position(frame, is_flexible=codec.is_flexible)
        if key == FIND_COORDINATOR:
            request: FindCoordinator = codec.read(frame, body)
            return request.key_type == _TRANSACTION_KEY_TYPE
        try:
            message = codec.read(frame, body)
        except ProtocolViolation:
            return True  # the broker may accept versions or fields that Muster does not
        assert isinstance(message, DescribeConfigs | AlterConfigs | IncrementalAlterConfigs)
        return not names_only_groups(message)


def _body_position(frame: bytes, *, is_flexible: bool) -> int:
    """Return where a request's body begins. Raises ProtocolViolation."""
    try:
        position = _CLIENT_ID_AT + max(_INT16(frame, 12)[0], 0)
        return read_tags(frame, position)[1] if is_flexible else position
    except IndexError:
        raise ProtocolViolation("the frame ends in its header") from None
