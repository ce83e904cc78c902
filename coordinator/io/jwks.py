"""EDGE: the public keys of an identity provider: a JSON Web Key Set in a file, or at an address.

They are read at the start, again at an interval, and soon after a token named an unknown key, since providers
replace their keys. While they cannot be read, the previous keys stay in use.
"""

import asyncio
import urllib.error
import urllib.request
from typing import IO, Any, Final
from urllib.parse import unquote, urlsplit

import structlog

from coordinator.accounts.oauth import TokenVerifier
from coordinator.config.accounts import AccountsConfig
from coordinator.io.job_runners import JobThread

log = structlog.get_logger()

_MOST_BYTES: Final = 1 << 20
_TIMEOUT_S: Final = 10.0
_LEAST_BETWEEN_S: Final = 1.0
"""Least time between two readings caused by tokens with unknown keys, which any client can send."""


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """Refuses redirects, since the trust in tokens rests on the configured address of the keys."""

    def redirect_request(self, *_given: Any) -> None:
        return None


def read_keys(url: str) -> bytes:
    """Return the content at the address. Raises OSError."""
    if url.startswith("file:"):
        with open(unquote(urlsplit(url).path), "rb") as file:
            return _limited(file)
    opener = urllib.request.build_opener(_NoRedirects)
    with opener.open(url, timeout=_TIMEOUT_S) as answer:
        return _limited(answer)


def _limited(source: IO[bytes]) -> bytes:
    found = source.read(_MOST_BYTES + 1)
    if len(found) > _MOST_BYTES:
        raise OSError(f"there are more than {_MOST_BYTES} bytes")
    return found


def load_keys(url: str, verifier: TokenVerifier) -> str:
    """Give the verifier the keys at the address; return the problem, empty if there is none."""
    try:
        verifier.set_keys(read_keys(url))
    except urllib.error.URLError as error:
        return str(error.reason)
    except OSError as error:
        return error.strerror or str(error)
    except ValueError as error:
        return str(error)
    return ""


def load_key_file(url: str, verifier: TokenVerifier) -> None:
    """Give the verifier the keys of a file; do nothing for another address. Raises ValueError with a sentence."""
    if url.startswith("file:") and (problem := load_keys(url, verifier)):
        raise ValueError(problem)


class KeyReader:
    """Keeps the keys of a verifier up to date. At the start an unusable file is an error, while an unreachable address
    is retried."""

    def __init__(self, config: AccountsConfig, verifier: TokenVerifier) -> None:
        assert config.sasl_oauthbearer_jwks_endpoint_url is not None
        self._url = config.sasl_oauthbearer_jwks_endpoint_url
        self._every_s = config.sasl_oauthbearer_jwks_endpoint_refresh_ms / 1_000
        self._backoff_s = config.sasl_oauthbearer_jwks_endpoint_retry_backoff_ms / 1_000
        self._most_backoff_s = config.sasl_oauthbearer_jwks_endpoint_retry_backoff_max_ms / 1_000
        self._verifier = verifier
        self._loop = asyncio.get_running_loop()
        self._thread = JobThread("jwks")
        self._timer: asyncio.TimerHandle | None = None
        self._is_reading = self._is_stopped = False
        self._read_at_s = float("-inf")
        self._failures = 0
        verifier.on_unknown_key = self._wanted

    def start(self) -> None:
        """Read the keys: a file now, an address soon. Raises ValueError with a sentence about a file."""
        load_key_file(self._url, self._verifier)
        self._read()

    def stop(self) -> None:
        """Stop, at the latest at the end of a reading under way."""
        self._is_stopped = True
        if self._timer is not None:
            self._timer.cancel()
        self._thread.submit(None)

    def _wanted(self) -> None:
        """Request a reading soon; may be called in any thread."""
        if not self._is_stopped:
            self._loop.call_soon_threadsafe(self._read_if_rested)

    def _read_if_rested(self) -> None:
        wait_s = self._read_at_s + _LEAST_BETWEEN_S - self._loop.time()
        if self._is_reading or self._is_stopped:
            return
        if wait_s <= 0:
            self._read()
        elif self._timer is None or self._timer.when() > self._loop.time() + wait_s:
            self._arm(wait_s)

    def _arm(self, wait_s: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._loop.call_later(wait_s, self._read)

    def _read(self) -> None:
        self._is_reading, self._timer = True, None

        def attempt() -> None:
            problem = load_keys(self._url, self._verifier)
            if not self._is_stopped:
                self._loop.call_soon_threadsafe(self._done, problem)

        self._thread.submit(attempt)

    def _done(self, problem: str) -> None:
        self._is_reading, self._read_at_s = False, self._loop.time()
        if self._is_stopped:
            return
        if not problem:
            if self._failures:
                log.info("the keys of the identity provider can be read again", url=self._url)
            self._failures = 0
            self._arm(self._every_s)
            return
        if not self._failures:
            log.warning("the keys of the identity provider cannot be read", url=self._url, why=problem)
        self._arm(min(self._backoff_s * 2 ** min(self._failures, 20), self._most_backoff_s))
        self._failures += 1
