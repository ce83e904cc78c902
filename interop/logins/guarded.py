"""A musterd that wants a login of everybody, with TLS or without, and what it counts of logins."""

import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import trustme
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AdminClient,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialAlteration,
    UserScramCredentialUpsertion,
)
from prometheus_client.parser import text_string_to_metric_families

from interop.logins.identity_provider import IdentityProvider
from interop.program import OAUTHBEARER, TOKEN_ENDPOINT
from interop.server import Musterd

SASL_PLAINTEXT, SASL_SSL = PROTOCOLS = ("SASL_PLAINTEXT", "SASL_SSL")
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", OAUTHBEARER)
LIFETIME_MS = 4_000
"""Time that a login lasts. franz-go renews it a second before its end, musterd takes no two logins within a second."""
USER, PASSWORD, WRONG = "reader", "right secret", "wrong secret"
ROOT, ROOT_PASSWORD = "root", "secret of root"
_TIMEOUT_S = 15.0


class Counts(NamedTuple):
    """Counters of a musterd since its start."""

    logins: int
    failed: int
    expired: int
    """Connections that were closed at the end of their login."""
    opened: int
    """Connections of clients."""


def counts(page: str) -> Counts:
    """Read the counters from the text of /metrics; one that is absent is 0."""
    values = {
        sample.name: int(sample.value) for family in text_string_to_metric_families(page) for sample in family.samples
    }
    names = ("logins", "logins_failed", "connections_login_expired", "connections_opened")
    return Counts(*(values.get(f"muster_{name}_total", 0) for name in names))


class ProtectedMusterd(Musterd):
    """A musterd whose clients log in by every mechanism, with TLS or without. `more`: its settings."""

    http = "127.0.0.1:0"
    counts_tokens = True
    """True if a refused token is counted although its client hangs up instead of ending its login."""

    def __init__(self, folder: Path, protocol: str, provider: IdentityProvider, *more: str) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.protocol = protocol
        self._provider = provider
        self._tls: dict[str, str] = {}
        own: tuple[str, ...] = ()
        if protocol == SASL_SSL:
            own = self._certify(folder)
        self.security = self.settings("SCRAM-SHA-512", ROOT, ROOT_PASSWORD)
        super().__init__(folder, *more, *own)

    def settings(self, mechanism: str, user: str = USER, password: str = PASSWORD) -> dict[str, str]:
        """Return the settings of a client that logs in so, by librdkafka's names."""
        login = {"sasl.mechanism": mechanism, "sasl.username": user, "sasl.password": password}
        if mechanism == OAUTHBEARER:
            login[TOKEN_ENDPOINT] = f"{self._provider.address}/token"
        return {"security.protocol": self.protocol, **self._tls, **login}

    def counts(self) -> Counts:
        """Return what it has counted until now."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.http_port}/metrics", timeout=_TIMEOUT_S) as page:
            return counts(page.read().decode())

    def _certify(self, folder: Path) -> tuple[str, ...]:
        """Make an authority, a certificate for the listener, and the settings of both sides."""
        authority = trustme.CA()
        issued = authority.issue_cert("127.0.0.1")
        ca, chain, key = (folder.resolve() / f"{name}.pem" for name in ("ca", "chain", "key"))
        authority.cert_pem.write_to_path(ca)
        issued.private_key_pem.write_to_path(key)
        chain.write_bytes(b"".join(blob.bytes() for blob in issued.cert_chain_pems))
        self._tls = {"ssl.ca.location": str(ca)}
        return f"tls.certificate.location={chain}", f"tls.key.location={key}", "tls.listeners=kafka"


class GuardedMusterd(ProtectedMusterd):
    """It knows the users itself, and lets `USER` in."""

    def __init__(self, folder: Path, protocol: str, provider: IdentityProvider) -> None:
        super().__init__(
            folder,
            protocol,
            provider,
            f"sasl.enabled.mechanisms={','.join(MECHANISMS)}",
            f"initial.admin={ROOT}:{ROOT_PASSWORD}",
            f"connections.max.reauth.ms={LIFETIME_MS}",
            "http.metrics.without.login=true",
            *provider.settings(),
        )

    def create_user(self) -> None:
        """Create `USER` as Kafka's tools do (KIP-554)."""
        admin = AdminClient({"bootstrap.servers": self.bootstrap, "log_level": 0, **self.security})
        wanted: list[UserScramCredentialAlteration] = [
            UserScramCredentialUpsertion(USER, ScramCredentialInfo(mechanism, 4_096), PASSWORD.encode())
            for mechanism in (ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512)
        ]
        for done in admin.alter_user_scram_credentials(wanted).values():
            done.result(_TIMEOUT_S)


@contextmanager
def guarded(folder: Path, protocol: str, provider: IdentityProvider) -> Iterator[GuardedMusterd]:
    """Serve until the block ends."""
    server = GuardedMusterd(folder, protocol, provider)
    try:
        server.create_user()
        yield server
    finally:
        server.end()
