"""Answer ListTokens: names, roles and expiry, never the hash of a token."""

from coordinator.clock import Moment
from coordinator.core.core import Core
from protocol.messages.tokens import ListedToken, ListTokens, ListTokensReply
from protocol.session import RequestRef


def list_tokens(core: Core, ref: RequestRef, message: ListTokens, moment: Moment) -> None:
    """List all tokens by name."""
    listed = tuple(
        ListedToken(name, one.role, one.made_by, one.made_ms, one.expires_ms)
        for name, one in sorted(core.accounts.tokens.by_name.items())
    )
    core.outbox.hold(core.accounts.position, ref, ListTokensReply(wall_ms=moment.wall_ms, tokens=listed))
