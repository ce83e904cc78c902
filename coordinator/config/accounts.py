"""Keys of accounts: logins of clients, principals, access control lists."""

from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import Annotated, Any, ClassVar, Final
from urllib.parse import urlsplit

from coordinator.config.keys import ParsedText, SaslMechanism, Secret, Wrong, about, is_loopback, whole
from coordinator.config.principals import parse_rules
from coordinator.config.webhooks import WebhookConfig


class AuthorizerClass(StrEnum):
    """Authorizers, by Kafka's names."""

    STANDARD = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"


_OAUTHBEARER: Final = "OAUTHBEARER"
_MECHANISMS: Final = (*map(str, SaslMechanism), _OAUTHBEARER)


class Audiences(ParsedText, frozen=True):
    """Audiences of tokens, with commas between them."""

    allowed: ClassVar[str] = "NAME[,NAME...] or nothing"
    all: tuple[str, ...] = ()

    def __str__(self) -> str:
        return ",".join(self.all)

    @classmethod
    def parse(cls, text: str) -> "Audiences":
        """Parse names."""
        return cls(tuple(one.strip() for one in text.split(",") if one.strip()))


class Mechanisms(ParsedText, frozen=True):
    """SASL mechanisms, with commas between them; the list may be empty."""

    allowed: ClassVar[str] = f"some of {','.join(_MECHANISMS)}, or nothing"
    all: tuple[str, ...] = ()

    def __str__(self) -> str:
        return ",".join(self.all)

    @classmethod
    def parse(cls, text: str) -> "Mechanisms":
        """Parse names of mechanisms; ValueError for an unknown one."""
        found = tuple(dict.fromkeys(one.strip() for one in text.split(","))) if text.strip() else ()
        if not set(_MECHANISMS).issuperset(found):
            raise ValueError(text)
        return cls(found)


class Principals(ParsedText, frozen=True):
    """Principals, with semicolons between them, as in Kafka: names in certificates have commas."""

    allowed: ClassVar[str] = "User:NAME[;User:NAME...] or nothing"
    all: frozenset[str] = frozenset()

    def __str__(self) -> str:
        return ";".join(sorted(self.all))

    @classmethod
    def parse(cls, text: str) -> "Principals":
        """Parse principals; ValueError for one without a type and a name."""
        found = frozenset(one.strip() for one in text.split(";") if one.strip())
        if not all(all(one.partition(":")[::2]) for one in found):
            raise ValueError(text)
        return cls(found)


class AccountsConfig(WebhookConfig, frozen=True, kw_only=True):
    """Accounts' keys of `Config`."""

    sasl_enabled_mechanisms: Annotated[
        Mechanisms,
        about(
            "Mechanisms by which clients log in, natively and over HTTP too; with none no login is required. "
            "Passwords of PLAIN and HTTP are checked against credentials of SCRAM.",
            section="Logins and access rules",
        ),
    ] = Mechanisms()
    initial_admin: Annotated[
        Secret | None,
        about("NAME:PASSWORD of a user with all rights, made if there is no user yet; better in the environment."),
    ] = None
    connections_max_reauth_ms: Annotated[
        int, whole("How long a login lasts; clients log in again on the same connection. 0: for ever.")
    ] = 0
    connection_failed_authentication_delay_ms: Annotated[
        int, whole("Delay after which a failed login is answered and its connection closed.", 0, 60_000)
    ] = 100
    http_metrics_without_login: Annotated[
        bool, about("Serve /metrics without a login; all other pages of HTTP need one.")
    ] = False
    ssl_principal_mapping_rules: Annotated[
        str, about("Rules that turn the name in a client's certificate into its principal, as Kafka has them.")
    ] = "DEFAULT"
    authorizer_class_name: Annotated[
        AuthorizerClass | None,
        about("Enables access control lists. Default: every client that may connect may do everything."),
    ] = None
    super_users: Annotated[Principals, about("Principals that may do everything, with semicolons between them.")] = (
        Principals()
    )
    allow_everyone_if_no_acl_found: Annotated[
        bool, about("Allow everything on resources that no access control list names.")
    ] = False

    sasl_oauthbearer_jwks_endpoint_url: Annotated[
        str | None,
        about(
            "Public keys by which tokens of OAUTHBEARER are checked, a JSON Web Key Set: https://..., file:///..., or "
            "http:// of a loopback address."
        ),
    ] = None
    sasl_oauthbearer_jwks_endpoint_refresh_ms: Annotated[
        int, whole("How often these keys are read again; a token with an unknown key has them read at once.", 1_000)
    ] = 3_600_000
    sasl_oauthbearer_jwks_endpoint_retry_backoff_ms: Annotated[
        int, whole("Pause after keys could not be read; twice as long each time.", 1)
    ] = 100
    sasl_oauthbearer_jwks_endpoint_retry_backoff_max_ms: Annotated[int, whole("Longest of these pauses.", 1)] = 10_000
    sasl_oauthbearer_expected_audience: Annotated[
        Audiences, about("Audiences that tokens may be for; without one, tokens for any audience are accepted.")
    ] = Audiences()
    sasl_oauthbearer_expected_issuer: Annotated[str | None, about("Issuer that tokens must be from.")] = None
    sasl_oauthbearer_clock_skew_seconds: Annotated[
        int, whole("Tolerance for the clock of the identity provider, in seconds.", 0, 3_600)
    ] = 30
    sasl_oauthbearer_sub_claim_name: Annotated[str, about("Claim of a token that names the user.")] = "sub"
    audit_log_location: Annotated[
        str | None,
        about(
            "File for logins, refusals and administration, a JSON object a line. Default: no such log.",
            section="Audit log",
        ),
    ] = None
    audit_log_max_bytes: Annotated[
        int, whole("Bytes of that file after which it becomes NAME.1 and a new one begins.", 65_536, 1 << 31)
    ] = 64 << 20
    audit_log_max_backups: Annotated[int, whole("Older files of the audit log that are kept.", 1, 1_000)] = 10

    @property
    def wants_logins(self) -> bool:
        """True if clients must log in."""
        return bool(self.sasl_enabled_mechanisms.all)

    @property
    def accepts_tokens(self) -> bool:
        """True if clients may log in by tokens of an identity provider."""
        return _OAUTHBEARER in self.sasl_enabled_mechanisms.all

    @property
    def accepts_passwords(self) -> bool:
        """True if users may log in by passwords."""
        return any(one != _OAUTHBEARER for one in self.sasl_enabled_mechanisms.all)

    @property
    def has_accounts(self) -> bool:
        """True if the node asks who clients are, or holds them to access rules."""
        return self.wants_logins or self.authorizer_class_name is not None


