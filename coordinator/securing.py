"""EDGE: from keys to what secures connections. What cannot be used stops the start, with a sentence."""

from coordinator.config import Config, ConfigError
from coordinator.config_keys import NameCheck
from coordinator.tls import OwnCertificate, PemFile, TlsRefused
from coordinator.tls_listening import ListeningTls
from coordinator.upstream.link import Login
from coordinator.upstream.tls import UpstreamTls


def listening_tls(config: Config) -> ListeningTls | None:
    """For the listeners that speak TLS, if any does. Raises ConfigError."""
    own = _own("tls", config.tls_certificate_location, config.tls_key_location, config.tls_key_password)
    if own is None:
        return None
    try:
        return ListeningTls(own, _file("tls.client.ca.location", config.tls_client_ca_location))
    except TlsRefused as refused:
        raise ConfigError(str(refused)) from None


def upstream_tls(config: Config) -> UpstreamTls | None:
    """For connections to the brokers, if they are to be secured. Raises ConfigError."""
    if not config.upstream_protocol.is_tls:
        return None
    own = _own(
        "upstream.ssl",
        config.upstream_ssl_certificate_location,
        config.upstream_ssl_key_location,
        config.upstream_ssl_key_password,
    )
    ca = _file("upstream.ssl.ca.location", config.upstream_ssl_ca_location)
    checks_names = config.upstream_ssl_endpoint_identification_algorithm is NameCheck.HTTPS
    try:
        return UpstreamTls(own, ca, checks_names=checks_names)
    except TlsRefused as refused:
        raise ConfigError(str(refused)) from None


def upstream_login(config: Config) -> Login | None:
    """Who we are to the brokers."""
    username, password = config.upstream_sasl_username, config.upstream_sasl_password
    if username is None or password is None:
        return None
    return Login(username, password, config.upstream_sasl_mechanism)


def _own(prefix: str, chain: str | None, key: str | None, password: str | None) -> OwnCertificate | None:
    if chain is None:
        return None
    return OwnCertificate(
        PemFile(f"{prefix}.certificate.location", chain),
        PemFile(f"{prefix}.certificate.location" if key is None else f"{prefix}.key.location", key or chain),
        f"{prefix}.key.password",
        password,
    )


def _file(setting: str, path: str | None) -> PemFile | None:
    return None if path is None else PemFile(setting, path)
