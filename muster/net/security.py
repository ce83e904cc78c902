"""Security of connections to servers: TLS, and logins by SASL.

The names are those of librdkafka's settings, and so of all clients that are built on it.
"""

import ssl
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final, Self
from urllib.parse import unquote, urlsplit

from protocol.errors import ErrorCode
from protocol.kafka.login import OAUTHBEARER, LoginRefused, SaslClient, check_login

if TYPE_CHECKING:  # few clients use an identity provider, and the import would delay the start of all
    from muster.net.token_endpoint import TokenRequest

PROTOCOLS: Final = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
_OF_BROKERS: Final = "broker."
_HOSTNAME: Final = "ssl.endpoint.identification.algorithm"
_FIELDS: Final = {
    "security.protocol": "protocol",
    "ssl.ca.location": "ca_location",
    "ssl.certificate.location": "certificate_location",
    "ssl.key.location": "key_location",
    "ssl.key.password": "key_password",
    "sasl.mechanism": "mechanism",
    "sasl.mechanisms": "mechanism",
    "sasl.username": "username",
    "sasl.password": "password",
    "sasl.oauthbearer.token.endpoint.url": "token_url",
    "sasl.oauthbearer.client.id": "client_id",
    "sasl.oauthbearer.client.secret": "client_secret",
    "sasl.oauthbearer.scope": "scope",
    "https.ca.location": "https_ca_location",
}
NAMES: Final = (*_FIELDS, _HOSTNAME)
"""Names that a mapping may have."""
_OF_TLS: Final = ("ca_location", "certificate_location", "key_location", "key_password")
_OF_ENDPOINTS: Final = ("client_id", "client_secret", "scope", "https_ca_location")
_OF_SASL: Final = ("mechanism", "username", "password", "token_url", *_OF_ENDPOINTS)
_FILE, _ENDPOINT = "file:///", "https://"


