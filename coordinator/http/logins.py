"""Logins of HTTP requests: Basic, with the users of Kafka's clients, or a token of an identity provider (Bearer).
Without logins everybody is anonymous."""

from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from ipaddress import ip_address
from typing import Final, NamedTuple

from aiohttp import BasicAuth, web
from aiohttp.typedefs import Handler, Middleware

from coordinator.http.guard import UNGUARDED
from coordinator.http.queries import Problem
from protocol.errors import ErrorCode
from protocol.messages import Message
from protocol.messages.node import LoginReply

CHALLENGE: Final = 'Basic realm="musterd", charset="UTF-8"'
"""WWW-Authenticate of a refusal."""
METRICS: Final = frozenset({"/metrics"})


class Caller(NamedTuple):
    """Sender of a request: the principal, and the host it comes from."""

    principal: str
    host: str


LogIn = Callable[[str | None, str, str], Awaitable[Message]]
"""Checks a user and a password, or without a user a token, given from a host; answers LoginReply."""
AskAs = Callable[[Message, Caller | None], Awaitable[Message]]
"""Asks the node in a caller's name; None: anonymously."""

_caller: ContextVar[Caller | None] = ContextVar("caller", default=None)


def of_caller(ask: AskAs) -> Callable[[Message], Awaitable[Message]]:
    """Return a function that asks in the name of the request that is being served."""

    async def ask_as_caller(message: Message) -> Message:
        return await ask(message, _caller.get())

    return ask_as_caller


def logged_in(log_in: LogIn, open_paths: frozenset[str] = frozenset()) -> Middleware:
    """Make a middleware that serves requests after their login alone, except the probes and `open_paths`."""
    served = UNGUARDED | open_paths

    @web.middleware
    async def check(request: web.Request, handler: Handler) -> web.StreamResponse:
        if request.path in served:
            return await handler(request)
        caller = await _log_in(request, log_in)
        token = _caller.set(caller)
        try:
            return await handler(request)
        finally:
            _caller.reset(token)

    return check


async def _log_in(request: web.Request, log_in: LogIn) -> Caller:
    host = request.remote or ""
    if not (request.secure or _is_loopback(host)):
        raise Problem(403, "a password goes over TLS or loopback alone: set tls.certificate.location")
    given = request.headers.get("Authorization")
    if given is None:
        raise Problem(401, "a login is wanted: Basic, with a user's name and password, or a token (Bearer)")
    username, secret = _read(given)
    reply = await log_in(username, secret, host)
    assert isinstance(reply, LoginReply)
    if reply.error_code is ErrorCode.THROTTLING_QUOTA_EXCEEDED:
        raise Problem(429, "too many logins have failed, or wait; try again later")
    if not reply.done:
        raise Problem(401, "wrong user or password" if username is not None else "the token is not accepted")
    return Caller(reply.auth_bytes.decode() if username is None else f"User:{username}", host)


def _read(given: str) -> tuple[str | None, str]:
    """Return the user and the password, or no user and the token. Raises Problem."""
    scheme, _, token = given.partition(" ")
    if scheme.lower() == "bearer" and token.strip():
        return None, token.strip()
    try:
        user = BasicAuth.decode(given, "utf-8")
    except ValueError:
        raise Problem(401, "this Authorization cannot be read: Basic is wanted, with a name and a password") from None
    return user.login, user.password


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False
