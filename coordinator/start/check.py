"""EDGE: `musterd --check`: checks a configuration without serving it."""

import errno
import os
from pathlib import Path

from coordinator.config.config import Config, ConfigError
from coordinator.gateway.io.cluster_identity import ClusterIdentity
from coordinator.gateway.io.security import upstream_tls
from coordinator.io.jwks import load_key_file
from coordinator.io.tls.from_config import listening_tls
from coordinator.node.build import tokens_from
from coordinator.start.accounts import naming_keys
from coordinator.start.stderr import complain


def check(config: Config) -> None:
    """Check what a start would refuse and nobody has to listen for: keys, certificates, the data folder's cluster.
    Raises ConfigError."""
    for warning in config.warnings:
        complain(f"warning: {warning}", 0)
    listening_tls(config)
    upstream_tls(config)
    if config.upstream_servers is None and (
        problem := ClusterIdentity(Path(config.data_dir)).problem_without_upstream()
    ):
        raise ConfigError(problem)
    if config.audit_log_location is not None:
        _check_writable(config.audit_log_location)
    url, verifier = config.sasl_oauthbearer_jwks_endpoint_url, tokens_from(config)
    if verifier is not None and url is not None:
        with naming_keys(url):
            load_key_file(url, verifier)
    print("musterd: the configuration can be served")


def _check_writable(path: str) -> None:
    """Check that the audit log can be opened, without making it. Raises ConfigError."""
    folder = Path(path).parent
    code = 0
    if not folder.is_dir():
        code = errno.ENOTDIR if folder.exists() else errno.ENOENT
    elif Path(path).is_dir():
        code = errno.EISDIR
    elif not os.access(path if Path(path).exists() else folder, os.W_OK):
        code = errno.EACCES
    if code:
        raise ConfigError(f"audit.log.location = {path}: {os.strerror(code)}")
