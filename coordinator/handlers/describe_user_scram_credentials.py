"""Answer DescribeUserScramCredentials (KIP-554): mechanisms and iterations, never keys."""

from collections import Counter

from coordinator.clock import Moment
from coordinator.core.core import Core
from protocol.errors import ErrorCode
from protocol.messages.acls import (
    DescribedUserScram,
    DescribeUserScramCredentials,
    DescribeUserScramCredentialsReply,
    ScramCredentialInfo,
)
from protocol.session import RequestRef


def describe_user_scram_credentials(
    core: Core, ref: RequestRef, message: DescribeUserScramCredentials, moment: Moment
) -> None:
    """Describe the credentials of the users asked for, or of all."""
    asked = Counter(user.name for user in message.users or ()) or Counter(dict.fromkeys(sorted(core.accounts.users), 1))
    results = tuple(_describe(core, name, times) for name, times in asked.items())
    core.outbox.hold(core.accounts.position, ref, DescribeUserScramCredentialsReply(results=results))


def _describe(core: Core, name: str, times: int) -> DescribedUserScram:
    if times > 1:
        why = f"Cannot describe SCRAM credentials for the same user twice in a single request: {name}"
        return DescribedUserScram(name, ErrorCode.DUPLICATE_RESOURCE, why)
    known = core.accounts.users.get(name)
    if known is None:
        why = f"Attempt to describe a user credential that does not exist: {name}"
        return DescribedUserScram(name, ErrorCode.RESOURCE_NOT_FOUND, why)
    infos = (ScramCredentialInfo(mechanism, one.iterations) for mechanism, one in sorted(known.items()))
    return DescribedUserScram(name, credential_infos=tuple(infos))
