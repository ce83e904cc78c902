"""Answer CreateToken."""

from coordinator.accounts.records import TokenRecord
from coordinator.accounts.roles import Role
from coordinator.accounts.tokens import AccessToken, problem_of
from coordinator.clock import Moment
from coordinator.core.core import Core
from protocol.errors import ErrorCode
from protocol.messages.tokens import CreateToken, CreateTokenReply
from protocol.session import RequestRef


def create_token(core: Core, ref: RequestRef, message: CreateToken, moment: Moment) -> None:
    """Make a token; durable when answered."""
    code, problem = _problem(core, message)
    if problem:
        core.outbox.send(ref, CreateTokenReply(code, problem))
        return
    expires_ms = moment.wall_ms + message.lifetime_ms
    made_by = core.sender(ref).principal
    token = AccessToken(message.token_hash, Role(message.role), expires_ms, moment.wall_ms, made_by)
    failed = core.accounts.write([TokenRecord(message.name, token)], moment)
    reply = CreateTokenReply(failed) if failed else CreateTokenReply(expires_ms=expires_ms)
    core.outbox.hold(core.accounts.position, ref, reply)


def _problem(core: Core, message: CreateToken) -> tuple[ErrorCode, str]:
    tokens = core.accounts.tokens
    problem = problem_of(message.name, message.role, message.token_hash, message.lifetime_ms)
    if problem is not None:
        return ErrorCode.INVALID_REQUEST, problem
    if message.name in tokens.by_name:
        return ErrorCode.DUPLICATE_RESOURCE, f"there is a token {message.name!r} already"
    if tokens.name_of(message.token_hash) is not None:
        return ErrorCode.DUPLICATE_RESOURCE, "another token has this secret"
    return ErrorCode.NONE, ""
