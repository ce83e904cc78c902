"""EDGE: the daemon from its start to its end: opens, binds, loads, serves until a signal, stops."""

import asyncio
import gc
import signal
from collections.abc import Coroutine, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import structlog

from coordinator.build_info import version
from coordinator.config.config import KEYS, Config, ConfigError
from coordinator.config.keys import LISTENERS
from coordinator.gateway.gateway import Gateway
from coordinator.gateway.io.cluster.from_config import ClusterPart
from coordinator.gateway.io.cluster.log_check import LogCheck
from coordinator.gateway.io.cluster_identity import ClusterIdentity
from coordinator.gateway.io.security import upstream_tls
from coordinator.gateway.io.supervisor import Supervisor
from coordinator.gateway.io.tls import UpstreamTls
from coordinator.gateway.io.unguarded_listeners import UnguardedListeners
from coordinator.io.idle_connections import IdleConnections
from coordinator.io.ids import RandomIds
from coordinator.io.server import Server, read_clock
from coordinator.io.service_manager import ServiceManager
from coordinator.io.tls.from_config import listening_tls
from coordinator.io.tls.listening import ListeningTls
from coordinator.node.node import Node
from coordinator.start.accounts import begin_accounts, open_audit
from coordinator.start.data_folder import open_store
from coordinator.start.http_listener import http_logins, serve_http
from coordinator.start.listeners import advertised_address, bind, make_supervisor
from coordinator.start.loading import until_served
from coordinator.start.open_files import within_open_files
from partition_log.disk.disk import OsDisk
from partition_log.store.log_store import LogStore

log = structlog.get_logger()

_COLLECTIONS = 5_000, 5, 800
"""Thresholds of the garbage collector. Reference counting frees the objects of a request, and cycles are rare, so what
a collection finds young is there to stay: new members, connections and offsets. Heartbeats wait while it goes through
them, 1 ms for 5,000 objects. Higher thresholds save nothing, since each object is gone through once in its generation;
they make the pause longer. With the third, all objects are gone through after 20 million new ones at the earliest."""


async def serve(config: Config, manager: ServiceManager) -> None:
    """Serve until SIGTERM or SIGINT, or until other nodes refuse this one. Raises ConfigError, OSError, and the errors
    of a data folder that cannot be served."""
    config = within_open_files(config)
    tls, brokers_tls = listening_tls(config), upstream_tls(config)
    identity = ClusterIdentity(Path(config.data_dir))
    disk = OsDisk()
    store = open_store(config, disk, identity)
    server = Server(disk, config.max_unsent_bytes, config.max_total_unsent_bytes)
    unguarded = UnguardedListeners(config, identity)
    beside = make_supervisor(config, server, identity, tls, brokers_tls, unguarded)
    log_check = LogCheck(config, beside)
    config = await _admitted(config, beside, unguarded, log_check)
    addresses, bound = await bind(config, server, beside, tls)
    part = ClusterPart(config, server, beside)
    node = _node(config, store, addresses, part, unguarded)
    if tls is not None:
        tls.report_to(node.core.gauges, node.core.count)
    stop_accounts = begin_accounts(config, server, node.core)
    audit = open_audit(config, server)
    await server.start(node)
    idle = IdleConnections(server, config.connections_max_idle_ms)
    idle.watch()
    if config.native is not None:
        unguarded.opened("native", partial(server.shut, "native"))
    stop_http = None
    if config.http is not None:
        logins = http_logins(config, server, beside, unguarded)
        bound["http"], stop_http = await serve_http(config, config.http, server, tls, logins)
        unguarded.opened("http", stop_http)
        if part.shards is not None:
            addresses["http"] = advertised_address("http", config.advertised_http, bound["http"])
    stopping = _until_signalled(tls, brokers_tls)
    await _either(until_served(config, server, beside, part, addresses, identity), stopping.wait())
    if not stopping.is_set():
        gc.collect()
        gc.set_threshold(*_COLLECTIONS)
        gc.freeze()  # loaded objects stay: no use in traversing a million offsets again and again
        _announce(config, bound, manager)
    refusal = await _refused(log_check, stopping)
    await _begin_stopping(manager, part)
    idle.stop()
    if stop_http is not None:
        await stop_http()
    await _part_from_cluster(part, beside)
    stop_accounts()
    await server.stop()
    if audit is not None:
        audit.finish()
    _conclude(store, refusal)


