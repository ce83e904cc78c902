"""Answer DeleteToken."""

from coordinator.accounts.records import TokenRecord
from coordinator.clock import Moment
from coordinator.core.core import Core
from protocol.errors import ErrorCode
from protocol.messages.tokens import DeleteToken, DeleteTokenReply
from protocol.session import RequestRef


def delete_token(core: Core, ref: RequestRef, message: DeleteToken, moment: Moment) -> None:
    """Delete a token; durable when answered, and in force before."""
    if message.name not in core.accounts.tokens.by_name:
        unknown = f"there is no token {message.name[:200]!r}"
        core.outbox.send(ref, DeleteTokenReply(ErrorCode.RESOURCE_NOT_FOUND, unknown))
        return
    failed = core.accounts.write([TokenRecord(message.name, None)], moment)
    core.outbox.hold(core.accounts.position, ref, DeleteTokenReply(failed))
