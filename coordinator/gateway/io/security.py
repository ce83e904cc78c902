"""EDGE: build TLS and credentials for the brokers from configuration keys."""

from coordinator.config.config import Config, ConfigError
from coordinator.config.keys import NameCheck
from coordinator.gateway.io.broker_client import BrokerLogin
from coordinator.gateway.io.tls import UpstreamTls
from coordinator.io.tls.contexts import TlsRefused
from coordinator.io.tls.from_config import own_certificate, pem_file


def upstream_tls(config: Config) -> UpstreamTls | None:
    """Return TLS to the brokers; None if it is off. Raises ConfigError."""
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


def nodes_tls(config: Config) -> UpstreamTls | None:
    """Return TLS to the HTTP listeners of other nodes, which have this node's configuration; None if they use
    plaintext. This node presents its listeners' certificate, and trusts the CA of client certificates. Raises
    ConfigError."""
    if not config.speaks_tls("http"):
        return None
    own = own_certificate("tls", config.tls_certificate_location, config.tls_key_location, config.tls_key_password)
    try:
        return UpstreamTls(own, pem_file("tls.client.ca.location", config.tls_client_ca_location))
    except TlsRefused as refused:
        raise ConfigError(str(refused)) from None


def upstream_login(config: Config) -> BrokerLogin | None:
    """Return the credentials of Muster at the brokers; None without `upstream.sasl.*`."""
    username, password = config.upstream_sasl_username, config.upstream_sasl_password
    if username is None or password is None:
        return None
    return BrokerLogin(username, password, config.upstream_sasl_mechanism)
