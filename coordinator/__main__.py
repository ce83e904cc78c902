"""EDGE: `musterd`. Reads the configuration, opens the data folder, binds, and serves until a signal ends it."""

import asyncio
import contextlib
import errno
import gc
import logging
import os
import resource
import signal
import sys
import uuid
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import structlog

from coordinator import __version__, build_info
from coordinator.accounts.records import AccountsCorrupt
from coordinator.config.cluster import OffsetsLog
from coordinator.config.config import KEYS, Address, Config, ConfigError, load_config
from coordinator.config.help import CHECK, asked, help_text
from coordinator.config.keys import LISTENERS
from coordinator.config.principals import LOOPBACK, NODE_ITSELF
from coordinator.core.core import HTTP, Core
from coordinator.gateway.gateway import Gateway
from coordinator.gateway.io.cluster.from_config import ClusterPart
from coordinator.gateway.io.cluster_identity import ClusterIdentity, embedded_topics
from coordinator.gateway.io.http_logins import BrokerLogins
from coordinator.gateway.io.security import nodes_tls, upstream_login, upstream_tls
from coordinator.gateway.io.splice import FILES_PER_TRANSFER, MAX_TRANSFERS
from coordinator.gateway.io.supervisor import GatewayPlan, Supervisor
from coordinator.gateway.io.tls import UpstreamTls
from coordinator.gateway.io.unguarded_listeners import UnguardedListeners
from coordinator.io.audit_file import AuditFile
from coordinator.io.exit import DISK_FAILED
from coordinator.io.idle_connections import IdleConnections
from coordinator.io.ids import RandomIds
from coordinator.io.jwks import KeyReader, load_key_file
from coordinator.io.password_checks import PasswordChecks
from coordinator.io.server import Server, read_clock
from coordinator.io.service_manager import ServiceManager
from coordinator.io.tls.from_config import listening_tls
from coordinator.io.tls.listening import MOST_HANDSHAKES, ListeningTls
from coordinator.node.build import tokens_from
from coordinator.node.effects import CheckPassword, DropCheck, WriteAudit
from coordinator.node.node import Node
from coordinator.runtime.group_configs import ConfigsCorrupt
from coordinator.runtime.loader import Loadings
from coordinator.runtime.shard import ShardState
from coordinator.topics.records import TopicsCorrupt
from partition_log.disk.disk import OsDisk
from partition_log.disk.unsynced_files import MOST as MOST_UNSYNCED_FILES
from partition_log.errors import FolderInUse, LogDamaged, SyncFailed
from partition_log.store.log_store import LogStore, StoreLimits
from protocol.messages import Message

log = structlog.get_logger()

_SHARDS_KEY = "offsets.topic.num.partitions"
_IN_CLUSTER_KEY = "offsets.log.cluster"
_FILES_OF_LOGS, _LEAST_FILES_OF_LOGS = 4_096, 320
_LEAST_A_HTTP_FILE = 8
"""Divisor of the open files that gives the limit of HTTP connections, where few files are allowed."""
_TELL_EVERY_S = 2.0
_WILDCARDS = ("0.0.0.0", "::")  # noqa: S104  (looked for, not bound)


def main() -> None:
    """Run the command. Exits 0 after SIGTERM or SIGINT, 2 for a wrong configuration, 1 if the data folder cannot be
    served. `musterd log` and `musterd backup` are commands of their own: they serve nothing."""
    if sys.argv[1:2] in (["log"], ["backup"]):
        sys.exit(_tool(sys.argv[1])(sys.argv[2:]))
    question = asked(sys.argv[1:])
    if question is not None:
        try:
            print(help_text() if question == "help" else _version(), flush=True)
        except BrokenPipeError:  # a pager has seen enough; what is left would be written at the exit
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return
    arguments = [argument for argument in sys.argv[1:] if argument != CHECK]
    try:
        config = load_config(arguments, os.environ, lambda path: Path(path).read_bytes())
        if CHECK in sys.argv[1:]:
            _check(config)
            return
    except ConfigError as error:
        sys.exit(_complain(str(error), 2))
    _log_to_stderr()
    signal.signal(signal.SIGHUP, signal.SIG_IGN)  # until the loop runs: a terminal that closes must not end a recovery
    for warning in config.warnings:
        log.warning(warning)
    try:
        _runner()(_serve(config, ServiceManager(os.environ)))
    except ConfigError as error:
        sys.exit(_complain(str(error), 2))
    except (LogDamaged, TopicsCorrupt, ConfigsCorrupt, AccountsCorrupt) as error:
        sys.exit(_complain(str(error), 1))
    except FolderInUse:
        advice = "stop that daemon first, or give this one a folder of its own (--data-dir)"
        sys.exit(_complain(f"another daemon serves the data folder {config.data_dir}: {advice}", 1))
    except SyncFailed as error:
        sys.exit(_complain(f"cannot serve: {error}", DISK_FAILED))
    except OSError as error:
        sys.exit(_complain(f"cannot serve: {error}", 1))


