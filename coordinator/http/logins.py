"""Logins of HTTP requests: Basic, with the users of Kafka's clients; Bearer, with an access token or a token of an
identity provider; or the cookie of a session, which a login opened. Without logins all callers are anonymous; acts are
recorded with the certificate of their connection."""

from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from ipaddress import ip_address
from typing import Final, NamedTuple, Protocol

from aiohttp import BasicAuth, web
from aiohttp.typedefs import Handler, Middleware

from coordinator.config.principals import certificate_text
from coordinator.http.connections import cancelled_once_lost
from coordinator.http.guard import UNGUARDED, check_proof
from coordinator.http.queries import Problem
from protocol.errors import ErrorCode
from protocol.messages import Message
from protocol.messages.node import HttpLoginReply

_REALM: Final = 'realm="musterd", charset="UTF-8"'
METRICS: Final = frozenset({"/metrics"})
OPEN_CONSOLE: Final = frozenset({"/console/login", "/console/assets/{name}"})
"""Routes of the console that are served before a login: the form and its assets."""


class Caller(NamedTuple):
    """Sender of a request: the principal, empty without logins, the host it comes from, the secret of its session, if
    it has one, and the certificate that it shows, in words."""

    principal: str
    host: str
    session: str = ""
    certificate: str = ""


class Authenticator(Protocol):
    """Checks the credentials of requests; answers HttpLoginReply."""

    async def log_in(
        self, username: str | None, password: str, host: str, *, opens_session: bool = False, certificate: str = ""
    ) -> Message:
        """Check a user and a password, or without a user a token. `certificate`: that of the connection."""

    async def show_session(self, secret: str, host: str, *, is_end: bool = False) -> Message:
        """Check the secret of a session, or end it."""


AskAs = Callable[[Message, Caller | None], Awaitable[Message]]
"""Sends the node a request as a caller; None: anonymously."""
InTime = Callable[[Awaitable[Message]], Awaitable[Message]]
"""Waits for an answer, and raises Problem if it takes too long."""

_caller: ContextVar[Caller | None] = ContextVar("caller", default=None)
_credentials: ContextVar[str] = ContextVar("credentials", default="")


def current_caller() -> Caller | None:
    """Return the caller of the request that is being served; None without a login and a certificate."""
    return _caller.get()


def current_credentials() -> str:
    """Return the Authorization header of the request that is being served; empty if it has none, or if no logins are
    required. It may be sent only to another node of the same cluster."""
    return _credentials.get()


def of_caller(ask: AskAs) -> Callable[[Message], Awaitable[Message]]:
    """Return a function that sends requests as the caller of the request that is being served."""

    async def ask_as_caller(message: Message) -> Message:
        return await ask(message, _caller.get())

    return ask_as_caller


def challenge(request: web.Request) -> str:
    """Return the WWW-Authenticate of a refusal. Browsers are not asked for Basic, since they have the form, and would
    store the password."""
    is_browser = any(name in request.headers for name in ("Sec-Fetch-Mode", "HX-Request", "Cookie"))
    return f"{'Bearer' if is_browser else 'Basic'} {_REALM}"


