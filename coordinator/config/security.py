"""Keys of encryption and authentication: TLS of our listeners, TLS and SASL towards the brokers."""

from collections.abc import Mapping
from typing import Annotated, Any

from coordinator.config.accounts import AccountsConfig
from coordinator.config.keys import (
    ListenerKinds,
    NameCheck,
    SaslMechanism,
    Secret,
    SecurityProtocol,
    Wrong,
    about,
)
from protocol.kafka.login import check_login


class SecurityConfig(AccountsConfig, frozen=True, kw_only=True):
    """Security keys of `Config`. Files are PEM; the start checks that they can be used, not this module."""

    # TLS of our listeners.
    tls_certificate_location: Annotated[
        str | None,
        about(
            "File of this daemon's certificate and those that signed it (PEM): with it the listeners use TLS, 1.2 or "
            "newer. It and the files below are read again when they change.",
            section="TLS of our listeners",
        ),
    ] = None
    tls_key_location: Annotated[
        str | None, about("File of the certificate's private key (PEM). Default: the certificate's file.")
    ] = None
    tls_key_password: Annotated[
        Secret | None, about("Password of the private key; better in the environment than in a file.")
    ] = None
    tls_client_ca_location: Annotated[
        str | None,
        about("File of certificates (PEM): clients must show a certificate that one of these signed."),
    ] = None
    tls_listeners: Annotated[
        ListenerKinds, about("Listeners with TLS, if there is a certificate; listeners of brokers follow kafka.")
    ] = ListenerKinds(("native", "kafka", "http"))

    # Authentication to the brokers.
    upstream_security_protocol: Annotated[
        SecurityProtocol | None,
        about(
            "Security of connections to the brokers, on clients' connections too. Default: SASL_PLAINTEXT with "
            "upstream.sasl.username, else PLAINTEXT.",
            section="Security of connections to the brokers",
        ),
    ] = None
    upstream_ssl_ca_location: Annotated[
        str | None,
        about("File of the authorities (PEM) that must have signed brokers' certificates. Default: the system's."),
    ] = None
    upstream_ssl_endpoint_identification_algorithm: Annotated[
        NameCheck, about("Whether a broker's certificate must name the host of its address.")
    ] = NameCheck.HTTPS
    upstream_ssl_certificate_location: Annotated[
        str | None,
        about("File of the certificate (PEM) to present to brokers, on clients' connections too."),
    ] = None
    upstream_ssl_key_location: Annotated[
        str | None, about("File of its private key (PEM). Default: the certificate's file.")
    ] = None
    upstream_ssl_key_password: Annotated[
        Secret | None, about("Password of that private key; better in the environment than in a file.")
    ] = None
    upstream_sasl_mechanism: Annotated[SaslMechanism, about("Mechanism by which this node logs in at the brokers.")] = (
        SaslMechanism.PLAIN
    )
    upstream_sasl_username: Annotated[
        str | None,
        about(
            "User of this node at brokers that require a login; a client must then have logged in at its broker "
            "before it may send requests about groups."
        ),
    ] = None
    upstream_sasl_password: Annotated[
        Secret | None, about("Its password; better in the environment than in a file.")
    ] = None

    def speaks_tls(self, kind: str) -> bool:
        """Return true if the listener `native`, `kafka` or `http` speaks TLS."""
        return self.tls_certificate_location is not None and kind in self.tls_listeners.all

    def asks_who(self, kind: str) -> bool:
        """Return true if the listener requires a client certificate."""
        return self.speaks_tls(kind) and self.tls_client_ca_location is not None

    def is_closed(self, kind: str) -> bool:
        """Return true if the listener lets in only clients that say who they are."""
        return self.asks_who(kind) or (self.wants_logins and (kind != "http" or self.speaks_tls(kind)))

    @property
    def upstream_protocol(self) -> SecurityProtocol:
        """Security protocol in force towards the brokers."""
        if self.upstream_security_protocol is not None:
            return self.upstream_security_protocol
        has_name = self.upstream_sasl_username is not None
        return SecurityProtocol.SASL_PLAINTEXT if has_name else SecurityProtocol.PLAINTEXT


_DEFAULTS = SecurityConfig()


def check_security(config: SecurityConfig, chosen: Mapping[str, Any], wrong: Wrong) -> None:
    """Check the security keys that depend on each other. `chosen` are the keys that were given."""
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
    """Refuse keys of the prefix that have no effect: their author would believe a listener to be protected."""
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
    """Warn of allowed settings with surprising consequences."""
    lends_its_name = (
        config.upstream_protocol is SecurityProtocol.SSL and config.upstream_ssl_certificate_location is not None
    )
    if not lends_its_name or config.asks_who("kafka"):
        return ()
    sentence = (
        "all clients have the principal of upstream.ssl.certificate.location at the brokers, without a login here: "
        "tls.client.ca.location lets in only those with a certificate"
    )
    return (sentence,)
