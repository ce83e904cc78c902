"""Answer DescribeAcls (KIP-140); code that CreateAcls and DeleteAcls share."""

from typing import Final

from coordinator.accounts.acls import Acl, AclFilter
from coordinator.clock import Moment
from coordinator.core.core import Core
from protocol.errors import ErrorCode
from protocol.messages.acls import (
    AclBindingFilter,
    DescribeAcls,
    DescribeAclsReply,
    DescribedAcl,
    DescribedAclResource,
)
from protocol.messages.node import ErrorReply
from protocol.session import RequestRef

_NO_AUTHORIZER: Final = "No Authorizer is configured."


def describe_acls(core: Core, ref: RequestRef, message: DescribeAcls, moment: Moment) -> None:
    """Describe the bindings that match, by resource."""
    if refuse_without_authorizer(core, ref):
        return
    condition = filter_of(message)
    resources: dict[tuple[int, str, int], list[DescribedAcl]] = {}
    for acl in core.accounts.authorizer.acls:
        if condition.matches(acl):
            described = DescribedAcl(acl.principal, acl.host, acl.operation, acl.permission)
            resources.setdefault((acl.resource_type, acl.name, acl.pattern_type), []).append(described)
    reply = DescribeAclsReply(
        resources=tuple(
            DescribedAclResource(kind, name, tuple(acls), pattern) for (kind, name, pattern), acls in resources.items()
        )
    )
    core.outbox.hold(core.accounts.position, ref, reply)


def refuse_without_authorizer(core: Core, ref: RequestRef) -> bool:
    """Refuse the request where access rules do not hold; return whether it was."""
    if core.accounts.authorizer.is_on:
        return False
    core.outbox.send(ref, ErrorReply(ErrorCode.SECURITY_DISABLED, _NO_AUTHORIZER))
    return True


def filter_of(message: DescribeAcls | AclBindingFilter) -> AclFilter:
    """Return the condition of a request."""
    return AclFilter(
        message.resource_type_filter,
        message.resource_name_filter,
        message.pattern_type_filter,
        message.principal_filter,
        message.host_filter,
        message.operation,
        message.permission_type,
    )


def matching(core: Core, message: AclBindingFilter) -> list[Acl]:
    """Return the bindings that the filter matches."""
    condition = filter_of(message)
    return [acl for acl in core.accounts.authorizer.acls if condition.matches(acl)]
