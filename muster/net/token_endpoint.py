"""EDGE: tokens of an identity provider, by the credentials of a client (RFC 6749, section 4.4). A thread requests them,
so that no event loop and no heartbeat waits for the provider; a login without a token yet is retried."""

import json
import os
import ssl
import threading
import time
from base64 import b64encode
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Final, NamedTuple, NoReturn
from urllib.error import HTTPError
from urllib.parse import urlencode
from urllib.request import HTTPRedirectHandler, HTTPSHandler, Request, build_opener

from muster.net.condition import LockedCondition
from protocol.errors import ErrorCode
from protocol.kafka.login import LoginRefused

_TIMEOUT_S: Final = 10.0
_PAUSE_S: Final = 1.0
"""Pause after a failure."""
_RENEWED_AT: Final = 0.8
"""Part of a token's lifetime after which the next one is requested, if it was used."""
_LIFETIME_S: Final = 60.0
"""Lifetime of a token without `expires_in`, which is optional."""
_MOST_BYTES: Final = 1 << 17
_SERVER_ERROR: Final = 500
_TRY_AGAIN: Final = (408, 429)
"""Request Timeout, Too Many Requests."""


class TokenRequest(NamedTuple):
    """Endpoint, and the parameters of the request. `ca_location`: trusted certificates, by default those of the
    system."""

    url: str
    client_id: str
    client_secret: str
    scope: str | None = None
    ca_location: str | None = None


def token_of(request: TokenRequest) -> str:
    """Return a token that has not expired. Raises LoginRefused, with a retriable error if a token may come later."""
    return _endpoint(request, os.getpid()).token()


def await_token(request: TokenRequest, timeout_s: float) -> None:
    """Wait until there is a token, or it is certain that none will come."""
    _endpoint(request, os.getpid()).wait(timeout_s)


class _TokenRefused(Exception):
    """The provider refuses a token, or its certificate is not trusted."""


class _Endpoint:
    """The newest token of one endpoint."""

    def __init__(self, request: TokenRequest) -> None:
        self._request = request
        self._changed = LockedCondition()
        self._token = ""
        self._ends_s = self._next_s = 0.0
        self._is_asking = self._is_used = False
        self._failure = self._pending = LoginRefused(
            ErrorCode.NETWORK_EXCEPTION, f"{request.url}: a token is on its way"
        )

    def token(self) -> str:
        with self._changed.lock:
            self._is_used = True
            now_s = time.monotonic()
            if now_s >= self._next_s:
                self._begin()
            if now_s < self._ends_s:
                return self._token
            raise LoginRefused(self._failure.error_code, str(self._failure))

    def wait(self, timeout_s: float) -> None:
        ends_s = time.monotonic() + timeout_s
        with self._changed.lock:
            while (left_s := ends_s - time.monotonic()) > 0:
                try:
                    self.token()
                except LoginRefused as refused:
                    if not refused.error_code.retriable:
                        return
                else:
                    return
                self._changed.wait(min(left_s, _PAUSE_S))

    def _begin(self) -> None:
        if not self._is_asking:
            self._is_asking = True
            threading.Thread(target=self._ask, name="muster-token", daemon=True).start()

    def _ask(self) -> None:
        try:
            token, lifetime_s = _fetch(self._request)
        except Exception as error:  # noqa: BLE001 - each must be told to who waits, and none may end the thread before
            with self._changed.lock:
                code = ErrorCode.SASL_AUTHENTICATION_FAILED if _is_final(error) else ErrorCode.NETWORK_EXCEPTION
                self._failure = LoginRefused(code, f"{self._request.url}: there is no token: {_sentence(error)}")
                self._is_asking, self._next_s = False, time.monotonic() + _PAUSE_S
                self._is_used = time.monotonic() < self._ends_s  # otherwise the next login requests one
                self._ask_later(_PAUSE_S)
                self._changed.notify_all()
            return
        with self._changed.lock:
            now_s = time.monotonic()
            self._token, self._ends_s = token, now_s + lifetime_s
            self._is_asking, self._next_s = False, now_s + lifetime_s * _RENEWED_AT
            self._is_used, self._failure = False, self._pending
            self._ask_later(lifetime_s * _RENEWED_AT)
            self._changed.notify_all()

    def _ask_later(self, delay_s: float) -> None:
        timer = threading.Timer(delay_s, self._renew)
        timer.daemon = True
        timer.start()

    def _renew(self) -> None:
        """Request the next token before this one expires. An unused token is left to expire."""
        with self._changed.lock:
            if self._is_used and time.monotonic() >= self._next_s:
                self._begin()


@lru_cache(maxsize=64)
def _endpoint(request: TokenRequest, _process: int) -> _Endpoint:
    """Return the endpoint's state, shared by all clients of a process, since a fork does not copy threads."""
    return _Endpoint(request)


class _NoRedirects(HTTPRedirectHandler):
    """Treats a redirection as a failure, since the secret must not be sent elsewhere."""

    def redirect_request(self, *_given: Any) -> None:
        return None


def _fetch(request: TokenRequest) -> tuple[str, float]:
    """Request a token; return it and its lifetime."""
    context = ssl.create_default_context(cafile=request.ca_location)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    login = b64encode(f"{request.client_id}:{request.client_secret}".encode()).decode()
    asked = {"grant_type": "client_credentials"} | ({} if request.scope is None else {"scope": request.scope})
    headers = {"Authorization": f"Basic {login}", "Accept": "application/json"}
    opener = build_opener(HTTPSHandler(context=context), _NoRedirects())
    post = Request(request.url, urlencode(asked).encode(), headers)  # noqa: S310 - `Security` admits https alone
    with opener.open(post, timeout=_TIMEOUT_S) as answer:
        text = answer.read(_MOST_BYTES + 1)
    if len(text) > _MOST_BYTES:
        _refuse("its answer is too long")
    try:
        said = json.loads(text)
    except ValueError:
        _refuse("its answer is no JSON")
    return _read(said) if isinstance(said, Mapping) else _refuse("its answer has no access_token")


def _read(said: Mapping[str, Any]) -> tuple[str, float]:
    token, lifetime_s = said.get("access_token"), said.get("expires_in", _LIFETIME_S)
    if not isinstance(token, str) or not token or not token.isascii() or not token.isprintable():
        _refuse("its answer has no access_token")
    try:
        return token, max(1.0, min(float(lifetime_s), 86_400.0))
    except (TypeError, ValueError):
        _refuse("its expires_in is no number")


def _refuse(why: str) -> NoReturn:
    raise _TokenRefused(why)


def _is_final(error: Exception) -> bool:
    """Return true if a retry would fail until something is changed."""
    if isinstance(error, HTTPError):
        return error.code < _SERVER_ERROR and error.code not in _TRY_AGAIN
    reason = getattr(error, "reason", error)
    return isinstance(reason, _TokenRefused | ssl.SSLCertVerificationError | FileNotFoundError)


def _sentence(error: Exception) -> str:
    if isinstance(error, HTTPError):
        return f"it answers {error.code} {error.reason}"
    return str(getattr(error, "reason", error))
