"""The brokers of the cluster this node stands in front of, and where clients reach each of them through us."""

import msgspec

from coordinator.gateway.session.router import Reachability, Router
from coordinator.gateway.session.session import ProxySession
from coordinator.placement import AdvertisedNode, Placement
from protocol.messages.node import ApiVersionsReply

_NO_LISTENER = (
    "none of the cluster's brokers has a listener here: no port of upstream.listener.ports is left, or none can be "
    "reached at the address that the cluster tells; the log says which"
)


class Broker(msgspec.Struct, frozen=True):
    """`host` and `port` are its own; clients are told `front_host` and `front_port`. `versions` is what it answered to
    ApiVersions."""

    node_id: int
    host: str
    port: int
    front_host: str
    front_port: int
    versions: ApiVersionsReply
    rack: str | None = None


class Brokers:
    """What the edge last found. Away, the cluster keeps the brokers it had: group requests need none of them."""

    def __init__(self, max_frame_bytes: int, most_entries: int, *, requires_sasl: bool = False) -> None:
        self._requires_sasl = requires_sasl
        self.known: dict[int, Broker] = {}
        self.in_order: tuple[Broker, ...] = ()
        """The same, by their ids."""
        self.is_reachable = False
        self.reason = "the cluster has not been found yet"
        """Why it cannot be reached; or why no client can, though it was."""
        self.since_ms = 0
        """When it could be reached last, or when this began."""
        self._addresses: dict[int, tuple[str, int]] = {}
        self._routers: dict[int, Router] = {}
        self._reachability = Reachability()
        self._max_frame_bytes = max_frame_bytes
        self._most_entries = most_entries

    def found(self, brokers: tuple[Broker, ...], now_ms: int) -> None:
        """These, and no others."""
        self.is_reachable, self.reason, self.since_ms = True, "" if brokers else _NO_LISTENER, now_ms
        self._reachability.is_offline, self._reachability.minute = False, now_ms // 60_000
        self.in_order = tuple(sorted(brokers, key=lambda broker: broker.node_id))
        known = {broker.node_id: broker for broker in self.in_order}
        for node_id, broker in known.items():
            before = self.known.get(node_id)
            if before is None or before.versions != broker.versions:
                self._routers[node_id] = Router(
                    broker.versions,
                    self._addresses,
                    self._max_frame_bytes,
                    self._most_entries,
                    requires_sasl=self._requires_sasl,
                    reachability=self._reachability,
                )
        self.known = known
        self._addresses.clear()  # in place: sessions that are open go by it
        self._addresses.update({one.node_id: (one.front_host, one.front_port) for one in known.values()})

    def away(self, reason: str) -> None:
        """None of them can be reached."""
        self.is_reachable = False
        self.reason = reason if self.known else f"no broker of the cluster was reached yet: {reason}"
        self._reachability.is_offline = True

    def open(self, node_id: int) -> ProxySession:
        """A session in front of the broker, which has been found at least once."""
        return ProxySession(self._routers[node_id])

    def age_ms(self, now_ms: int) -> int:
        """How old what is known of the cluster is, while it cannot be reached."""
        return 0 if self.is_reachable else max(0, now_ms - self.since_ms)

    def gauges(self, now_ms: int) -> dict[str, int]:
        """How the cluster looks from here, in numbers."""
        return {
            "upstream_reachable": int(self.is_reachable),
            "upstream_brokers": len(self.known),
            "upstream_age_ms": self.age_ms(now_ms),
        }


class GatewayPlacement(Placement):
    """Every broker's listener leads to this node, so each shard's groups are at one of them, told apart by shard as
    Kafka does it: a client that has found its coordinator stays where it is, and connections are spread."""

    def __init__(self, placement: Placement, brokers: Brokers) -> None:
        super().__init__(placement.node_id, placement.shards, placement.addresses)
        self._brokers = brokers

    def node_of_shard(self, shard: int, dialect: str) -> AdvertisedNode:
        """Clients of Kafka's must find the broker's id at the address that Metadata tells them."""
        known = self._brokers.in_order
        if dialect != "kafka" or not known:
            return super().node_of_shard(shard, dialect)
        return _address(known[shard % len(known)])

    def nodes(self, dialect: str) -> tuple[AdvertisedNode, ...]:
        """The brokers, for Kafka's clients; this node for others."""
        if dialect != "kafka":
            return super().nodes(dialect)
        return tuple(_address(broker) for broker in self._brokers.in_order)


def _address(broker: Broker) -> AdvertisedNode:
    return AdvertisedNode(broker.node_id, broker.front_host, broker.front_port)
