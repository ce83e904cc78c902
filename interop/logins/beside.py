"""A musterd in front of an Apache Kafka that wants a login of everybody: its brokers know the users, and what they have
let in and refused is read from their log."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from confluent_kafka.admin._acl import AclOperation
from confluent_kafka.admin._resource import ResourceType

from interop.logins.guarded import (
    LIFETIME_MS,
    MECHANISMS,
    PASSWORD,
    ROOT,
    ROOT_PASSWORD,
    USER,
    Counts,
    ProtectedMusterd,
)
from interop.logins.identity_provider import AUDIENCE, ISSUER, IdentityProvider
from interop.secure_kafka import SecureKafka, secure_kafka
from tests.edges.musterd import free_port

_MUSTER, _MUSTER_PASSWORD = "muster", "secret of muster"
_LISTENER: Final = "listener.name.sasl_plaintext"
_SETTINGS: Final = """
sasl.enabled.mechanisms={mechanisms}
super.users=User:ANONYMOUS;User:{root};User:{user}
connections.max.reauth.ms={lifetime_ms}
{listener}.scram-sha-512.sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required;
{listener}.oauthbearer.sasl.jaas.config=org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required;
{listener}.oauthbearer.sasl.server.callback.handler.class=\\
    org.apache.kafka.common.security.oauthbearer.OAuthBearerValidatorCallbackHandler
{listener}.oauthbearer.sasl.oauthbearer.jwks.endpoint.url={keys}
{listener}.oauthbearer.sasl.oauthbearer.expected.audience={audience}
{listener}.oauthbearer.sasl.oauthbearer.expected.issuer={issuer}
"""


class MusterdBeside(ProtectedMusterd):
    """It stands in front of `kafka`, with a listener for its broker. TLS ends here."""

    counts_tokens = False

    def __init__(self, folder: Path, protocol: str, provider: IdentityProvider, kafka: SecureKafka) -> None:
        self._kafka = kafka
        super().__init__(
            folder,
            protocol,
            provider,
            f"upstream.servers=127.0.0.1:{kafka.port}",
            f"upstream.listener.ports={free_port()}",
            "upstream.refresh.ms=200",
            f"upstream.sasl.username={_MUSTER}",
            f"upstream.sasl.password={_MUSTER_PASSWORD}",
            "upstream.unguarded.listeners=http",  # on loopback: its counters are read there
        )

    def counts(self) -> Counts:
        """Return what the broker has told of logins until now; connections are musterd's own count."""
        return told(self._kafka.log.read_text(errors="replace"), super().counts().opened)


def told(log: str, opened: int) -> Counts:
    """Read logins from the broker's log. A connection whose login has ended is closed by the broker: its client opens
    another."""
    return Counts(log.count("Successfully re-authenticated with"), log.count("Failed authentication with"), 0, opened)


@contextmanager
def brokers(folder: Path, provider: IdentityProvider) -> Iterator[SecureKafka]:
    """The Apache Kafka, until the block ends. Raises `bench.builds.NotHere`."""
    keys = f"{provider.address}/keys"
    settings = _SETTINGS.format(
        mechanisms=",".join(MECHANISMS),
        root=ROOT,
        user=USER,
        lifetime_ms=LIFETIME_MS,
        listener=_LISTENER,
        keys=keys,
        audience=AUDIENCE,
        issuer=ISSUER,
    )
    users = {_MUSTER: _MUSTER_PASSWORD, ROOT: ROOT_PASSWORD, USER: PASSWORD}
    scram = [
        f"{mechanism}=[name={name},password={password}]"
        for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512")
        for name, password in users.items()
    ]
    allowed = f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={keys}"
    with secure_kafka(
        folder, users, scram=scram, settings=settings, may_fetch=True, audits=True, jvm=(allowed,)
    ) as one:
        for kind, name in (
            (ResourceType.BROKER, "kafka-cluster"),
            (ResourceType.TOPIC, "*"),
            (ResourceType.GROUP, "*"),
        ):
            one.grant(_MUSTER, kind, name, AclOperation.DESCRIBE)
        yield one


@contextmanager
def beside(folder: Path, protocol: str, provider: IdentityProvider, kafka: SecureKafka) -> Iterator[MusterdBeside]:
    """Serve until the block ends."""
    server = MusterdBeside(folder, protocol, provider, kafka)
    try:
        yield server
    finally:
        server.end()
