"""Events of the node. The node's only way in is `step(event, moment)`; its requests in return are the effects of
`effects.py`. An event never asks for anything, an effect never reports anything."""

from typing import dataclass_transform

import msgspec

from coordinator.accounts.sasl import LoginCheck
from coordinator.config.keys import Secret
from protocol.messages import Message


@dataclass_transform(frozen_default=True, field_specifiers=(msgspec.field,))  # subclasses inherit `frozen`
class Event(msgspec.Struct, frozen=True, gc=False):
    """Base of all events."""


class Opened(Event):
    """A client connected to the listener of `dialect`. `peer_host` is textual (`127.0.0.1`). `broker`: the id of the
    broker that the listener proxies. `peer_port` is -1 if it is unknown. `subject`: the name in its certificate, as
    `ssl` gives it; `serial`: the certificate's serial number, in hexadecimal."""

    connection: int
    dialect: str
    peer_host: str
    broker: int | None = None
    peer_port: int = -1
    subject: tuple[tuple[tuple[str, str], ...], ...] = ()
    serial: str = ""


class Received(Event):
    connection: int
    data: bytes


class Ended(Event):
    """The client has shut down its sending side of the connection; it still reads the answers."""

    connection: int


class Idle(Event):
    """No byte has moved on the connection, in either direction, for `connections.max.idle.ms`."""

    connection: int


class Lost(Event):
    """The connection is closed, by either side. No event or effect of it follows."""

    connection: int


class Woke(Event):
    """The node's next deadline has come (waking too often is harmless)."""


class Flushed(Event):
    """The flush started by `Flush` is on disk up to write-ahead position `up_to`."""

    up_to: int


class JobDone(Event):
    """The job of a `RunJob` is done. A job that fails stops the process instead: see the write rule."""

    call_id: int
    reply: object


class PasswordChecked(Event):
    """The job of a `CheckPassword` is done."""

    check_id: int
    job: LoginCheck


class Call(Event):
    """A request from inside the process (HTTP). It passes the same admission as any; the answer is a
    `Return` effect. Access rules apply to `principal` at `peer_host`; empty: without a login. `certificate`: that of
    who asked, in words."""

    call_id: int
    message: Message
    principal: str = ""
    peer_host: str = ""
    certificate: str = ""


class PasswordGiven(Event):
    """An HTTP request contained a user and a password or, with `username` None, a token: an identity provider's or an
    access token. The answer is a `Return` effect with an HttpLoginReply."""

    call_id: int
    username: str | None
    password: Secret
    peer_host: str
    opens_session: bool = False
    certificate: str = ""


class PasswordWithdrawn(Event):
    """The client of a `PasswordGiven` has disconnected, so its answer is not needed."""

    call_id: int


class SessionShown(Event):
    """An HTTP request contained the secret of a session, or asks to end the session. The answer is a `Return` effect
    with an HttpLoginReply."""

    call_id: int
    secret: Secret
    peer_host: str
    is_end: bool = False


class Stopping(Event):
    """The process is asked to end: no new work, every waiting request is answered."""
