"""EDGE: the HTTP listener."""

from collections.abc import Awaitable, Callable
from functools import partial

from coordinator.config.config import Address, Config
from coordinator.config.principals import LOOPBACK, NODE_ITSELF
from coordinator.core.core import HTTP
from coordinator.gateway.io.http_logins import BrokerLogins
from coordinator.gateway.io.security import nodes_tls
from coordinator.gateway.io.supervisor import Supervisor
from coordinator.gateway.io.unguarded_listeners import UnguardedListeners
from coordinator.io.server import Server
from coordinator.io.tls.listening import ListeningTls
from coordinator.runtime.shard import ShardState
from coordinator.start.listeners import cannot_listen
from protocol.messages import Message


def http_logins(
    config: Config, server: Server, beside: Supervisor | None, unguarded: UnguardedListeners
) -> BrokerLogins | None:
    """Return the logins of HTTP at the cluster's brokers; None where these have no part in them."""
    if beside is None or not unguarded.http_logs_in:
        return None
    return BrokerLogins(server, partial(beside.relayed_client, HTTP), config.upstream_sasl_mechanism)


async def serve_http(
    config: Config, address: Address, server: Server, tls: ListeningTls | None, logins: BrokerLogins | None
) -> tuple[tuple[str, int], Callable[[], Awaitable[None]]]:
    """Bind the HTTP listener. Return its address and a function that closes it. Raises OSError."""
    # aiohttp takes a third of a daemon's start, and many daemons have no HTTP listener.
    from coordinator.http.app import make_app, serve
    from coordinator.http.connections import KEEPALIVE_S, HttpLimits
    from coordinator.http.logins import Caller, of_caller
    from coordinator.http.nodes.all_nodes import NodesPlan

    keepalive_s = KEEPALIVE_S
    if config.connections_max_idle_ms >= 0:
        keepalive_s = min(keepalive_s, config.connections_max_idle_ms / 1_000)

    def ask(message: Message, caller: Caller | None) -> Awaitable[Message]:
        if logins is not None:
            return logins.ask(message, "" if caller is None else caller.session)
        if caller is None:
            return server.calls.ask(message)
        return server.calls.ask(message, caller.principal, caller.host, caller.certificate)

    def ask_itself(message: Message) -> Awaitable[Message]:
        return server.calls.ask(message, NODE_ITSELF, LOOPBACK)

    def served() -> list[int]:
        return [shard.index for shard in core.shards if shard.state is ShardState.ACTIVE]

    core, peers_tls = server.node.core, nodes_tls(config)
    app = make_app(
        of_caller(ask),
        ask_itself=ask_itself,
        most_series=config.http_metrics_max_series,
        hosts=_http_hosts(config),
        authenticator=logins or (server.calls if config.wants_logins else None),
        has_open_metrics=config.http_metrics_without_login,
        webhooks=config,
        count=core.count,
        nodes=NodesPlan(core.placement, served, None if peers_tls is None else peers_tls.context),
    )
    try:
        return await serve(
            app,
            address.host,
            address.port,
            tls if config.speaks_tls("http") else None,
            HttpLimits(config.http_max_connections, keepalive_s=keepalive_s),
            core.gauges,
            core.count,
        )
    except OSError as error:
        raise cannot_listen("http", address, error) from None


def _http_hosts(config: Config) -> set[str]:
    """Host names allowed in HTTP requests: those that the operator gave."""
    advertised = (config.advertised_native, config.advertised_kafka, config.advertised_http, config.http)
    return {*config.http_allowed_hosts.all, *(address.host for address in advertised if address is not None)}
