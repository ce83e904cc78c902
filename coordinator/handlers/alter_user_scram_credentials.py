"""Answer AlterUserScramCredentials (KIP-554): each user by itself, in Kafka's words."""

from collections import Counter

from coordinator.accounts.records import CredentialRecord
from coordinator.accounts.scram import MAX_ITERATIONS, MIN_ITERATIONS, ScramMechanism, credential_of
from coordinator.clock import Moment
from coordinator.core.core import Core
from protocol.errors import ErrorCode
from protocol.messages.acls import (
    AlteredUserScram,
    AlterUserScramCredentials,
    AlterUserScramCredentialsReply,
    ScramDeletion,
    ScramUpsertion,
)
from protocol.session import RequestRef

_Problem = tuple[ErrorCode, str] | None
_KNOWN = {int(mechanism) for mechanism in ScramMechanism}


def alter_user_scram_credentials(
    core: Core, ref: RequestRef, message: AlterUserScramCredentials, moment: Moment
) -> None:
    """Change the credentials of the users without a mistake, in one batch; durable when answered."""
    changes: list[ScramDeletion | ScramUpsertion] = [*message.deletions, *message.upsertions]
    times = Counter((one.name, one.mechanism) for one in changes)
    problems: dict[str, _Problem] = {}
    for one in changes:
        if problems.get(one.name) is None:
            problems[one.name] = _problem(core, one, times[one.name, one.mechanism])
    records = [_record(one) for one in changes if problems[one.name] is None]
    failed = core.accounts.write(records, moment)
    results = tuple(
        AlteredUserScram(name, failed) if problem is None else AlteredUserScram(name, *problem)
        for name, problem in problems.items()
    )
    core.outbox.hold(core.accounts.position, ref, AlterUserScramCredentialsReply(results))


def _problem(core: Core, change: ScramDeletion | ScramUpsertion, times: int) -> _Problem:
    if not change.name:
        return ErrorCode.UNACCEPTABLE_CREDENTIAL, "Username must not be empty"
    if change.mechanism not in _KNOWN:
        return ErrorCode.UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism"
    if times > 1:
        return ErrorCode.DUPLICATE_RESOURCE, "A user credential cannot be altered twice in the same request"
    if isinstance(change, ScramDeletion):
        known = core.accounts.users.get(change.name, {})
        if ScramMechanism(change.mechanism) not in known:
            return ErrorCode.RESOURCE_NOT_FOUND, "Attempt to delete a user credential that does not exist"
        return None
    if change.iterations < MIN_ITERATIONS:
        return ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too few iterations"
    if change.iterations > MAX_ITERATIONS:
        return ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too many iterations"
    if not change.salt or not change.salted_password:
        return ErrorCode.UNACCEPTABLE_CREDENTIAL, "Salt and salted password must not be empty"
    return None


def _record(change: ScramDeletion | ScramUpsertion) -> CredentialRecord:
    mechanism = ScramMechanism(change.mechanism)
    if isinstance(change, ScramDeletion):
        return CredentialRecord(mechanism, change.name, None)
    credential = credential_of(mechanism, change.salt, change.salted_password, change.iterations)
    return CredentialRecord(mechanism, change.name, credential)