def _tool(name: str) -> Callable[[Sequence[str]], int]:
    """Return a command that reads a data folder."""
    if sys.argv[1:3] == ["log", "move"]:
        from coordinator.gateway.io.move import move_command

        return lambda arguments: move_command.main(arguments[1:])
    from coordinator.tools import backup, log_command

    return backup.main if name == "backup" else log_command.main


def _check(config: Config) -> None:
    """Check what a start would refuse and nobody has to listen for: keys, certificates, the data folder's cluster.
    Raises ConfigError."""
    for warning in config.warnings:
        _complain(f"warning: {warning}", 0)
    listening_tls(config)
    upstream_tls(config)
    if config.upstream_servers is None and (
        problem := ClusterIdentity(Path(config.data_dir)).problem_without_upstream()
    ):
        raise ConfigError(problem)
    if config.audit_log_location is not None:
        _check_writable(config.audit_log_location)
    url, verifier = config.sasl_oauthbearer_jwks_endpoint_url, tokens_from(config)
    if verifier is not None and url is not None:
        with _naming_keys(url):
            load_key_file(url, verifier)
    print("musterd: the configuration can be served")


def _check_writable(path: str) -> None:
    """Check that the audit log can be opened, without making it. Raises ConfigError."""
    folder = Path(path).parent
    code = 0
    if not folder.is_dir():
        code = errno.ENOTDIR if folder.exists() else errno.ENOENT
    elif Path(path).is_dir():
        code = errno.EISDIR
    elif not os.access(path if Path(path).exists() else folder, os.W_OK):
        code = errno.EACCES
    if code:
        raise ConfigError(f"audit.log.location = {path}: {os.strerror(code)}")


def _version() -> str:
    return f"musterd {__version__} ({build_info.build()}, {build_info.interpreter()})"


def _complain(sentence: str, code: int) -> int:
    print(f"musterd: {sentence}", file=sys.stderr)
    return code


def _runner() -> Callable[[Coroutine[Any, Any, None]], None]:
    with contextlib.suppress(ImportError):
        import uvloop

        return uvloop.run
    return asyncio.run


def _log_to_stderr() -> None:
    """Log console lines on a terminal, JSON elsewhere."""
    people = sys.stderr.isatty()
    if people:  # the formatter that structlog would choose shows local variables, passwords among them
        renderer: Any = structlog.dev.ConsoleRenderer(exception_formatter=structlog.dev.plain_traceback)
    else:
        renderer = structlog.processors.JSONRenderer()
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=not people),
            renderer,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.INFO),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
    )


