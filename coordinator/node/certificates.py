"""Principals of clients that present a certificate: its name, mapped by `ssl.principal.mapping.rules`."""

from coordinator.accounts.audit import AuditEvent
from coordinator.clock import Moment
from coordinator.config.principals import certificate_text, distinguished_name, map_name, parse_rules
from coordinator.core.core import Connection, Core
from coordinator.node.events import Opened
from coordinator.node.serving import Serving


class CertificatePrincipals:
    """Sets connections' principals from their certificates. A connection whose name no rule matches is closed, as in
    Kafka."""

    def __init__(self, core: Core, serving: Serving, rules: str) -> None:
        self._core = core
        self._serving = serving
        self._rules = parse_rules(rules)
        serving.on_opened.append(self.opened)

    def opened(self, connection: Connection, event: Opened, moment: Moment) -> None:
        """Set the connection's principal and certificate, if it shows one."""
        if not event.subject and not event.serial:
            return
        connection.certificate = certificate_text(event.subject, event.serial)
        if not event.subject:
            return
        shown = distinguished_name(event.subject)
        mapped = map_name(self._rules, shown)
        about = {
            "host": event.peer_host,
            "port": event.peer_port,
            "listener": event.dialect,
            "mechanism": "certificate",
            "certificate": connection.certificate,
        }
        if mapped is None:
            why = "no rule of ssl.principal.mapping.rules matches"
            self._core.audit.record(AuditEvent.LOGIN_FAILED, moment, {**about, "user": shown, "why": why})
            self._serving.close(connection, f"no rule of ssl.principal.mapping.rules matches {shown[:300]!r}")
        else:
            connection.principal = f"User:{mapped}"
            self._core.audit.record(AuditEvent.LOGIN, moment, {"principal": connection.principal, **about})
            connection.access = self._core.accounts.authorizer.of(connection.principal, connection.peer_host)
            connection.is_guarded = True
