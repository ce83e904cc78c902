"""Keys of the configuration: type, default, range and sentence of each, read off the fields of `Config`; and values as
text."""

import re
from collections.abc import Callable, Mapping
from enum import StrEnum
from ipaddress import ip_address
from types import UnionType
from typing import Annotated, Any, ClassVar, Final, Self, get_args, get_origin, get_type_hints

from msgspec import Meta, Struct
from msgspec.structs import fields

INT_MAX: Final = 2**31 - 1  # Kafka's INT and LONG: the ranges of its keys
LONG_MAX: Final = 2**63 - 1
LISTENERS: Final = ("native", "kafka", "http")
HIDDEN: Final = "(hidden)"


class ConfigError(Exception):
    """The start is refused; the text is one sentence for the person who started it."""


Wrong = Callable[[str, str], ConfigError]
"""Makes the error of a key from what is allowed for it."""


class ParsedText(Struct, frozen=True):
    """Base of values that are parsed from a text, which may be empty. `allowed` describes the texts."""

    allowed: ClassVar[str]

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse the text; ValueError when it is not allowed."""
        raise NotImplementedError


class Address(Struct, frozen=True):
    """A host and a port. An IPv6 host is kept without its brackets."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @classmethod
    def parse(cls, text: str) -> "Address":
        """Parse `HOST:PORT` or `[HOST]:PORT`; ValueError for anything else."""
        found = re.fullmatch(r"(?:\[([0-9A-Fa-f:.]+)\]|([^\s:\[\]/=,]+)):([0-9]{1,5})", text)
        if found is None or int(found[3]) > 65_535:
            raise ValueError(text)
        return cls(found[1] or found[2], int(found[3]))


class Addresses(Struct, frozen=True):
    """One or more addresses, with commas between them."""

    all: tuple[Address, ...]

    def __str__(self) -> str:
        return ",".join(map(str, self.all))

    @property
    def host_ports(self) -> list[tuple[str, int]]:
        """Return hosts and ports, as sockets take them."""
        return [(one.host, one.port) for one in self.all]

    @classmethod
    def parse(cls, text: str) -> "Addresses":
        """Parse addresses; ValueError for an invalid one, or port 0."""
        found = tuple(Address.parse(one.strip()) for one in text.split(","))
        if any(address.port == 0 for address in found):
            raise ValueError(text)
        return cls(found)


class Ports(Struct, frozen=True):
    """Range of ports from `first` to `last`, both included."""

    first: int
    last: int

    def __str__(self) -> str:
        return f"{self.first}-{self.last}"

    @classmethod
    def parse(cls, text: str) -> "Ports":
        """Parse `FIRST-LAST`, or one port alone; ValueError for anything else."""
        found = re.fullmatch(r"([0-9]{1,5})(?:-([0-9]{1,5}))?", text)
        if found is None:
            raise ValueError(text)
        first, last = int(found[1]), int(found[2] or found[1])
        if not 1 <= first <= last <= 65_535:
            raise ValueError(text)
        return cls(first, last)


