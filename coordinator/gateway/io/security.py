"""EDGE: make TLS and logins towards the brokers from the configuration's keys."""

from coordinator.config.config import Config, ConfigError
from coordinator.config.keys import NameCheck
from coordinator.gateway.io.broker_client import Login
from coordinator.gateway.io.tls import UpstreamTls
from coordinator.io.tls.contexts import TlsRefused
from coordinator.io.tls.from_config import own_certificate, pem_file


def upstream_tls(config: Config) -> UpstreamTls | None:
    """For connections to the brokers, if they are to be secured. Raises ConfigError."""
    if not config.upstream_protocol.is_tls:
        return None
    own = own_certificate(
        "upstream.ssl",
        config.upstream_ssl_certificate_location,
        config.upstream_ssl_key_location,
        config.upstream_ssl_key_password,
    )
    ca = pem_file("upstream.ssl.ca.location", config.upstream_ssl_ca_location)
    checks_names = config.upstream_ssl_endpoint_identification_algorithm is NameCheck.HTTPS
    try:
        return UpstreamTls(own, ca, checks_names=checks_names)
    except TlsRefused as refused:
        raise ConfigError(str(refused)) from None


def upstream_login(config: Config) -> Login | None:
    """The login of Muster at the brokers."""
    username, password = config.upstream_sasl_username, config.upstream_sasl_password
    if username is None or password is None:
        return None
    return Login(username, password, config.upstream_sasl_mechanism)
