"""Limits of failed logins by address, against password guessing."""

from ipaddress import IPv6Address, IPv6Network, ip_address
from typing import Final

_MOST_ADDRESSES: Final = 10_000
BURST: Final = 50
"""Failed logins of one address that are answered in quick succession."""
REFILL_MS: Final = 2_000
"""Time after which one more failed login is answered."""


_HOST_BITS: Final = 64


def network_of(host: str) -> str:
    """Return the range that one machine may hold alone: an IPv4 address, or the /64 that contains an IPv6 address."""
    try:
        address = ip_address(host)
    except ValueError:
        return host
    if not isinstance(address, IPv6Address):
        return host
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return str(IPv6Network((int(address) >> _HOST_BITS << _HOST_BITS, _HOST_BITS)))


class FailedLogins:
    """A token bucket for each network (`network_of`) with recent failed logins."""

    def __init__(self) -> None:
        self._failed: dict[str, tuple[float, int]] = {}
        """Failures that count, and the time of the last one, the oldest first."""

    def add(self, host: str, now_ms: int) -> None:
        """Count a failed login."""
        network = network_of(host)
        counted = self._count(network, now_ms) + 1
        self._failed.pop(network, None)
        if len(self._failed) >= _MOST_ADDRESSES:
            del self._failed[next(iter(self._failed))]
        self._failed[network] = counted, now_ms

    def is_limited(self, host: str, now_ms: int) -> bool:
        """Return true if logins from the address are refused unchecked for now."""
        return self._count(network_of(host), now_ms) > BURST - 1

    def _count(self, network: str, now_ms: int) -> float:
        counted, at_ms = self._failed.get(network, (0.0, now_ms))
        return max(0.0, counted - (now_ms - at_ms) / REFILL_MS)
