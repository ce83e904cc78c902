"""EDGE: the listeners of both protocols, and the connections to the brokers of a cluster."""

import structlog

from coordinator.config.config import Address, Config
from coordinator.gateway.io.cluster_identity import ClusterIdentity
from coordinator.gateway.io.security import upstream_login
from coordinator.gateway.io.supervisor import GatewayPlan, Supervisor
from coordinator.gateway.io.tls import UpstreamTls
from coordinator.gateway.io.unguarded_listeners import UnguardedListeners
from coordinator.io.server import Server
from coordinator.io.tls.listening import ListeningTls

log = structlog.get_logger()

_WILDCARDS = ("0.0.0.0", "::")  # noqa: S104  (looked for, not bound)


async def bind(
    config: Config, server: Server, beside: Supervisor | None, tls: ListeningTls | None
) -> tuple[dict[str, tuple[str, int]], dict[str, tuple[str, int]]]:
    """Bind the listeners of both protocols. Return the addresses for clients, and the bound ones."""
    addresses: dict[str, tuple[str, int]] = {}
    bound: dict[str, tuple[str, int]] = {}
    for dialect, wanted, advertised in (
        ("native", config.native, config.advertised_native),
        ("kafka", config.kafka, config.advertised_kafka),
    ):
        if wanted is None:
            continue
        try:
            if beside is not None and dialect == "kafka":
                bound[dialect] = await beside.listen(wanted.port)
            else:
                secured = tls if config.speaks_tls(dialect) else None
                relayed = beside.relayed_client if beside is not None and config.relays_logins else None
                bound[dialect] = await server.listen(dialect, wanted.host, wanted.port, secured, relayed)
        except OSError as error:
            raise cannot_listen(dialect, wanted, error, beside is not None and dialect == "kafka") from None
        addresses[dialect] = advertised_address(dialect, advertised, bound[dialect])
    return addresses, bound


def advertised_address(kind: str, advertised: Address | None, bound: tuple[str, int]) -> tuple[str, int]:
    """Return the address of a listener as others are told it."""
    host, port = bound if advertised is None else (advertised.host, advertised.port)
    if host in _WILDCARDS:
        log.warning(
            "clients are told to connect to an address that means any; name one with --advertised",
            advertised=f"{kind}={host}:{port}",
        )
    return host, port


def cannot_listen(kind: str, wanted: Address, error: OSError, is_needed: bool = False) -> OSError:
    off = "" if is_needed else f", --{kind} off does without"
    hint = f" (--{kind} HOST:PORT chooses another address{off})"
    return OSError(f"{kind} = {wanted}: {error.strerror or error}{hint}")


def make_supervisor(
    config: Config,
    server: Server,
    identity: ClusterIdentity,
    tls: ListeningTls | None,
    brokers_tls: UpstreamTls | None,
    unguarded: UnguardedListeners,
) -> Supervisor | None:
    """Build the supervisor of the connections to the cluster's brokers, if there is a cluster."""
    if config.upstream_servers is None or config.kafka is None:
        return None
    advertised = config.advertised_kafka or config.kafka
    plan = GatewayPlan(
        config.upstream_servers.all,
        config.upstream_listener_ports,
        config.kafka.host,
        advertised.host,
        config.upstream_refresh_ms / 1_000,
        config.upstream_ask_timeout_ms / 1_000,
        upstream_login(config),
        brokers_tls,
        tls if config.speaks_tls("kafka") else None,
        advertised.port,
        identity,
        unguarded,
    )
    return Supervisor(server, plan)