class HttpAuthenticator:
    """Logins of requests, and sessions in cookies."""

    def __init__(self, authenticator: Authenticator, in_time: InTime) -> None:
        self._authenticator, self._in_time = authenticator, in_time

    async def caller(self, request: web.Request) -> Caller:
        """Return the caller of the request. Raises Problem."""
        host, certificate = _private_host(request), certificate_of(request)
        given = request.headers.get("Authorization")
        if given is not None:
            reply = await self._log_in(request, *_read(given), host)
            return Caller(reply.principal, host, reply.session, certificate)
        session = request.cookies.get(_cookie_name(request))
        if session is None:
            raise Problem(401, "a login is wanted: Basic, with a user's name and password, or a token (Bearer)")
        check_proof(request.method, request.headers)
        reply = await self._show(session, host)
        if reply.error_code:
            raise Problem(401, "the session has ended: log in again")
        return Caller(reply.principal, host, session, certificate)

    async def open(self, request: web.Request, answer: web.Response, username: str | None, secret: str) -> None:
        """Log in, and open a session whose cookie goes with the answer. Raises Problem."""
        reply = await self._log_in(request, username, secret, _private_host(request), opens_session=True)
        self._set_cookie(request, answer, reply.session, reply.session_lifetime_ms // 1_000)

    async def close(self, request: web.Request, answer: web.Response) -> None:
        """End the request's session, if it has one."""
        session = request.cookies.get(_cookie_name(request))
        if session is not None:
            await self._show(session, request.remote or "", is_end=True)
        self._set_cookie(request, answer, "", 0)

    async def is_still_in(self, *, again: bool) -> bool:
        """Return whether the login of the request that is being served goes on. A session is looked up each time; a
        password or a token is checked `again` where that is due."""
        caller = _caller.get()
        if caller is not None and caller.session:
            return bool((await self._show(caller.session, caller.host)).principal)
        if caller is None or not again:
            return True
        username, secret = _read(_credentials.get())
        certificate = caller.certificate
        reply = await self._in_time(self._authenticator.log_in(username, secret, caller.host, certificate=certificate))
        assert isinstance(reply, HttpLoginReply)
        return reply.error_code is not ErrorCode.SASL_AUTHENTICATION_FAILED  # others say nothing about the login

    async def _show(self, session: str, host: str, *, is_end: bool = False) -> HttpLoginReply:
        reply = await self._in_time(self._authenticator.show_session(session, host, is_end=is_end))
        assert isinstance(reply, HttpLoginReply)
        return reply

    async def _log_in(
        self, request: web.Request, username: str | None, secret: str, host: str, *, opens_session: bool = False
    ) -> HttpLoginReply:
        with cancelled_once_lost(request):
            certificate = certificate_of(request)
            reply = await self._in_time(
                self._authenticator.log_in(username, secret, host, opens_session=opens_session, certificate=certificate)
            )
        assert isinstance(reply, HttpLoginReply)
        if reply.error_code is ErrorCode.THROTTLING_QUOTA_EXCEEDED:
            raise Problem(429, "too many logins have failed, or wait; try again later")
        if reply.error_code is ErrorCode.BROKER_NOT_AVAILABLE:
            raise Problem(503, "the cluster knows the users, and no broker of it can be asked now; try again")
        if reply.error_code:
            raise Problem(401, "wrong user or password" if username is not None else "the token is not accepted")
        return reply

    @staticmethod
    def _set_cookie(request: web.Request, answer: web.Response, session: str, age_s: int) -> None:
        answer.set_cookie(
            _cookie_name(request),
            session,
            max_age=age_s,
            path="/",
            secure=_is_secure(request),
            httponly=True,
            samesite="Strict",
        )


def logged_in(
    authentication: HttpAuthenticator,
    show_form: Callable[[web.Request, Problem], web.StreamResponse],
    open_paths: frozenset[str],
) -> Middleware:
    """Make a middleware that serves only requests with a login, except the probes and `open_paths`. A request for a
    page without a login is answered with the form."""
    served = UNGUARDED | OPEN_CONSOLE | open_paths

    @web.middleware
    async def check(request: web.Request, handler: Handler) -> web.StreamResponse:
        resource = request.match_info.route.resource
        if resource is not None and resource.canonical in served:
            return await handler(request)
        try:
            caller = await authentication.caller(request)
        except Problem as problem:
            if request.method in ("GET", "HEAD") and "text/html" in request.headers.get("Accept", ""):
                return show_form(request, problem)
            raise
        token = _caller.set(caller)
        shown = _credentials.set(request.headers.get("Authorization", ""))
        try:
            return await handler(request)
        finally:
            _credentials.reset(shown)
            _caller.reset(token)

    return check


@web.middleware
async def naming_certificates(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Serve requests without logins. What they do is recorded with their certificate, if they show one, which grants
    nothing."""
    certificate = certificate_of(request)
    if not certificate:
        return await handler(request)
    token = _caller.set(Caller("", request.remote or "", certificate=certificate))
    try:
        return await handler(request)
    finally:
        _caller.reset(token)


def certificate_of(request: web.Request) -> str:
    """Return the certificate that the request's connection shows, in words; empty without one. Call it before anything
    is awaited: a connection that has closed has none."""
    shown = request.get_extra_info("peercert")
    return certificate_text(shown["subject"], shown["serialNumber"]) if shown else ""


def is_loopback(host: str) -> bool:
    """Return whether a request from the host stays on this machine."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def _private_host(request: web.Request) -> str:
    """Return the host that the request comes from. Raises Problem if the request came unencrypted over a network."""
    host = request.remote or ""
    if not (request.secure or is_loopback(host)):
        raise Problem(403, "a password goes over TLS or loopback alone: set tls.certificate.location")
    return host


def _is_secure(request: web.Request) -> bool:
    """Return whether the browser uses TLS, up to this listener or to a proxy on this host."""
    return request.secure or request.headers.get("X-Forwarded-Proto") == "https"


def _cookie_name(request: web.Request) -> str:
    """Return the cookie's name. It contains the URL's port, since a browser sends the cookies of a host to all its
    ports. Over TLS its prefix keeps other hosts of the domain from setting such a cookie."""
    port = request.host.rpartition(":")[2]
    name = f"muster_session_{port}" if port.isascii() and port.isdecimal() else "muster_session"
    return f"__Host-{name}" if _is_secure(request) else name


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
