"""The bootstrap servers, and their dialect: "host:port[,host:port]", or "kafka://host:port[,host:port]"."""

from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from membership.events import NodeAddress
from muster.net.dialects import ClientDialect, ClientSession, dialect_of, open_session
from muster.net.dialects.handshake_errors import no_login
from muster.net.security import PLAINTEXT, Security, SecurityLike, read_security

_BETWEEN: Final = "://"
_BESIDE: Final = (
    "It is a broker beside musterd, at which records are read and written: is it running, and can the address that it "
    "advertises be reached from here? (With kafka://HOST:PORT of musterd's Kafka listener everything goes through "
    "musterd.)"
)


class Bootstrap(NamedTuple):
    """The bootstrap servers, the dialect of the cluster's nodes, and the security of connections. `broker_security` is
    for brokers with Kafka's protocol behind a native bootstrap.
    """

    addresses: tuple[NodeAddress, ...]
    dialect: ClientDialect = ClientDialect.NATIVE
    security: Security = PLAINTEXT
    broker_security: Security = PLAINTEXT

    def security_of(self, node: NodeAddress) -> Security:
        """Return the security of connections to a node."""
        return self.security if dialect_of(node, self.dialect) is self.dialect else self.broker_security

    def open_session(self, node: NodeAddress, client_id: str, nonce: Callable[[], str]) -> ClientSession:
        """Return the session of a new connection; `nonce` returns a new nonce for each login."""
        security = self.security_of(node)
        logins = (lambda: security.login(nonce())) if security.wants_login else no_login
        return open_session(dialect_of(node, self.dialect), client_id, logins=logins)

    def cannot_connect(self, node: NodeAddress, error: BaseException) -> str:
        """Same as the function `cannot_connect`, for one node."""
        what = error if isinstance(error, OSError) else str(error)
        return cannot_connect({node: what}, dialect_of(node, self.dialect))


def parse_bootstrap(
    bootstrap: str,
    dialect: str | ClientDialect | None = None,
    security: SecurityLike | None = None,
    broker_security: SecurityLike | None = None,
) -> Bootstrap:
    """Parse the addresses, in order. The dialect is `dialect`, or the scheme before "://", or native. Brokers behind
    the bootstrap have its security, unless `broker_security` is given. Raises ValueError with a sentence for an invalid
    address, two different dialects, or an invalid security.
    """
    if not isinstance(bootstrap, str):
        raise ValueError(f"bootstrap is {bootstrap!r}: a text is wanted, HOST:PORT[,HOST:PORT]")
    scheme, between, rest = bootstrap.strip().rpartition(_BETWEEN)
    named = _dialect(scheme) if between else None
    wanted = named if dialect is None else _dialect(dialect)
    if named not in {None, wanted}:
        raise ValueError(f"bootstrap is {bootstrap!r}, and dialect is {dialect!r}: say it once")
    spoken = wanted or ClientDialect.NATIVE
    addresses = tuple(_parse(one.strip(), spoken) for one in rest.split(",") if one.strip())
    if not addresses:
        raise ValueError(
            f"bootstrap is {bootstrap!r}: HOST:PORT[,HOST:PORT] is wanted, say 127.0.0.1:{spoken.default_port}"
        )
    return Bootstrap(addresses, spoken, *_securities(security, broker_security))


def _securities(security: SecurityLike | None, broker_security: SecurityLike | None) -> tuple[Security, Security]:
    ours = read_security(security) or PLAINTEXT
    theirs = read_security(broker_security, "broker_security")
    for one in (ours, theirs):
        if one is not None:
            one.context()  # reports missing files at once
    return ours, theirs or ours


def _dialect(name: str | ClientDialect) -> ClientDialect:
    try:
        return ClientDialect(name)
    except ValueError:
        known = " or ".join(repr(one.value) for one in ClientDialect)
        raise ValueError(f"{name!r} is no dialect: {known} is wanted") from None


def _parse(text: str, dialect: ClientDialect) -> NodeAddress:
    host, colon, port = text.rpartition(":")
    if not colon:
        return NodeAddress(text, dialect.default_port)
    if not host or not port.isdecimal() or not 0 < int(port) < 65_536:
        raise ValueError(f"{text!r} is no address: HOST:PORT is wanted, with a port of 1 to 65535")
    return NodeAddress(host.removeprefix("[").removesuffix("]"), int(port))


def cannot_connect(failures: Mapping[NodeAddress, OSError | str], dialect: ClientDialect) -> str:
    """Return the error message: each address with its failure, and advice."""
    tried = "; ".join(f"{address}: {_why(error)}" for address, error in failures.items())
    return f"cannot connect to {tried}. {_BESIDE if any(node.speaks for node in failures) else dialect.advice}"


def _why(error: OSError | str) -> str:
    return error if isinstance(error, str) else error.strerror or str(error)
