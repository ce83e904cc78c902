"""Refuses HTTP requests that web pages of other origins make through a browser. Pure.

A browser lets any page send requests to any address, and lets a page read answers of its own host name. So the guard
checks the Host header, against DNS rebinding, and the origin of requests that change something.
"""

import re
from collections.abc import Collection, Iterable, Mapping
from ipaddress import ip_address
from typing import Final

from coordinator.http.queries import Problem

UNGUARDED: Final = frozenset({"/healthz", "/readyz"})
"""Paths served under any host name, for probes."""
HEADERS: Final = {"X-Content-Type-Options": "nosniff", "Cross-Origin-Resource-Policy": "same-origin"}
"""Headers of every answer: with them browsers keep the answer from pages of other origins, even as a script or an
image."""
DEFAULT_HEADERS: Final = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
    "Referrer-Policy": "no-referrer",
    "X-Frame-Options": "DENY",
}
"""Default headers: the answer must not be cached or framed, and nothing in it runs if it is shown as a page."""
_ASKING: Final = frozenset({"GET", "HEAD", "OPTIONS"})
_FORMS: Final = frozenset({"application/x-www-form-urlencoded", "multipart/form-data", "text/plain"})
"""Content types that browsers let a page send to any origin without a preflight request."""
_OWN_SITES: Final = frozenset({"same-origin", "none"})
_HOST: Final = re.compile(r"(?:\[([0-9A-Fa-f:.]+)\]|([^\s:\[\]/@]+))(?::[0-9]{0,5})?")


class Guard:
    """Admits requests to addresses, `localhost` and `hosts`."""

    def __init__(self, hosts: Iterable[str] = ()) -> None:
        self._hosts: Collection[str] = frozenset({"localhost", *map(_plain, hosts)})

    def check(self, method: str, path: str, hosts: list[str], headers: Mapping[str, str]) -> None:
        """Check a request. `hosts`: all its Host headers. Raises Problem if it must not be served."""
        if path not in UNGUARDED:
            self._check_host(hosts)
        if method not in _ASKING:
            _check_origin(hosts, headers)

    def _check_host(self, hosts: list[str]) -> None:
        if len(hosts) != 1:
            raise Problem(400, f"a request has one Host header, this one has {len(hosts)}")
        name = _name(hosts[0])
        if name is None:
            raise Problem(400, f"this Host is none: {hosts[0][:80]!r}")
        if name not in self._hosts and not _is_address(name):
            raise Problem(421, f"no host {name[:80]!r} is served here: name it in http.allowed.hosts if it should be")


def _check_origin(hosts: list[str], headers: Mapping[str, str]) -> None:
    site = headers.get("Sec-Fetch-Site", "none").lower()
    if site not in _OWN_SITES:
        raise Problem(403, f"a page of another origin asked for this (Sec-Fetch-Site: {site[:40]})")
    origin = headers.get("Origin")
    if origin is not None and origin.lower().partition("://")[2] not in {host.lower() for host in hosts}:
        raise Problem(403, f"a page of another origin asked for this (Origin: {origin[:80]})")
    form = headers.get("Content-Type", "").partition(";")[0].strip().lower()
    if form in _FORMS:
        raise Problem(403, f"{form} is what web pages send: leave Content-Type out, or say application/json")


def check_proof(method: str, headers: Mapping[str, str]) -> None:
    """Raise Problem for a change that a cookie authorizes, unless the browser names the page's origin, which `Guard`
    has checked."""
    if method not in _ASKING and "Origin" not in headers and headers.get("Sec-Fetch-Site") != "same-origin":
        raise Problem(
            403, "a change by a session comes from a page of this origin: Origin or Sec-Fetch-Site must say so"
        )


def _name(host: str) -> str | None:
    """Return the name in a Host header, without its port; None if the header is malformed."""
    found = _HOST.fullmatch(host)
    return None if found is None else _plain(found[1] or found[2])


def _plain(name: str) -> str:
    return name.lower().removesuffix(".")


def _is_address(name: str) -> bool:
    try:
        ip_address(name)
    except ValueError:
        return False
    return True
