"""What all connections in front of one broker share."""

from struct import Struct
from typing import Final, NamedTuple

from coordinator.gateway.session.apis import (
    API_VERSIONS,
    FIND_COORDINATOR,
    KEYS_WHILE_AWAY,
    METADATA,
    OF_GROUPS,
    OUR_KEYS,
    OURS,
    OURS_WHILE_AWAY,
    PASSED,
    REWRITTEN,
    SASL_HANDSHAKE,
    SHARED_KEYS,
    names_groups_alone,
    offer,
)
from coordinator.gateway.session.replies import Addresses, Rewriting, rewriting
from protocol.apis import APIS, BY_MESSAGE
from protocol.errors import ProtocolViolation
from protocol.kafka.reading import MAX_ENTRIES
from protocol.kafka.session import KafkaDialect, KafkaSession
from protocol.kafka.varint import read_tags
from protocol.messages import Message
from protocol.messages.configs import AlterConfigs, DescribeConfigs, IncrementalAlterConfigs
from protocol.messages.node import ApiVersionsReply, FindCoordinator

_PROBE_VERSION: Final = 4
_NAME_AT: Final = 14
_TRANSACTIONS: Final = 1
"""What FindCoordinator asks for, if not for groups."""
_INT16: Final = Struct(">h").unpack_from


class Way(NamedTuple):
    """What becomes of the requests of one version of one API."""

    is_ours: bool
    rewriting: Rewriting | None = None


_OURS: Final = Way(True)
_THROUGH: Final = Way(False)


class Reach:
    """What the fronts of all brokers share, those too whose connections outlive them: whether no broker can be reached
    at all, so that what clients must know to go on is told here."""

    __slots__ = ("is_away", "minute")

    def __init__(self) -> None:
        self.is_away = False
        self.minute = 0
        """Of the node's clock, while brokers can be reached: who was let in in an earlier one may be no more."""


class Proxy:
    """Of one broker: what the sessions of its listener go by. `broker` is its answer to ApiVersions; `addresses`, where
    clients reach the brokers through us, may change at any time. `wants_exchange`: it lets nobody in without SASL."""

    __slots__ = (
        "_dialect",
        "_spoken",
        "_ways",
        "addresses",
        "max_frame_bytes",
        "metadata_version",
        "offer",
        "reach",
        "wants_exchange",
    )

    def __init__(
        self,
        broker: ApiVersionsReply,
        addresses: Addresses,
        max_frame_bytes: int,
        most_entries: int = MAX_ENTRIES,
        *,
        wants_exchange: bool = False,
        reach: Reach | None = None,
    ) -> None:
        self.wants_exchange = wants_exchange
        self.reach = reach or Reach()
        self.offer = offer(broker)
        self._spoken = {row.api_key: row for row in broker.api_keys}
        self.addresses = addresses
        self.max_frame_bytes = max_frame_bytes
        self._dialect = KafkaDialect(max_frame_bytes, {*OURS, *OF_GROUPS, *OURS_WHILE_AWAY}, most_entries)
        self._dialect.offer = self.offer
        self._ways: dict[int, Way] = {}
        newest = [row.max_version for row in self.offer.api_keys if row.api_key == METADATA]
        self.metadata_version = min(_PROBE_VERSION, *newest) if newest else _PROBE_VERSION

    def version_of(self, message: type[Message], oldest: int, newest: int) -> int | None:
        """The newest version of these that the broker speaks; None if it speaks none of them."""
        row = self._spoken.get(BY_MESSAGE[message].key)
        if row is None:
            return None
        version = min(row.max_version, newest)
        return version if version >= max(row.min_version, oldest) else None

    def inner(self) -> KafkaSession:
        """Who reads and answers what is ours."""
        return self._dialect.open()

    def way(self, key: int, version: int) -> Way:
        """Raises ProtocolViolation for what is not offered, whether the broker knows it or not."""
        if key == API_VERSIONS:
            return _OURS
        kind = (key & 0xFFFF) << 16 | (version & 0xFFFF)
        known = self._ways.get(kind)
        if known is None:
            known = self._ways[kind] = self._find_way(key, version)
        return known

    def _find_way(self, key: int, version: int) -> Way:
        if key in REWRITTEN:
            request = APIS[key].request
            if request.oldest <= version <= request.newest:
                return Way(key in OUR_KEYS, rewriting(key, version))
        elif key in OUR_KEYS:
            if self._dialect.call(key, version) is not None:
                return _OURS
        elif 0 <= version <= PASSED.get(key, -1) and (key != SASL_HANDSHAKE or version):
            is_shared = key in SHARED_KEYS and self._dialect.call(key, version) is not None
            return _OURS if is_shared else _THROUGH
        raise ProtocolViolation(f"API {key} in version {version} is not offered in front of a broker")

    def is_ours_now(self, key: int) -> bool:
        """Whether a request that is the broker's is answered here, since nobody else can."""
        return self.reach.is_away and key in KEYS_WHILE_AWAY

    def is_brokers(self, key: int, version: int, frame: bytes) -> bool:
        """Whether a request of a shared API, in a whole frame, is the broker's."""
        call = self._dialect.call(key, version)
        assert call is not None
        body = _end_of_header(frame, is_flexible=call.is_flexible)
        if key == FIND_COORDINATOR:
            wanted: FindCoordinator = call.read(frame, body)
            return wanted.key_type == _TRANSACTIONS
        try:
            message = call.read(frame, body)
        except ProtocolViolation:
            return True  # it may take more than we do
        assert isinstance(message, DescribeConfigs | AlterConfigs | IncrementalAlterConfigs)
        return not names_groups_alone(message)


def _end_of_header(frame: bytes, *, is_flexible: bool) -> int:
    """Where a request's body begins. Raises ProtocolViolation."""
    try:
        position = _NAME_AT + max(_INT16(frame, 12)[0], 0)
        return read_tags(frame, position)[1] if is_flexible else position
    except IndexError:
        raise ProtocolViolation("the frame ends in its header") from None
