"""EDGE: TLS to the brokers, and messages for failed connections."""

import asyncio
import ssl
from collections.abc import Awaitable, Callable
from typing import TypeVar

from coordinator.io.tls.contexts import OwnCertificate, PemFile, Renewed, in_words, trust

T = TypeVar("T")
CONNECT_ERRORS = (OSError, TimeoutError, ValueError, OverflowError, TypeError)
"""Errors of connecting to an address that a broker or node sent. The last three are for invalid names and ports."""
_PROTOCOL_KEY = "upstream.security.protocol"
_NOT_TLS_REASONS = frozenset(
    {"WRONG_VERSION_NUMBER", "UNKNOWN_PROTOCOL", "HTTP_REQUEST", "RECORD_LAYER_FAILURE", "PACKET_LENGTH_TOO_LONG"}
)
_HOST_MISMATCH_CODES = frozenset({62, 64})
"""X509_V_ERR_HOSTNAME_MISMATCH and X509_V_ERR_IP_ADDRESS_MISMATCH."""


class UpstreamTls:
    """Trusted certificates of brokers or other nodes, and Muster's own certificate. `checks_names`: a certificate must
    be for the host that is connected to."""

    def __init__(self, own: OwnCertificate | None, ca: PemFile | None, *, checks_names: bool = True) -> None:
        """Load the files. `ca` None: the system's trust store. Raises TlsRefused."""
        self._own = own
        self._ca = ca
        self._checks_names = checks_names
        files = (ca, *((own.chain, own.key) if own is not None else ()))
        self._renewed = Renewed(tuple(file for file in files if file is not None), self._make)

    def context(self) -> ssl.SSLContext:
        """Return the context of the next connection."""
        return self._renewed.context()

    def reread(self) -> None:
        """Reload the files for connections to come."""
        self._renewed.reread()

    def _make(self) -> ssl.SSLContext:
        if self._ca is None:
            context = ssl.create_default_context()
        else:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            trust(context, self._ca)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.check_hostname = self._checks_names
        if self._own is not None:
            self._own.load_into(context)
        return context


class Unreachable(Exception):
    """No connection could be opened; the text says where to, and why."""


async def dial(
    connect: Callable[..., Awaitable[T]], host: str, port: int, tls: ssl.SSLContext | None, timeout_s: float
) -> T:
    """Return the result of `connect` (`asyncio.open_connection`, or a loop's `create_connection` of a protocol) for
    this address. Raises Unreachable."""
    try:
        if "\0" in host:  # C would cut the name short, and uvloop's TLS would raise a programming error
            raise ValueError("no host has such a name")
        async with asyncio.timeout(timeout_s):
            return await connect(host=host, port=port, ssl=tls, server_hostname=None if tls is None else host)
    except CONNECT_ERRORS as error:
        raise Unreachable(f"{host}:{port}: {describe_failure(error, is_tls=tls is not None)}") from None


def describe_failure(error: BaseException, *, is_tls: bool) -> str:
    """Describe, for the operator, why a connection to a broker failed."""
    if isinstance(error, ssl.SSLCertVerificationError):
        if error.verify_code in _HOST_MISMATCH_CODES:
            return f"its certificate is for another host: {error.verify_message}"
        return f"its certificate is not trusted: {error.verify_message} (upstream.ssl.ca.location)"
    if isinstance(error, ssl.SSLError):
        return _describe_tls_failure(error)
    if is_tls and isinstance(error, (ConnectionResetError, ConnectionAbortedError)):
        return f"it hung up instead of speaking TLS ({_PROTOCOL_KEY})"
    return str(error) or "no connection in time"


def _describe_tls_failure(error: ssl.SSLError) -> str:
    reason = error.reason or ""
    if reason in _NOT_TLS_REASONS:
        return f"it does not speak TLS there ({_PROTOCOL_KEY})"
    if "CERTIFICATE_REQUIRED" in reason:
        return "it requires a client certificate (upstream.ssl.certificate.location)"
    if "ALERT" in reason and ("CERTIFICATE" in reason or "UNKNOWN_CA" in reason):
        return (
            f"it refuses our certificate, or that there is none: {in_words(error)} (upstream.ssl.certificate.location)"
        )
    return f"TLS failed: {in_words(error)}"
