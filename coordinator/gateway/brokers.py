"""The cluster's brokers, and the addresses at which clients reach them through the gateway."""

import msgspec

from coordinator.gateway.session.router import Reachability, Router
from coordinator.gateway.session.session import ProxySession
from coordinator.placement import AdvertisedAddress, Placement
from protocol.messages.node import ApiVersionsReply

_NO_LISTENER = (
    "none of the cluster's brokers has a listener here: no port of upstream.listener.ports is left, or none can be "
    "reached at the address that the cluster tells; the log says which"
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
        self, max_frame_bytes: int, max_entries: int, *, requires_sasl: bool = False, is_server_driven: bool = False
    ) -> None:
        self._requires_sasl = requires_sasl
        self._is_server_driven = is_server_driven
        self.known: dict[int, Broker] = {}
        self.by_id: tuple[Broker, ...] = ()
        """The same brokers, sorted by id."""
        self.is_reachable = False
        self.reason = "the cluster has not been found yet"
        """The problem that keeps clients from the cluster or its brokers; empty if there is none."""
        self.since_ms = 0
        """Clock reading when the cluster was last reached, or at start."""
        self._addresses: dict[int, tuple[str, int]] = {}
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
                    self._addresses,
                    self._max_frame_bytes,
                    self._max_entries,
                    requires_sasl=self._requires_sasl,
                    reachability=self._reachability,
                    is_server_driven=self._is_server_driven,
                )
        self.known = known
        self._addresses.clear()  # in place: routers of open sessions refer to it
        self._addresses.update(
            {broker.node_id: (broker.advertised_host, broker.advertised_port) for broker in known.values()}
        )

    def unreachable(self, reason: str) -> None:
        """Note that no broker can be reached."""
        self.is_reachable = False
        self.reason = reason if self.known else f"no broker of the cluster was reached yet: {reason}"
        self._reachability.is_offline = True

    def open(self, node_id: int) -> ProxySession:
        """Open a proxied session to a broker that was discovered at least once."""
        return ProxySession(self._routers[node_id])

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
    """Placement of shards on the brokers' listeners, by shard as Kafka does it. All of them lead to this node: a client
    stays with its coordinator, and connections are spread."""

    def __init__(self, placement: Placement, brokers: Brokers) -> None:
        super().__init__(placement.node_id, placement.shards, placement.addresses)
        self._brokers = brokers

    def coordinator_of(self, shard: int, dialect: str) -> AdvertisedAddress:
        """Return the coordinator: Kafka clients need a broker id that Metadata told them, at its address there."""
        known = self._brokers.by_id
        if dialect != "kafka" or not known:
            return super().coordinator_of(shard, dialect)
        return _address(known[shard % len(known)])

    def nodes(self, dialect: str) -> tuple[AdvertisedAddress, ...]:
        """Return the brokers' listeners for Kafka clients; this node for others."""
        if dialect != "kafka":
            return super().nodes(dialect)
        return tuple(_address(broker) for broker in self._brokers.by_id)


def _address(broker: Broker) -> AdvertisedAddress:
    return AdvertisedAddress(broker.node_id, broker.advertised_host, broker.advertised_port)