def _conclude(store: LogStore, refusal: ConfigError | None) -> None:
    """Log how it ended; raise the refusal, if that is why."""
    if store.snapshots_problem:
        log.warning("no snapshot of every shard: the next start reads more of the log", why=store.snapshots_problem)
    log.info("stopped")
    if refusal is not None:
        raise refusal


async def _admitted(
    config: Config, beside: Supervisor | None, unguarded: UnguardedListeners, log_check: LogCheck
) -> Config:
    """Return the configuration with the listeners that the cluster permits. Raises ConfigError if its nodes do not
    permit this one; a cluster that does not answer is not waited for."""
    if beside is None:
        return config
    has_authorizer = await beside.has_authorizer()
    await log_check.at_start(is_reached=has_authorizer is not None)
    return unguarded.permitted(has_authorizer)


async def _refused(log_check: LogCheck, stopping: asyncio.Event) -> ConfigError | None:
    """Wait for the end, and return what the cluster's nodes have against this one, if they refuse it."""

    async def ask() -> None:
        await log_check.until_known()
        await stopping.wait()

    try:
        await _either(stopping.wait(), ask())
    except ConfigError as refusal:
        log.warning("this node is refused, and stops", why=str(refusal))
        return refusal
    return None


def _node(
    config: Config,
    store: LogStore,
    addresses: Mapping[str, tuple[str, int]],
    part: ClusterPart,
    unguarded: UnguardedListeners,
) -> Node | Gateway:
    """Build the node, or the one in front of a cluster, which asks native clients for logins from the start."""
    if config.upstream_servers is None or config.kafka is None:
        return Node(config, store, RandomIds(), addresses, read_clock())
    gateway = Gateway(config, store, RandomIds(), addresses, read_clock(), shards=part.shards)
    gateway.proxied.logins.require(is_required=unguarded.has_authorizer)
    return gateway


async def _part_from_cluster(part: ClusterPart, beside: Supervisor | None) -> None:
    await part.stop()
    if beside is not None:
        await beside.stop()


async def _begin_stopping(manager: ServiceManager, part: ClusterPart) -> None:
    log.info("stopping")
    manager.stopping()
    await part.leave()


def _announce(config: Config, bound: Mapping[str, tuple[str, int]], manager: ServiceManager) -> None:
    """Print the one line of standard output, and log what is served, how."""
    differing = {
        key.name: key.show(value)
        for key in KEYS.values()
        if (value := getattr(config, key.field)) != key.default and key.name not in LISTENERS
    }
    listeners = {kind: f"{host}:{port}" for kind, (host, port) in bound.items()}
    log.info("serving", version=version(), listeners=listeners, settings=differing)
    manager.ready(", ".join(f"{kind} at {address}" for kind, address in listeners.items()))
    listening = [f"{kind}={host}:{port}" for kind, (host, port) in bound.items()]
    secured = [kind for kind in bound if config.speaks_tls(kind)]
    print(" ".join(("ready", *listening, *((f"tls={','.join(secured)}",) if secured else ()))), flush=True)


def _until_signalled(*secured: ListeningTls | UpstreamTls | None) -> asyncio.Event:
    """Return an event that is set by the signals that stop the daemon. SIGHUP only makes it read the
    certificates anew."""
    loop, stopping = asyncio.get_running_loop(), asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopping.set)

    def hung_up() -> None:
        read = [one for one in secured if one is not None]
        if not read:
            log.info("SIGHUP is ignored: there are no certificates to read anew")
        for one in read:
            one.reread()

    loop.add_signal_handler(signal.SIGHUP, hung_up)
    return stopping


async def _either(*waits: Coroutine[Any, Any, Any]) -> None:
    """Wait until one of them has ended; raise its error."""
    tasks = [asyncio.ensure_future(wait) for wait in waits]
    ended, others = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    for task in others:
        task.cancel()
    for task in ended:
        task.result()