class ListenerKinds(Struct, frozen=True):
    """Some of `choices`."""

    choices: ClassVar[tuple[str, ...]] = LISTENERS
    all: tuple[str, ...]

    def __str__(self) -> str:
        return ",".join(self.all)

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse listener kinds; ValueError for an unknown one."""
        found = tuple(one.strip() for one in text.split(","))
        if any(one not in cls.choices for one in found):
            raise ValueError(text)
        return cls(found)


class RebalanceProtocols(ListenerKinds, frozen=True):
    """Kinds of groups that clients of Kafka's protocol may form; `classic` is always among them."""

    choices: ClassVar[tuple[str, ...]] = ("classic", "consumer")

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse the names; ValueError for an unknown one, or without `classic`."""
        found = super().parse(text)
        if "classic" not in found.all:
            raise ValueError(text)
        return found


class AssignorNames(ListenerKinds, frozen=True):
    """Server-side assignors; the first is the default."""

    choices: ClassVar[tuple[str, ...]] = ("uniform", "range")


class Hosts(ParsedText, frozen=True):
    """Host names, with commas between them; the list may be empty."""

    allowed: ClassVar[str] = "NAME[,NAME...] without ports, or nothing"
    all: tuple[str, ...] = ()

    def __str__(self) -> str:
        return ",".join(self.all)

    @classmethod
    def parse(cls, text: str) -> "Hosts":
        """Parse host names; ValueError for an invalid one, or one with a port."""
        if not text.strip():
            return cls()
        found = tuple(one.strip().lower() for one in text.split(","))
        if not all(re.fullmatch(r"[a-z0-9_]([a-z0-9_.-]{0,251}[a-z0-9_])?", one) for one in found):
            raise ValueError(text)
        return cls(found)


class Names(ParsedText, frozen=True):
    """Names with commas between them, in order, each once; there may be none."""

    allowed: ClassVar[str] = "NAME[,NAME...] or nothing"
    all: frozenset[str] = frozenset()

    def __str__(self) -> str:
        return ",".join(sorted(self.all))

    @classmethod
    def parse(cls, text: str) -> "Names":
        """ValueError for a name that is empty."""
        if not text.strip():
            return cls()
        found = frozenset(one.strip() for one in text.split(","))
        if "" in found:
            raise ValueError(text)
        return cls(found)


class UnguardedKinds(ListenerKinds, frozen=True):
    """Listeners that do not proxy a broker."""

    choices: ClassVar[tuple[str, ...]] = ("native", "http")


class Secret(str):
    """A text that is never shown, in whatever object it is printed."""

    __slots__ = ()

    def __repr__(self) -> str:
        return HIDDEN


class SecurityProtocol(StrEnum):
    """Security protocols, by Kafka's names."""

    PLAINTEXT = "PLAINTEXT"
    SSL = "SSL"
    SASL_PLAINTEXT = "SASL_PLAINTEXT"
    SASL_SSL = "SASL_SSL"

    @property
    def is_tls(self) -> bool:
        return self.endswith("SSL")

    @property
    def is_sasl(self) -> bool:
        return self.startswith("SASL")


class SaslMechanism(StrEnum):
    """SASL mechanisms of `protocol.kafka.login`."""

    PLAIN = "PLAIN"
    SCRAM_SHA_256 = "SCRAM-SHA-256"
    SCRAM_SHA_512 = "SCRAM-SHA-512"


class NameCheck(StrEnum):
    """Check of the host name in a certificate, in Kafka's words."""

    HTTPS = "https"
    NONE = "none"


class MigrationPolicy(StrEnum):
    """Conversions of a group with members, and whether classic members may be in a consumer group
    (docs/spec/consumer-group-protocol.md#13.1)."""

    BIDIRECTIONAL = "bidirectional"
    UPGRADE = "upgrade"
    DOWNGRADE = "downgrade"
    DISABLED = "disabled"

    @classmethod
    def _missing_(cls, value: object) -> "MigrationPolicy | None":
        """Find the policy in whatever case it is written."""
        return next((one for one in cls if one == str(value).lower()), None)

    @property
    def allows_upgrade(self) -> bool:
        """True if a classic group with members may become a consumer group."""
        return self in (MigrationPolicy.BIDIRECTIONAL, MigrationPolicy.UPGRADE)

    @property
    def allows_downgrade(self) -> bool:
        """True if a consumer group with members may become a classic group."""
        return self in (MigrationPolicy.BIDIRECTIONAL, MigrationPolicy.DOWNGRADE)


class UpstreamOffsets(StrEnum):
    """Treatment of the offsets that a group has at the cluster when its first member comes here."""

    ADOPT = "adopt"
    IGNORE = "ignore"


class BackwardCommits(StrEnum):
    """Treatment of commits below the offset before."""

    ALLOWED = "allowed"
    FLAGGED = "flagged"
    REJECTED = "rejected"


