"""EDGE: the native and the HTTP listener in front of a cluster that has ACLs. They open only
if the operator names them, or clients must show a certificate or log in at a broker."""

from collections.abc import Awaitable, Callable

import structlog
from msgspec.structs import replace

from coordinator.config.config import Config
from coordinator.gateway.io.cluster_identity import ClusterIdentity

log = structlog.get_logger()

Close = Callable[[], Awaitable[None]]
_UNAUTHENTICATED_KINDS = ("native", "http")
_ADVICE = "name it in upstream.unguarded.listeners, or ask clients for certificates there (tls.client.ca.location)"


class UnguardedListeners:
    """Listeners that stay closed while the cluster has an authorizer. A closed one opens again at the next start."""

    def __init__(self, config: Config, identity: ClusterIdentity) -> None:
        named = config.upstream_unguarded_listeners
        self._config = config
        self._identity = identity
        self._recorded: bool | None = None
        self.has_authorizer = False
        """True if the cluster had ACLs at the start."""
        self._open: dict[str, Close] = {}
        self._kinds = tuple(
            kind
            for kind in _UNAUTHENTICATED_KINDS
            if not config.asks_who(kind)
            and (named is None or kind not in named.all)
            and not (kind == "native" and config.relays_logins)
        )

    @property
    def http_logs_in(self) -> bool:
        """True if users of HTTP log in at a broker: the cluster had ACLs at the start. A listener that opened without
        logins is closed instead, once the cluster has ACLs."""
        return self.has_authorizer and self._config.relays_http_logins

    def permitted(self, has_authorizer: bool | None) -> Config:
        """Return the configuration without the listeners that stay closed. `has_authorizer` None: the cluster was not
        reached, and the recorded answer holds. Raises OSError."""
        self.has_authorizer = self._identity.had_authorizer if has_authorizer is None else has_authorizer
        if self.http_logs_in:
            self._kinds = tuple(kind for kind in self._kinds if kind != "http")
        kinds = [kind for kind in self._kinds if self.has_authorizer and getattr(self._config, kind) is not None]
        for kind in kinds:
            log.warning("a listener stays closed: the cluster has ACLs, which do not hold there", **_log_fields(kind))
        return replace(self._config, **dict.fromkeys(kinds))

    def opened(self, kind: str, close: Close) -> None:
        """Register an open listener; `close` ends it and its connections."""
        if kind in self._kinds:
            self._open[kind] = close

    async def update(self, *, has_authorizer: bool) -> None:
        """Record whether the cluster has an authorizer, and close the open listeners if it has."""
        if has_authorizer is not self._recorded:
            try:
                self._identity.record_authorizer(has_authorizer=has_authorizer)
                self._recorded = has_authorizer
            except OSError as error:
                log.warning("whether the cluster has ACLs cannot be noted", why=str(error))
        while has_authorizer and self._open:
            kind, close = self._open.popitem()
            log.error("a listener is closed: the cluster has ACLs now, which do not hold there", **_log_fields(kind))
            await close()


def _log_fields(kind: str) -> dict[str, str]:
    return {"listener": kind, "advice": _ADVICE}