@dataclass(frozen=True, kw_only=True)
class Security:
    """`protocol` is "PLAINTEXT", "SSL" (TLS), "SASL_PLAINTEXT" or "SASL_SSL". Locations are of PEM files; without
    `ca_location` a server is believed as the system's own certificates have it, and `ca_location` may be a folder of
    them. `certificate_location` is what we show of ourselves, its key is in `key_location` or in the same file.
    `check_hostname` False believes any server with a good certificate. `mechanism` is "PLAIN", "SCRAM-SHA-256" or
    "SCRAM-SHA-512"; or "OAUTHBEARER", with `token_url`, the address of a file (file:///...) that has a token. It is
    read at each login: whoever renews the token writes it anew. Or it is the token endpoint of an identity provider
    (https://...), which gives `client_id` with `client_secret` tokens of that `scope`, and is believed by
    `https_ca_location`, else as the system has it. Raises ValueError for what does not go together.
    """

    protocol: str = "PLAINTEXT"
    ca_location: str | None = None
    certificate_location: str | None = None
    key_location: str | None = None
    key_password: str | None = field(default=None, repr=False)
    check_hostname: bool = True
    mechanism: str | None = None
    username: str | None = None
    password: str | None = field(default=None, repr=False)
    token_url: str | None = None
    client_id: str | None = None
    client_secret: str | None = field(default=None, repr=False)
    scope: str | None = None
    https_ca_location: str | None = None

    def __post_init__(self) -> None:
        for name in ("protocol", *_OF_TLS, *_OF_SASL):
            if not isinstance(getattr(self, name), str | None):
                raise ValueError(f"{name} of security is no text")
        object.__setattr__(self, "protocol", str(self.protocol).upper())
        if self.protocol not in PROTOCOLS:
            raise ValueError(f"{self.protocol!r} is no security protocol: one of {', '.join(PROTOCOLS)} is wanted")
        if not self.is_tls:
            self._refuse(_OF_TLS, "SSL or SASL_SSL")
            if not self.check_hostname:
                raise ValueError(f"without TLS no name of a host is checked: the security protocol is {self.protocol}")
        if self.key_location and not self.certificate_location:
            raise ValueError("there is a key without its certificate: set certificate_location")
        if self.key_password and not self.certificate_location:
            raise ValueError("there is a key's password and no key: certificate_location and key_location are wanted")
        if self.wants_login:
            self._check_login()
        else:
            self._refuse(_OF_SASL, "SASL_SSL or SASL_PLAINTEXT")

    def _check_login(self) -> None:
        if self.mechanism != OAUTHBEARER:
            check_login(self.mechanism or "", self.username or "", self.password or "")
            for name in ("token_url", *_OF_ENDPOINTS):
                if getattr(self, name) is not None:
                    raise ValueError(f"{name} is for the mechanism OAUTHBEARER, and this is {self.mechanism}")
            return
        if self.username is not None or self.password is not None:
            raise ValueError("OAUTHBEARER has no username and no password: token_url says where the token is")
        url = self.token_url or ""
        if url.startswith(_ENDPOINT) and urlsplit(url).hostname:
            if not self.client_id or not self.client_secret:
                raise ValueError("a token endpoint wants a client_id and a client_secret")
        elif url.startswith(_FILE):
            for name in _OF_ENDPOINTS:
                if getattr(self, name) is not None:
                    raise ValueError(f"{name} is for a token_url of {_ENDPOINT}..., and this is of a file")
        else:
            raise ValueError(f"OAUTHBEARER needs a token_url: {_FILE}... of a file, or {_ENDPOINT}... of an endpoint")

    def _refuse(self, names: tuple[str, ...], protocols: str) -> None:
        for name in names:
            if getattr(self, name) is not None:
                raise ValueError(f"{name} is for the security protocols {protocols}, and this is {self.protocol}")

    @classmethod
    def from_config(cls, config: Mapping[str, str]) -> Self:
        """Read settings by their usual names: {"security.protocol": "SASL_SSL", "sasl.mechanism": "SCRAM-SHA-512",
        ...}. Raises ValueError, also for a name that is none of security's.
        """
        said: dict[str, object] = {}
        for name, value in config.items():
            if name == _HOSTNAME:
                said["check_hostname"] = _checks_hostname(value)
            elif name in _FIELDS:
                if said.setdefault(_FIELDS[name], value) != value:
                    raise ValueError("sasl.mechanism and sasl.mechanisms are two names of one setting, and disagree")
            else:
                raise ValueError(f"{name!r} is no setting of security; they are {', '.join(NAMES)}")
        return cls(**said)  # type: ignore[arg-type]

    @property
    def is_tls(self) -> bool:
        return self.protocol.endswith("SSL")

    @property
    def wants_login(self) -> bool:
        """True if it logs in by SASL."""
        return self.protocol.startswith("SASL")

    def login(self, nonce: str) -> SaslClient | None:
        """Return a new login; None without SASL. `nonce` as for `SaslClient`. Raises LoginRefused if there is no token,
        with a retriable error if one has been requested."""
        if not self.wants_login:
            return None
        if self.token_url is None:
            return SaslClient(self.mechanism or "", self.username or "", self.password or "", nonce)
        try:
            return SaslClient(OAUTHBEARER, "", self._token(self.token_url))
        except ValueError as wrong:
            raise LoginRefused(ErrorCode.SASL_AUTHENTICATION_FAILED, f"{self.token_url}: {wrong}") from None

    def _token(self, url: str) -> str:
        if self._token_request is None:
            return _read_token(url)
        from muster.net.token_endpoint import token_of

        return token_of(self._token_request)

    @property
    def _token_request(self) -> "TokenRequest | None":
        url = self.token_url or ""
        if not url.startswith(_ENDPOINT):
            return None
        from muster.net.token_endpoint import TokenRequest

        return TokenRequest(url, self.client_id or "", self.client_secret or "", self.scope, self.https_ca_location)

    def await_token(self, timeout_s: float) -> None:
        """Wait until there is a token. A client that does not wait retries instead."""
        if self._token_request is not None:
            from muster.net.token_endpoint import await_token

            await_token(self._token_request, timeout_s)

    def context(self) -> ssl.SSLContext | None:
        """Return the context for TLS, from the files as they are now; None without. Raises ValueError."""
        if not self.is_tls:
            return None
        if self.ca_location is None:
            context = ssl.create_default_context(ssl.Purpose.SERVER_AUTH)
        else:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            with _reading(self.ca_location, "certificates to believe servers by"):
                _load_trusted(context, self.ca_location)
        context.minimum_version = ssl.TLSVersion.TLSv1_2  # Debian's Python leaves it to OpenSSL's settings
        context.check_hostname = self.check_hostname
        if self.certificate_location is not None:
            where = self.key_location or self.certificate_location
            with _reading(f"{self.certificate_location} with the key in {where}", "a certificate and its key"):
                # Without a password OpenSSL would prompt for one at the terminal.
                context.load_cert_chain(self.certificate_location, self.key_location, self.key_password or _no_password)
        return context


