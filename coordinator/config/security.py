"""The keys of who may read along and who is who: TLS of our listeners, TLS and SASL towards the brokers."""

from collections.abc import Callable, Mapping
from typing import Annotated, Any

from msgspec import Struct

from coordinator.config.keys import (
    ConfigError,
    ListenerKinds,
    NameCheck,
    SaslMechanism,
    Secret,
    SecurityProtocol,
    about,
)
from protocol.kafka.login import check_login


class SecurityConfig(Struct, frozen=True, kw_only=True):
    """Part of `Config`. Files are PEM; that they can be used is seen at the start, not here."""

    # TLS of our listeners.
    tls_certificate_location: Annotated[
        str | None,
        about(
            "File of this daemon's certificate and those that signed it (PEM): with it the listeners speak TLS, 1.2 or "
            "newer. It and the files below are read anew when they change.",
            section="TLS of our listeners",
        ),
    ] = None
    tls_key_location: Annotated[
        str | None, about("File of the certificate's private key (PEM). Left out: it stands in the certificate's file.")
    ] = None
    tls_key_password: Annotated[
        Secret | None, about("What opens the private key; better in the environment than in a file.")
    ] = None
    tls_client_ca_location: Annotated[
        str | None,
        about("File of certificates (PEM): clients must show a certificate that one of these signed."),
    ] = None
    tls_listeners: Annotated[
        ListenerKinds, about("Which listeners speak TLS once there is a certificate; those of brokers go with kafka.")
    ] = ListenerKinds(("native", "kafka", "http"))

    # Who we are to the brokers.
    upstream_security_protocol: Annotated[
        SecurityProtocol | None,
        about(
            "How the brokers are spoken to, on clients' connections too. Left out: SASL_PLAINTEXT with "
            "upstream.sasl.username, else PLAINTEXT.",
            section="Security of connections to the brokers",
        ),
    ] = None
    upstream_ssl_ca_location: Annotated[
        str | None,
        about("File of the certificates (PEM) that brokers' must be signed by. Left out: those the system trusts."),
    ] = None
    upstream_ssl_endpoint_identification_algorithm: Annotated[
        NameCheck, about("Whether a broker's certificate must be for the host it is reached at.")
    ] = NameCheck.HTTPS
    upstream_ssl_certificate_location: Annotated[
        str | None,
        about("File of a certificate (PEM) to show to the brokers, on clients' connections too: they are then ours."),
    ] = None
    upstream_ssl_key_location: Annotated[
        str | None, about("File of its private key (PEM). Left out: it stands in the certificate's file.")
    ] = None
    upstream_ssl_key_password: Annotated[
        Secret | None, about("What opens that private key; better in the environment than in a file.")
    ] = None
    upstream_sasl_mechanism: Annotated[SaslMechanism, about("How this node tells the brokers who it is.")] = (
        SaslMechanism.PLAIN
    )
    upstream_sasl_username: Annotated[
        str | None,
        about(
            "Who this node is to the brokers, where they want a login; clients must then have been let in by their "
            "broker before they may ask for groups."
        ),
    ] = None
    upstream_sasl_password: Annotated[
        Secret | None, about("Its password; better in the environment than in a file.")
    ] = None

    def speaks_tls(self, kind: str) -> bool:
        """Whether the listener `native`, `kafka` or `http` does."""
        return self.tls_certificate_location is not None and kind in self.tls_listeners.all

    def asks_who(self, kind: str) -> bool:
        """Whether only clients with a certificate are let in there."""
        return self.speaks_tls(kind) and self.tls_client_ca_location is not None

    @property
    def upstream_protocol(self) -> SecurityProtocol:
        """The one that holds."""
        if self.upstream_security_protocol is not None:
            return self.upstream_security_protocol
        has_name = self.upstream_sasl_username is not None
        return SecurityProtocol.SASL_PLAINTEXT if has_name else SecurityProtocol.PLAINTEXT


_DEFAULTS = SecurityConfig()
Wrong = Callable[[str, str], ConfigError]


def check_security(config: SecurityConfig, chosen: Mapping[str, Any], wrong: Wrong) -> None:
    """What none of these keys can be asked alone. `chosen` are those that somebody gave."""
    if config.tls_certificate_location is None:
        _none_of("tls.", config, chosen, wrong, "there is no TLS without tls.certificate.location")
    protocol = config.upstream_protocol
    if not protocol.is_tls:
        _none_of("upstream.ssl.", config, chosen, wrong, f"upstream.security.protocol {protocol} has no TLS")
    if not protocol.is_sasl:
        _none_of("upstream.sasl.", config, chosen, wrong, f"upstream.security.protocol {protocol} has no login")
    if config.upstream_ssl_certificate_location is None:
        _none_of("upstream.ssl.key.", config, chosen, wrong, "there is no upstream.ssl.certificate.location it is of")
    if protocol.is_sasl:
        _check_login(config, wrong)


def _none_of(prefix: str, config: SecurityConfig, chosen: Mapping[str, Any], wrong: Wrong, why: str) -> None:
    """What somebody set to no effect may leave open what they believe to be closed."""
    for key in chosen:
        field = key.replace(".", "_")
        if key.startswith(prefix) and getattr(config, field) != getattr(_DEFAULTS, field):
            raise wrong(key, why)


def _check_login(config: SecurityConfig, wrong: Wrong) -> None:
    username, password = config.upstream_sasl_username, config.upstream_sasl_password
    if username is None or password is None:
        if username is password:
            why = "a login needs upstream.sasl.username and upstream.sasl.password (MUSTER_UPSTREAM_SASL_PASSWORD)"
            raise wrong("upstream.security.protocol", why)
        if password is None:
            raise wrong("upstream.sasl.username", "upstream.sasl.password (MUSTER_UPSTREAM_SASL_PASSWORD) is missing")
        raise wrong("upstream.sasl.password", "upstream.sasl.username is missing")
    try:
        check_login(config.upstream_sasl_mechanism, username, password)
    except ValueError as error:
        raise wrong("upstream.sasl.username", str(error)) from None


def security_warnings(config: SecurityConfig) -> tuple[str, ...]:
    """What is allowed, and may surprise."""
    lends_its_name = (
        config.upstream_protocol is SecurityProtocol.SSL and config.upstream_ssl_certificate_location is not None
    )
    if not lends_its_name or config.asks_who("kafka"):
        return ()
    sentence = (
        "every client is to the brokers who upstream.ssl.certificate.location says, and none is asked who it is: "
        "tls.client.ca.location lets in only those with a certificate"
    )
    return (sentence,)
