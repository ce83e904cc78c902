"""EDGE: the first user, passwords and tokens that are checked beside the loop, and the audit log."""

import contextlib
from collections.abc import Callable, Iterator

import structlog

from coordinator.config.config import Config, ConfigError
from coordinator.core.core import Core
from coordinator.io.audit_file import AuditFile
from coordinator.io.jwks import KeyReader
from coordinator.io.password_checks import PasswordChecks
from coordinator.io.server import Server, read_clock
from coordinator.node.effects import CheckPassword, DropCheck, WriteAudit

log = structlog.get_logger()


def begin_accounts(config: Config, server: Server, core: Core) -> Callable[[], None]:
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
    with naming_keys(config.sasl_oauthbearer_jwks_endpoint_url):
        keys.start()
    return keys


@contextlib.contextmanager
def naming_keys(url: str | None) -> Iterator[None]:
    """Turn what is wrong with the keys of tokens into a ConfigError."""
    try:
        yield
    except ValueError as error:
        raise ConfigError(f"sasl.oauthbearer.jwks.endpoint.url = {url}: {error}") from None


def open_audit(config: Config, server: Server) -> AuditFile | None:
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
        if config.accepts_passwords and not core.accounts.users:
            log.warning("nobody can log in by a password: there are no users, and initial.admin would make the first")
        return
    username, _, password = config.initial_admin.partition(":")
    if core.accounts.users:
        log.info("initial.admin is passed over: there are users", users=len(core.accounts.users))
    elif problem := core.accounts.make_administrator(username, password, read_clock()):
        raise ConfigError(f"initial.admin: {username} cannot be written: {problem.name}")
    else:
        log.info("the first user is made", user=username)
