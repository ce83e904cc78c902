"""Where to knock first, and in which language: "host:port[,host:port]", or "kafka://host:port[,host:port]"."""

from collections.abc import Mapping
from typing import Final, NamedTuple

from muster.dialects import Dialect
from muster.events import NodeAddress

_BETWEEN: Final = "://"


class Bootstrap(NamedTuple):
    """Nodes to begin with, and what they and all that they tell of speak."""

    addresses: tuple[NodeAddress, ...]
    dialect: Dialect = Dialect.NATIVE


def parse_bootstrap(bootstrap: str, dialect: str | Dialect | None = None) -> Bootstrap:
    """The addresses named, in order; the dialect is `dialect`, or what stands before "://", or native. Raises
    ValueError with a sentence for what is no address, and for two dialects that differ.
    """
    if not isinstance(bootstrap, str):
        raise ValueError(f"bootstrap is {bootstrap!r}: a text is wanted, HOST:PORT[,HOST:PORT]")
    scheme, between, rest = bootstrap.strip().rpartition(_BETWEEN)
    named = _dialect(scheme) if between else None
    wanted = named if dialect is None else _dialect(dialect)
    if named not in {None, wanted}:
        raise ValueError(f"bootstrap is {bootstrap!r}, and dialect is {dialect!r}: say it once")
    spoken = wanted or Dialect.NATIVE
    addresses = tuple(_parse(one.strip(), spoken) for one in rest.split(",") if one.strip())
    if not addresses:
        raise ValueError(
            f"bootstrap is {bootstrap!r}: HOST:PORT[,HOST:PORT] is wanted, say 127.0.0.1:{spoken.default_port}"
        )
    return Bootstrap(addresses, spoken)


def _dialect(name: str | Dialect) -> Dialect:
    try:
        return Dialect(name)
    except ValueError:
        known = " or ".join(repr(one.value) for one in Dialect)
        raise ValueError(f"{name!r} is no dialect: {known} is wanted") from None


def _parse(text: str, dialect: Dialect) -> NodeAddress:
    host, colon, port = text.rpartition(":")
    if not colon:
        return NodeAddress(text, dialect.default_port)
    if not host or not port.isdecimal() or not 0 < int(port) < 65_536:
        raise ValueError(f"{text!r} is no address: HOST:PORT is wanted, with a port of 1 to 65535")
    return NodeAddress(host.removeprefix("[").removesuffix("]"), int(port))


def cannot_connect(failures: Mapping[NodeAddress, OSError | str], dialect: Dialect) -> str:
    """The sentence for people: each address tried and why it failed, and once what to look at."""
    tried = "; ".join(f"{address}: {_why(error)}" for address, error in failures.items())
    return f"cannot connect to {tried}. {dialect.advice}"


def _why(error: OSError | str) -> str:
    return error if isinstance(error, str) else error.strerror or str(error)
