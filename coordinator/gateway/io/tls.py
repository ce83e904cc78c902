"""EDGE: TLS to the brokers, and in words what becomes of a connection to one."""

import asyncio
import ssl
from collections.abc import Awaitable, Callable
from typing import TypeVar

from coordinator.io.tls.contexts import OwnCertificate, PemFile, Renewed, in_words, trust

T = TypeVar("T")
_UNREACHABLE = (OSError, TimeoutError, ValueError, OverflowError, TypeError)
"""What comes of connecting to an address that may be anything: a broker told it. The last three are names and ports
that are none."""
_PROTOCOL = "upstream.security.protocol"
_NO_TLS = frozenset(
    {"WRONG_VERSION_NUMBER", "UNKNOWN_PROTOCOL", "HTTP_REQUEST", "RECORD_LAYER_FAILURE", "PACKET_LENGTH_TOO_LONG"}
)
_WRONG_NAME = frozenset({62, 64})
"""X509_V_ERR_HOSTNAME_MISMATCH and X509_V_ERR_IP_ADDRESS_MISMATCH."""


class UpstreamTls:
    """How brokers are believed, and who we are to them. `checks_names`: a certificate must be for the host that is
    connected to."""

    def __init__(self, own: OwnCertificate | None, ca: PemFile | None, *, checks_names: bool = True) -> None:
        """`ca` None: whom the system trusts. Raises TlsRefused."""
        self._own = own
        self._ca = ca
        self._checks_names = checks_names
        files = (ca, *((own.chain, own.key) if own is not None else ()))
        self._renewed = Renewed(tuple(file for file in files if file is not None), self._make)

    def context(self) -> ssl.SSLContext:
        """For the next connection."""
        return self._renewed.context()

    def reread(self) -> None:
        """Use what the files hold now, for connections to come."""
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
    """There is no connection; the text says where to, and why."""


async def dial(
    connect: Callable[..., Awaitable[T]], host: str, port: int, tls: ssl.SSLContext | None, timeout_s: float
) -> T:
    """What `connect` makes of the address: `asyncio.open_connection`, or a loop's `create_connection` of a protocol.
    Raises Unreachable."""
    try:
        if "\0" in host:  # C takes such a name for a shorter one, and uvloop's TLS for a mistake of ours
            raise ValueError("no host has such a name")
        async with asyncio.timeout(timeout_s):
            return await connect(host=host, port=port, ssl=tls, server_hostname=None if tls is None else host)
    except _UNREACHABLE as error:
        raise Unreachable(f"{host}:{port}: {why(error, is_tls=tls is not None)}") from None


def why(error: BaseException, *, is_tls: bool) -> str:
    """Why there is no connection to a broker, or no more, in a sentence for whoever set it up."""
    if isinstance(error, ssl.SSLCertVerificationError):
        if error.verify_code in _WRONG_NAME:
            return f"its certificate is for another host: {error.verify_message}"
        return f"its certificate is not trusted: {error.verify_message} (upstream.ssl.ca.location)"
    if isinstance(error, ssl.SSLError):
        return _why_no_tls(error)
    if is_tls and isinstance(error, (ConnectionResetError, ConnectionAbortedError)):
        return f"it hung up instead of speaking TLS ({_PROTOCOL})"
    return str(error) or "no connection in time"


def _why_no_tls(error: ssl.SSLError) -> str:
    reason = error.reason or ""
    if reason in _NO_TLS:
        return f"it does not speak TLS there ({_PROTOCOL})"
    if "CERTIFICATE_REQUIRED" in reason:
        return "it wants to see a certificate of ours (upstream.ssl.certificate.location)"
    if "ALERT" in reason and ("CERTIFICATE" in reason or "UNKNOWN_CA" in reason):
        return (
            f"it refuses our certificate, or that there is none: {in_words(error)} (upstream.ssl.certificate.location)"
        )
    return f"TLS failed: {in_words(error)}"
