"""EDGE: the limit of open files, and what a configuration may hold within it."""

import resource

import msgspec
import structlog

from coordinator.config.config import Config
from coordinator.gateway.io.splice import FILES_PER_TRANSFER, MAX_TRANSFERS
from coordinator.io.tls.listening import MOST_HANDSHAKES

log = structlog.get_logger()

_FILES_OF_LOGS, _LEAST_FILES_OF_LOGS = 4_096, 320
_LEAST_A_HTTP_FILE = 8
"""Divisor of the open files that gives the limit of HTTP connections, where few files are allowed."""


def within_open_files(config: Config) -> Config:
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
