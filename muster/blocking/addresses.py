"""Where to knock first: "host:port[,host:port]"."""

from muster.events import NodeAddress

DEFAULT_PORT = 9390


def parse_bootstrap(bootstrap: str) -> tuple[NodeAddress, ...]:
    """The addresses named, in order. Raises ValueError with a sentence for what is no address."""
    return tuple(_parse(one.strip()) for one in bootstrap.split(",") if one.strip()) or _nothing(bootstrap)


def _parse(text: str) -> NodeAddress:
    host, colon, port = text.rpartition(":")
    if not colon:
        return NodeAddress(text, DEFAULT_PORT)
    if not host or not port.isdecimal() or not 0 < int(port) < 65_536:
        raise ValueError(f"{text!r} is no address: HOST:PORT is wanted, with a port of 1 to 65535")
    return NodeAddress(host.removeprefix("[").removesuffix("]"), int(port))


def _nothing(bootstrap: str) -> tuple[NodeAddress, ...]:
    raise ValueError(f"bootstrap is {bootstrap!r}: HOST:PORT[,HOST:PORT] is wanted, say 127.0.0.1:{DEFAULT_PORT}")
