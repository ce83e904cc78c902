"""Answer DeleteAcls."""

from coordinator.accounts.records import AclRecord
from coordinator.clock import Moment
from coordinator.core.core import Core
from coordinator.handlers.describe_acls import matching, refuse_without_authorizer
from protocol.messages.acls import DeleteAcls, DeleteAclsFilterResult, DeleteAclsReply, DeletedAcl
from protocol.session import RequestRef


def delete_acls(core: Core, ref: RequestRef, message: DeleteAcls, moment: Moment) -> None:
    """Remove the bindings that match, in one batch; durable when answered."""
    if refuse_without_authorizer(core, ref):
        return
    found = [matching(core, one) for one in message.filters]
    gone = dict.fromkeys(acl for acls in found for acl in acls)
    failed = core.accounts.write((AclRecord(acl, is_there=False) for acl in gone), moment)
    results = tuple(
        DeleteAclsFilterResult(
            failed,
            None,
            ()
            if failed
            else tuple(
                DeletedAcl(
                    acl.resource_type,
                    acl.name,
                    acl.principal,
                    acl.host,
                    acl.operation,
                    acl.permission,
                    acl.pattern_type,
                )
                for acl in acls
            ),
        )
        for acls in found
    )
    core.outbox.hold(core.accounts.position, ref, DeleteAclsReply(results))
