"""The lease under which a member returns records (docs/spec/client-balanced-groups.md#11)."""

from muster.core.balancing.member import BalancedMemberState
from protocol.messages.balanced import ReleasedKey


def renew(m: BalancedMemberState, sent_ms: int) -> None:
    """Renew the lease from the send time of the request. The coordinator counts from its arrival, so it never frees a
    partition before its member has stopped reading.
    """
    m.lease_ends_ms = max(m.lease_ends_ms or 0, sent_ms + m.session_timeout_ms)


def check(m: BalancedMemberState) -> None:
    """End an expired lease before anything else happens, so that no records of its partitions are returned."""
    if not m.is_past(m.lease_ends_ms):
        return
    m.lease_ends_ms = None
    m.released |= {key: ReleasedKey(key, held.reg_epoch) for key, held in m.keys.items()}
    m.drop_all("the coordinator did not answer for the session timeout")
