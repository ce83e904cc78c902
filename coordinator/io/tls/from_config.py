"""EDGE: builds the listeners' TLS from the configuration's keys. Unusable files prevent the start, with a sentence."""

from coordinator.config.config import Config, ConfigError
from coordinator.io.tls.contexts import OwnCertificate, PemFile, TlsRefused
from coordinator.io.tls.listening import ListeningTls


def listening_tls(config: Config) -> ListeningTls | None:
    """Return TLS for the listeners that speak it; None without a certificate. Raises ConfigError."""
    own = own_certificate("tls", config.tls_certificate_location, config.tls_key_location, config.tls_key_password)
    if own is None:
        return None
    try:
        return ListeningTls(own, pem_file("tls.client.ca.location", config.tls_client_ca_location))
    except TlsRefused as refused:
        raise ConfigError(str(refused)) from None


def own_certificate(prefix: str, chain: str | None, key: str | None, password: str | None) -> OwnCertificate | None:
    if chain is None:
        return None
    return OwnCertificate(
        PemFile(f"{prefix}.certificate.location", chain),
        PemFile(f"{prefix}.certificate.location" if key is None else f"{prefix}.key.location", key or chain),
        f"{prefix}.key.password",
        password,
    )


def pem_file(setting: str, path: str | None) -> PemFile | None:
    return None if path is None else PemFile(setting, path)