def _within_open_files(config: Config) -> Config:
    """Fit the configuration to the limit of open files. A connection is an open file, and so is a segment: with the
    customary limit of 1,024 a log could fail to open, which stops the daemon. Where the system allows no more files,
    the limit of connections is lowered so that the logs have theirs."""
    # A proxied connection has a second one to its broker, and spliced answers have files of their own.
    files, spliced = (1, 0) if config.upstream_servers is None else (2, MAX_TRANSFERS * FILES_PER_TRANSFER)
    # A connection counts towards the limit only after its handshake.
    of_others = _FILES_OF_LOGS + spliced + (0 if config.tls_certificate_location is None else MOST_HANDSHAKES)
    of_http = 0 if config.http is None else config.http_max_connections
    wanted = files * config.max_connections + of_others + of_http
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return config
    allowed = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    resource.setrlimit(resource.RLIMIT_NOFILE, (allowed, hard))
    if allowed >= wanted:
        return config
    set_aside = min(of_others, max(allowed // 4, _LEAST_FILES_OF_LOGS + spliced))
    http_connections = max(min(config.http_max_connections, allowed // _LEAST_A_HTTP_FILE), 1)
    connections = max(min(config.max_connections, (allowed - set_aside - min(of_http, http_connections)) // files), 1)
    limits = {"allowed": allowed, "wanted": wanted, "max_connections": connections}
    log.warning(
        "few open files are allowed: fewer connections are, unless the limit is raised",
        http_max_connections=http_connections,
        **limits,
    )
    return msgspec.structs.replace(config, max_connections=connections, http_max_connections=http_connections)


def _open(config: Config, disk: OsDisk, identity: ClusterIdentity) -> LogStore:
    """Open and recover the data folder. Raises ConfigError where it is not to be served with this configuration."""
    cluster_id = config.cluster_id or str(uuid.uuid4())
    in_cluster = config.offsets_log is OffsetsLog.CLUSTER
    made_now = {_SHARDS_KEY: config.offsets_topic_num_partitions} | ({_IN_CLUSTER_KEY: 1} if in_cluster else {})
    store = LogStore(
        disk,
        config.data_dir,
        _limits(config),
        cluster_id=cluster_id,
        node_id=config.node_id,
        made_with=made_now,
    )
    if config.upstream_servers is None and (problem := identity.problem_without_upstream()):
        raise ConfigError(problem)
    recovered = store.open()
    if config.upstream_servers is not None and (problem := identity.problem_with_upstream(embedded_topics(store))):
        store.close()
        raise ConfigError(problem)
    if bool(store.identity.made_with.get(_IN_CLUSTER_KEY)) is not in_cluster:
        store.close()
        other = OffsetsLog.LOCAL if in_cluster else OffsetsLog.CLUSTER
        raise ConfigError(
            f"offsets.log is {config.offsets_log}, but {config.data_dir} was made with {other}: its groups would not be"
            " found; give this node a data folder of its own"
        )
    made_with = store.identity.made_with.get(_SHARDS_KEY, config.offsets_topic_num_partitions)
    if made_with != config.offsets_topic_num_partitions:
        store.close()
        raise ConfigError(
            f"{_SHARDS_KEY} is {config.offsets_topic_num_partitions}, but {config.data_dir} was made with {made_with}:"
            " groups would not be found where they are; only that is allowed"
        )
    log.info("data folder recovered", folder=config.data_dir, **msgspec.structs.asdict(recovered))
    if store.disk_full:
        log.warning("the disk is full: what is there is served, writes are refused until there is room")
    return store


async def _serve(config: Config, manager: ServiceManager) -> None:
    config = _within_open_files(config)
    tls, brokers_tls = listening_tls(config), upstream_tls(config)
    identity = ClusterIdentity(Path(config.data_dir))
    disk = OsDisk()
    store = _open(config, disk, identity)
    server = Server(disk, config.max_unsent_bytes, config.max_total_unsent_bytes)
    unguarded = UnguardedListeners(config, identity)
    beside = _beside(config, server, identity, tls, brokers_tls, unguarded)
    if beside is not None:
        config = unguarded.permitted(await beside.has_authorizer())
    addresses, bound = await _bind(config, server, beside, tls)
    part = ClusterPart(config, server, beside)
    node = _node(config, store, addresses, part, unguarded)
    if tls is not None:
        tls.report_to(node.core.gauges, node.core.count)
    stop_accounts = _accounts(config, server, node.core)
    audit = _audit(config, server)
    await server.start(node)
    idle = IdleConnections(server, config.connections_max_idle_ms)
    idle.watch()
    if config.native is not None:
        unguarded.opened("native", partial(server.shut, "native"))
    stop_http = None
    if config.http is not None:
        logins = _http_logins(config, server, beside, unguarded)
        bound["http"], stop_http = await _serve_http(config, config.http, server, tls, logins)
        unguarded.opened("http", stop_http)
        if part.shards is not None:
            addresses["http"] = _advertised_address("http", config.advertised_http, bound["http"])
    stopping = _until_signalled(tls, brokers_tls)
    await _either(_until_served(config, server, beside, part, addresses, identity), stopping.wait())
    if not stopping.is_set():
        gc.collect()
        gc.set_threshold(50_000, 20, 20)  # reference counting frees the objects of a request; cycles are rare
        gc.freeze()  # loaded objects stay: no use in traversing a million offsets again and again
        _announce(config, bound, manager)
    await stopping.wait()
    await _begin_stopping(manager, part)
    idle.stop()
    if stop_http is not None:
        await stop_http()
    await _part_from_cluster(part, beside)
    stop_accounts()
    await server.stop()
    if audit is not None:
        audit.finish()
    if store.snapshots_problem:
        log.warning("no snapshot of every shard: the next start reads more of the log", why=store.snapshots_problem)
    log.info("stopped")


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
    log.info("serving", version=_version(), listeners=listeners, settings=differing)
    manager.ready(", ".join(f"{kind} at {address}" for kind, address in listeners.items()))
    listening = [f"{kind}={host}:{port}" for kind, (host, port) in bound.items()]
    secured = [kind for kind in bound if config.speaks_tls(kind)]
    print(" ".join(("ready", *listening, *((f"tls={','.join(secured)}",) if secured else ()))), flush=True)


def _accounts(config: Config, server: Server, core: Core) -> Callable[[], None]:
    """Make the first user, if there is none, and have passwords and tokens checked beside the loop. Return what ends
    that."""
    checks = PasswordChecks(server.happen)
    server.carry_out(CheckPassword, checks.check)
    server.carry_out(DropCheck, checks.drop)
    _make_administrator(config, core)
    keys = _token_keys(config, core)

    def stop() -> None:
        checks.stop()
        if keys is not None:
            keys.stop()

    return stop


def _token_keys(config: Config, core: Core) -> KeyReader | None:
    """Read the keys that tokens are checked by, if they are a login. Raises ConfigError."""
    if core.tokens is None:
        return None
    keys = KeyReader(config, core.tokens)
    with _naming_keys(config.sasl_oauthbearer_jwks_endpoint_url):
        keys.start()
    return keys


@contextlib.contextmanager
def _naming_keys(url: str | None) -> Iterator[None]:
    """Turn what is wrong with the keys of tokens into a ConfigError."""
    try:
        yield
    except ValueError as error:
        raise ConfigError(f"sasl.oauthbearer.jwks.endpoint.url = {url}: {error}") from None


def _audit(config: Config, server: Server) -> AuditFile | None:
    """Open the audit log, if there is to be one. Raises ConfigError."""
    path = config.audit_log_location
    if path is None:
        return None

    def lost(count: int, why: str) -> None:
        server.node.core.count("audit_lines_lost", count)
        server.limited_log.write("lines of the audit log are lost", why, level="warning")

    try:
        audit = AuditFile(path, config.audit_log_max_bytes, config.audit_log_max_backups, lost)
    except OSError as error:
        raise ConfigError(f"audit.log.location = {path}: {error.strerror or error}") from None
    server.carry_out(WriteAudit, audit.write)
    return audit


def _make_administrator(config: Config, core: Core) -> None:
    """Make the first user, who is durable with the first flush; not where there are users already."""
    if config.initial_admin is None:
        return
    username, _, password = config.initial_admin.partition(":")
    if core.accounts.users:
        log.info("initial.admin is passed over: there are users", users=len(core.accounts.users))
    elif problem := core.accounts.make_administrator(username, password, read_clock()):
        raise ConfigError(f"initial.admin: {username} cannot be written: {problem.name}")
    else:
        log.info("the first user is made", user=username)


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


def _http_logins(
    config: Config, server: Server, beside: Supervisor | None, unguarded: UnguardedListeners
) -> BrokerLogins | None:
    """Return the logins of HTTP at the cluster's brokers; None where these have no part in them."""
    if beside is None or not unguarded.http_logs_in:
        return None
    return BrokerLogins(server, partial(beside.relayed_client, HTTP), config.upstream_sasl_mechanism)


async def _serve_http(
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
        return server.calls.ask(message, *(caller or ("", ""))[:2])

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
        raise _cannot_listen("http", address, error) from None


def _http_hosts(config: Config) -> set[str]:
    """Host names allowed in HTTP requests: those that the operator gave."""
    advertised = (config.advertised_native, config.advertised_kafka, config.advertised_http, config.http)
    return {*config.http_allowed_hosts.all, *(address.host for address in advertised if address is not None)}


async def _bind(
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
            raise _cannot_listen(dialect, wanted, error, beside is not None and dialect == "kafka") from None
        addresses[dialect] = _advertised_address(dialect, advertised, bound[dialect])
    return addresses, bound


def _advertised_address(kind: str, advertised: Address | None, bound: tuple[str, int]) -> tuple[str, int]:
    """Return the address of a listener as others are told it."""
    host, port = bound if advertised is None else (advertised.host, advertised.port)
    if host in _WILDCARDS:
        log.warning(
            "clients are told to connect to an address that means any; name one with --advertised",
            advertised=f"{kind}={host}:{port}",
        )
    return host, port


def _cannot_listen(kind: str, wanted: Address, error: OSError, is_needed: bool = False) -> OSError:
    off = "" if is_needed else f", --{kind} off does without"
    hint = f" (--{kind} HOST:PORT chooses another address{off})"
    return OSError(f"{kind} = {wanted}: {error.strerror or error}{hint}")


def _beside(
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


async def _until_served(
    config: Config,
    server: Server,
    beside: Supervisor | None,
    part: ClusterPart,
    addresses: Mapping[str, tuple[str, int]],
    identity: ClusterIdentity,
) -> None:
    """Wait until it is known which groups are served. Nodes that share a log are one cluster, with the id of the Kafka
    cluster that has it, unless they are given another."""
    await _until_loaded(server, beside)
    await part.join(addresses)
    if part.shards is not None and config.cluster_id is None and identity.recorded_cluster_id:
        server.node.core.cluster_id = identity.recorded_cluster_id


async def _until_loaded(server: Server, beside: Supervisor | None) -> None:
    """Wait until all shards are loaded, and log the progress."""
    loads = server.node.core.loads
    progress = loads.progress()
    log.info("loading", shards=len(server.node.core.shards), bytes=progress.bytes_total)
    gc.disable()  # all objects made while loading stay: collections make it take half as long again
    reporting = asyncio.ensure_future(_report_progress(loads))
    try:
        await server.until_loaded()
        if beside is not None:
            await beside.start()
    finally:
        reporting.cancel()
        gc.enable()
    for note in loads.notes:
        log.warning(note.text, shard=note.shard)
    for shard in server.node.core.shards:
        if shard.failure:
            log.error("a shard is not served; its groups answer NOT_COORDINATOR", shard=shard.index, why=shard.failure)
    progress = loads.progress()
    log.info(
        "loaded",
        records=progress.records,
        bytes=progress.bytes_done,
        seconds=progress.elapsed_ms / 1000,
        from_snapshots=progress.from_snapshots,
    )


async def _report_progress(loads: Loadings) -> None:
    while True:
        await asyncio.sleep(_TELL_EVERY_S)
        progress = loads.progress()
        log.info(
            "loading",
            records=progress.records,
            bytes=progress.bytes_done,
            of_bytes=progress.bytes_total,
            bytes_per_second=progress.bytes_per_second,
            seconds_left=None if progress.left_ms < 0 else round(progress.left_ms / 1000, 1),
        )


async def _either(*waits: Coroutine[Any, Any, Any]) -> None:
    """Wait until one of them has ended; raise its error."""
    tasks = [asyncio.ensure_future(wait) for wait in waits]
    ended, others = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    for task in others:
        task.cancel()
    for task in ended:
        task.result()


def _limits(config: Config) -> StoreLimits:
    allowed, _hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    unsynced = MOST_UNSYNCED_FILES if allowed == resource.RLIM_INFINITY else allowed // 16
    return StoreLimits(
        unsynced_files=max(1, min(unsynced, MOST_UNSYNCED_FILES)),
        wal_segment_bytes=config.wal_segment_bytes,
        checkpoint_bytes=config.wal_checkpoint_bytes,
        max_batch_bytes=max(config.offsets_topic_max_message_bytes, config.message_max_bytes),
        producers_per_log=config.max_producers_per_partition,
    )


if __name__ == "__main__":
    main()
