"""EDGE: the native and the HTTP listener beside a cluster that has ACLs. They ask nobody for a principal, so they open
only if the operator names them, or if clients must show a certificate."""

from collections.abc import Awaitable, Callable

import structlog
from msgspec.structs import replace

from coordinator.config.config import Config
from coordinator.gateway.io.cluster_identity import Identity

log = structlog.get_logger()

Close = Callable[[], Awaitable[None]]
_KINDS = ("native", "http")
_ADVICE = "name it in upstream.unguarded.listeners, or ask clients for certificates there (tls.client.ca.location)"


class UnguardedListeners:
    """Listeners that stay closed while the cluster has an authorizer. One that was closed opens with the next start."""

    def __init__(self, config: Config, identity: Identity) -> None:
        named = config.upstream_unguarded_listeners
        self._config = config
        self._identity = identity
        self._noted: bool | None = None
        self._open: dict[str, Close] = {}
        self._kinds = tuple(
            kind for kind in _KINDS if not config.asks_who(kind) and (named is None or kind not in named.all)
        )

    def permitted(self, has_authorizer: bool | None) -> Config:
        """The configuration without the listeners that stay closed; None: the cluster was not reached, and what it said
        last holds. Raises OSError."""
        closed = self._identity.had_authorizer if has_authorizer is None else has_authorizer
        kinds = [kind for kind in self._kinds if closed and getattr(self._config, kind) is not None]
        for kind in kinds:
            log.warning("a listener stays closed: the cluster has ACLs, which do not hold there", **_told(kind))
        return replace(self._config, **dict.fromkeys(kinds))

    def opened(self, kind: str, close: Close) -> None:
        """The listener is open; `close` ends it with its connections."""
        if kind in self._kinds:
            self._open[kind] = close

    async def heard(self, *, has_authorizer: bool) -> None:
        """The cluster was asked again."""
        if has_authorizer is not self._noted:
            try:
                self._identity.note_authorizer(has_authorizer=has_authorizer)
                self._noted = has_authorizer
            except OSError as error:
                log.warning("whether the cluster has ACLs cannot be noted", why=str(error))
        while has_authorizer and self._open:
            kind, close = self._open.popitem()
            log.error("a listener is closed: the cluster has ACLs now, which do not hold there", **_told(kind))
            await close()


def _told(kind: str) -> dict[str, str]:
    return {"listener": kind, "advice": _ADVICE}
