"""The cluster's brokers, and the addresses at which clients reach them through the gateway."""

from collections.abc import Mapping

import msgspec

from coordinator.gateway.session.router import Reachability, Router
from coordinator.gateway.session.session import ProxySession
from coordinator.placement import AdvertisedAddress, Placement
from protocol.messages import Message
from protocol.messages.node import ApiVersionsReply

_NO_LISTENER = (
    "none of the cluster's brokers has a listener here: no port of upstream.listener.ports is left, or none can be "
    "reached at its advertised address; the log says which"
)


class Broker(msgspec.Struct, frozen=True):
    """A broker: its own `host` and `port`, its listener at `advertised_host` and `advertised_port`, and its reply to
    ApiVersions."""

    node_id: int
    host: str
    port: int
    advertised_host: str
    advertised_port: int
    versions: ApiVersionsReply
    rack: str | None = None


class Brokers:
    """Brokers as last discovered. An unreachable cluster keeps them: group requests need none of them."""

    def __init__(
        self,
        max_frame_bytes: int,
        max_entries: int,
        *,
        requires_sasl: bool = False,
        is_server_driven: bool = False,
        is_transactional: bool = False,
    ) -> None:
        self._is_transactional = is_transactional
        self._requires_sasl = requires_sasl
        self._is_server_driven = is_server_driven
        self.known: dict[int, Broker] = {}
        self.by_id: tuple[Broker, ...] = ()
        """The same brokers, sorted by id."""
        self.is_reachable = False
        self.reason = "the cluster has not been found yet"
        """The problem for which clients cannot reach the cluster or its brokers; empty if there is none."""
        self.since_ms = 0
        """Clock reading when the cluster was last reached, or at start."""
        self.addresses: dict[int, tuple[str, int]] = {}
        """Addresses for clients, by the ids that they know: of brokers, and of coordinators besides them."""
        self._shared: Mapping[int, tuple[str, int]] = {}
        self._coordinators: Mapping[int, tuple[str, int]] = {}
        self._routers: dict[int, Router] = {}
        self._reachability = Reachability()
        self._max_frame_bytes = max_frame_bytes
        self._max_entries = max_entries

    def found(self, brokers: tuple[Broker, ...], now_ms: int) -> None:
        """Replace the brokers by these."""
        self.is_reachable, self.reason, self.since_ms = True, "" if brokers else _NO_LISTENER, now_ms
        self._reachability.is_offline, self._reachability.minute = False, now_ms // 60_000
        self.by_id = tuple(sorted(brokers, key=lambda broker: broker.node_id))
        known = {broker.node_id: broker for broker in self.by_id}
        for node_id, broker in known.items():
            before = self.known.get(node_id)
            if before is None or before.versions != broker.versions:
                self._routers[node_id] = Router(
                    broker.versions,
                    self.addresses,
                    self._max_frame_bytes,
                    self._max_entries,
                    requires_sasl=self._requires_sasl,
                    reachability=self._reachability,
                    is_server_driven=self._is_server_driven,
                    is_transactional=self._is_transactional,
                )
        self.known = known
        self._set_addresses()

    def share(self, listeners: Mapping[int, tuple[str, int]], coordinators: Mapping[int, tuple[str, int]]) -> None:
        """Set the addresses that several nodes have agreed on: listeners by broker, and coordinators by ids that no
        broker has."""
        self._shared, self._coordinators = listeners, coordinators
        self._set_addresses()

    def _set_addresses(self) -> None:
        own = {broker.node_id: (broker.advertised_host, broker.advertised_port) for broker in self.known.values()}
        self.addresses.clear()  # in place: routers of open sessions refer to it
        self.addresses |= {node_id: self._shared.get(node_id, address) for node_id, address in own.items()}
        self.addresses |= self._coordinators

    def described(self) -> list[tuple[int, str, int, str | None]]:
        """Return id, host, port and rack of each, as clients are told."""
        racks = {broker.node_id: broker.rack for broker in self.known.values()}
        return [(node_id, host, port, racks.get(node_id)) for node_id, (host, port) in self.addresses.items()]

    def unreachable(self, reason: str) -> None:
        """Note that no broker can be reached."""
        self.is_reachable = False
        self.reason = reason if self.known else f"no broker of the cluster was reached yet: {reason}"
        self._reachability.is_offline = True

    def open(self, node_id: int) -> ProxySession:
        """Open a proxied session to a broker that was discovered at least once."""
        return ProxySession(self._routers[node_id])

    def version_of(self, message: type[Message], oldest: int, newest: int) -> int | None:
        """Return the newest version in the range that all brokers speak; None if there is none, or no broker."""
        spoken = [self._routers[node_id].version_of(message, oldest, newest) for node_id in self.known]
        return min((one for one in spoken if one is not None), default=None) if None not in spoken else None

    def age_ms(self, now_ms: int) -> int:
        """Milliseconds since the cluster was last reached; 0 while it can be."""
        return 0 if self.is_reachable else max(0, now_ms - self.since_ms)

    def gauges(self, now_ms: int) -> dict[str, int]:
        """Return the gauges of the cluster."""
        return {
            "upstream_reachable": int(self.is_reachable),
            "upstream_brokers": len(self.known),
            "upstream_age_ms": self.age_ms(now_ms),
        }


class GatewayPlacement(Placement):
    """Placement of shards on the brokers' listeners, by shard as Kafka does it. All listeners lead to this node; so
    each client finds its coordinator again, and connections are spread over the listeners."""

    def __init__(self, placement: Placement, brokers: Brokers) -> None:
        super().__init__(placement.node_id, placement.shards, placement.addresses)
        self._brokers = brokers

    def coordinator_of(self, shard: int, dialect: str) -> AdvertisedAddress | None:
        """Return the coordinator. Kafka clients need a broker id and address that Metadata has as well."""
        known = self._brokers.by_id
        if dialect != "kafka" or not known:
            return super().coordinator_of(shard, dialect)
        return self._address(known[shard % len(known)].node_id)

    def nodes(self, dialect: str) -> tuple[AdvertisedAddress, ...]:
        """Return the brokers' listeners for Kafka clients; this node for others."""
        if dialect != "kafka":
            return super().nodes(dialect)
        return tuple(map(self._address, self._brokers.addresses))

    def is_listed_by(self, shard: int, broker: int) -> bool:
        known = self._brokers.by_id
        return bool(known) and known[shard % len(known)].node_id == broker

    def _address(self, node_id: int) -> AdvertisedAddress:
        return AdvertisedAddress(node_id, *self._brokers.addresses[node_id])