_NEEDS_AUTHORIZER: Final = ("super.users", "allow.everyone.if.no.acl.found")
_NEEDS_LOGINS: Final = ("connections.max.reauth.ms", "http.metrics.without.login", "initial.admin")
_OF_CLUSTER: Final = ("sasl.enabled.mechanisms", "authorizer.class.name")


def check_accounts(config: AccountsConfig, chosen: Mapping[str, Any], wrong: Wrong, *, is_beside: bool) -> None:
    """Check the keys that depend on each other: one without effect would be believed to protect something."""

    def is_set(key: str) -> bool:
        field = key.replace(".", "_")
        return bool(getattr(config, field) != getattr(_DEFAULTS, field))

    if is_beside:
        for key in _OF_CLUSTER:
            if is_set(key):
                raise wrong(key, "in front of a cluster its own users and access control lists rule; take it out")
    if config.authorizer_class_name is None:
        for key in _NEEDS_AUTHORIZER:
            if is_set(key):
                raise wrong(key, "there are no access control lists without authorizer.class.name")
    if not config.wants_logins:
        for key in _NEEDS_LOGINS:
            if is_set(key):
                raise wrong(key, "there are no logins without sasl.enabled.mechanisms")
    _check_tokens(config, is_set, wrong)
    _check_texts(config, wrong)


def _check_tokens(config: AccountsConfig, is_set: Callable[[str], bool], wrong: Wrong) -> None:
    url = config.sasl_oauthbearer_jwks_endpoint_url
    if not config.accepts_tokens:
        for key in (name.replace("_", ".") for name in config.__struct_fields__ if name.startswith("sasl_oauthbearer")):
            if is_set(key):
                raise wrong(key, "sasl.enabled.mechanisms has no OAUTHBEARER")
    elif url is None:
        raise wrong("sasl.enabled.mechanisms", "OAUTHBEARER needs sasl.oauthbearer.jwks.endpoint.url")
    elif not _is_trusted(url):
        raise wrong(
            "sasl.oauthbearer.jwks.endpoint.url", "https://, file:/// or http:// of a loopback address is allowed"
        )


def token_warnings(config: AccountsConfig) -> tuple[str, ...]:
    """Warn of a check of tokens that lets in more than one might think."""
    if not config.accepts_tokens or config.sasl_oauthbearer_expected_audience.all:
        return ()
    return ("without sasl.oauthbearer.expected.audience a token that was made for any other service is accepted here",)


def _is_trusted(url: str) -> bool:
    """Return whether nobody on the way can put other keys in the place of those at the address."""
    try:
        parts = urlsplit(url)
        host = parts.hostname or ""
    except ValueError:
        return False
    if parts.scheme == "http":
        return is_loopback(host)
    return (parts.scheme == "https" and bool(host)) or (parts.scheme == "file" and not host and parts.path != "")


def _check_texts(config: AccountsConfig, wrong: Wrong) -> None:
    try:
        parse_rules(config.ssl_principal_mapping_rules)
    except ValueError as error:
        raise wrong("ssl.principal.mapping.rules", str(error)) from None
    admin = config.initial_admin
    if admin is not None and not all(admin.partition(":")[::2]):
        raise wrong("initial.admin", "NAME:PASSWORD is allowed")


_DEFAULTS: Final = AccountsConfig()
