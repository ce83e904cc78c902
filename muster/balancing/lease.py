"""The lease under which a member hands anything out (docs/spec/client-balanced-groups.md#11)."""

from muster.balancing.member import Member
from protocol.messages.balanced import ReleasedKey


def renew(m: Member, sent_ms: int) -> None:
    """Counted from when the coordinator was spoken to, which counts from when it heard: it never frees a partition
    before its member has stopped.
    """
    m.lease_ends_ms = max(m.lease_ends_ms or 0, sent_ms + m.session_timeout_ms)


def check(m: Member) -> None:
    """Before anything else that happens at this moment: what the lease covered is no longer handed out."""
    if not m.is_past(m.lease_ends_ms):
        return
    m.lease_ends_ms = None
    m.released |= {key: ReleasedKey(key, held.reg_epoch) for key, held in m.keys.items()}
    m.drop_all("the coordinator was not heard for as long as the session lasts")