class Key(Struct, frozen=True):
    """One key: `name` as people write it, `field` as in `Config`, and its sentence in the sample file."""

    name: str
    field: str
    type: type
    default: Any
    about: str
    section: str | None
    lowest: int | None = None
    highest: int | None = None

    @property
    def environment(self) -> str:
        """Environment variable that sets it."""
        return "MUSTER_" + self.field.upper()

    @property
    def allowed(self) -> str:
        """Description of the allowed values, to be followed by "is allowed"."""
        if self.type is int:
            return f"a whole number from {self.lowest} to {self.highest}"
        if self.type is float:
            return "a number from 0 to 1"
        if self.type is bool:
            return "true or false"
        if self.type is str or self.type is Secret:
            return "a text that is not empty"
        if issubclass(self.type, StrEnum):
            *most, last = self.type
            return f"{', '.join(most)} or {last}" if most else last
        if issubclass(self.type, ListenerKinds):
            return f"some of {','.join(self.type.choices)}"
        if issubclass(self.type, ParsedText):
            return self.type.allowed
        if self.type is Addresses:
            return "HOST:PORT[,HOST:PORT...] with ports from 1 to 65535"
        if self.type is Ports:
            return "FIRST-LAST or one port, from 1 to 65535"
        if self.name in LISTENERS:
            return "HOST:PORT or off"
        return "HOST:PORT with a port from 1 to 65535"

    def show(self, value: object) -> str:
        """Format a value as on the command line."""
        if value is None:
            return "off" if self.name in LISTENERS else "(not set)"
        if self.type is Secret:
            return HIDDEN
        return str(value).lower() if isinstance(value, bool) else str(value)

    def parse(self, raw: object) -> Any:
        """Parse a text, or a typed value of a TOML file. ValueError when it is not allowed."""
        if self.type is int:
            value = _whole_number(raw)
            assert self.lowest is not None and self.highest is not None
            if not self.lowest <= value <= self.highest:
                raise ValueError(raw)
            return value
        if self.type is float:
            return _ratio(raw)
        if self.type is bool:
            return _truth(raw)
        if issubclass(self.type, ParsedText) and isinstance(raw, str):
            return self.type.parse(raw)
        if not isinstance(raw, str) or not raw.strip():
            raise ValueError(raw)
        if issubclass(self.type, str):  # a text, or one of a few
            return self.type(raw)
        if self.type is Addresses or self.type is Ports or issubclass(self.type, ListenerKinds):
            return self.type.parse(raw.strip())
        if raw == "off" and self.name in LISTENERS:
            return None
        address = Address.parse(raw)
        if address.port == 0 and self.name not in LISTENERS:
            raise ValueError(raw)
        return address


def _whole_number(raw: object) -> int:
    if isinstance(raw, str) and re.fullmatch(r"[+-]?[0-9]{1,19}", raw.strip()):
        return int(raw)
    if isinstance(raw, int) and not isinstance(raw, bool):
        return raw
    raise ValueError(raw)


def _ratio(raw: object) -> float:
    if isinstance(raw, (int, float)) and not isinstance(raw, bool):
        raw = str(raw)
    if not isinstance(raw, str) or not re.fullmatch(r"(0|1)(\.[0-9]{0,9})?", raw.strip()) or float(raw) > 1:
        raise ValueError(raw)
    return float(raw)


def _truth(raw: object) -> bool:
    if isinstance(raw, bool):
        return raw
    if isinstance(raw, str) and raw.lower() in ("true", "false"):
        return raw.lower() == "true"
    raise ValueError(raw)


def whole(about: str, lowest: int = 0, highest: int = INT_MAX, section: str | None = None) -> Meta:
    """Annotate a whole number from `lowest` to `highest`, both allowed."""
    return Meta(ge=lowest, le=highest, description=about, extra={"section": section} if section else None)


def about(sentence: str, section: str | None = None) -> Meta:
    """Annotate a field with any value of its type."""
    return Meta(description=sentence, extra={"section": section} if section else None)


def keys_of(config: type[Struct]) -> Mapping[str, Key]:
    """Return the keys of a Struct: its fields that carry a `Meta`, in order, then inherited ones; `_` in a field is `.`
    in a key."""
    hints = get_type_hints(config, include_extras=True)
    own_first = sorted(fields(config), key=lambda field: field.name not in config.__annotations__)
    found = (_key(field.name, field.default, hints[field.name]) for field in own_first)
    return {key.name: key for key in found if key is not None}


def _key(field: str, default: Any, hint: Any) -> Key | None:
    if get_origin(hint) is not Annotated:
        return None
    bare, meta = get_args(hint)[:2]
    assert isinstance(meta, Meta) and meta.description is not None
    if get_origin(bare) is UnionType:
        (bare,) = (kind for kind in get_args(bare) if kind is not type(None))
    section = (meta.extra or {}).get("section")
    lowest, highest = (None if bound is None else int(bound) for bound in (meta.ge, meta.le))
    return Key(field.replace("_", "."), field, bare, default, meta.description, section, lowest, highest)


def is_loopback(host: str) -> bool:
    """Return whether the host is this machine, whatever names resolve to."""
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False  # a name may resolve to anything