PLAINTEXT: Final = Security()
SecurityLike = Security | Mapping[str, str]
"""Settings, or a mapping of their usual names."""


def read_security(given: SecurityLike | None, what: str = "security") -> Security | None:
    """Return the security that a client was given. Raises ValueError."""
    if given is None or isinstance(given, Security):
        return given
    if isinstance(given, Mapping):
        return Security.from_config(given)
    raise ValueError(f"{what} is a {type(given).__name__}: a Security is wanted, or a mapping of its settings")


def securities(config: Mapping[str, str]) -> tuple[Security | None, Security | None]:
    """Read the security of the bootstrap, and that of brokers beside it, whose names begin with "broker."; None without
    settings. Raises ValueError.
    """
    ours = {name: value for name, value in config.items() if not name.startswith(_OF_BROKERS)}
    theirs = {name.removeprefix(_OF_BROKERS): value for name, value in config.items() if name.startswith(_OF_BROKERS)}
    return (Security.from_config(ours) if ours else None, Security.from_config(theirs) if theirs else None)


def of_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the settings of the variables, as a mapping for `securities`: MUSTER_SECURITY_PROTOCOL is
    "security.protocol", MUSTER_BROKER_SASL_PASSWORD "broker.sasl.password".
    """
    return {name: environment[one] for one, name in _VARIABLES.items() if environment.get(one)}


def variable(name: str) -> str:
    """Return the variable of a setting."""
    return "MUSTER_" + name.upper().replace(".", "_")


_VARIABLES: Final = {variable(name): name for name in (*NAMES, *(_OF_BROKERS + name for name in NAMES))}
VARIABLES: Final = tuple(_VARIABLES)
"""Variables that `of_environment` reads."""


def _checks_hostname(value: str) -> bool:
    """Parse the setting: librdkafka's values; the Java client disables it by an empty text."""
    said = str(value).lower()
    if said not in {"https", "none", ""}:
        raise ValueError(f"{_HOSTNAME} is {value!r}: https or none is wanted")
    return said == "https"


def _read_token(url: str) -> str:
    path = unquote(urlsplit(url).path)
    try:
        return Path(path).read_text("utf-8").strip()
    except OSError as error:
        raise ValueError(f"there is no token: {error.strerror}") from None


@contextmanager
def _reading(where: str, what: str) -> Iterator[None]:
    """Turn errors of a file into ValueErrors."""
    try:
        yield
    except OSError as error:  # includes ssl's own errors
        raise ValueError(f"{where}: cannot be read as {what}: {error.strerror or error}") from None


def _load_trusted(context: ssl.SSLContext, where: str) -> None:
    try:
        context.load_verify_locations(cafile=where)
    except IsADirectoryError:
        context.load_verify_locations(capath=where)


def _no_password() -> str:
    raise ssl.SSLError("the key is encrypted: key_password is wanted")
