"""Answer CreateAcls."""

from coordinator.accounts.acls import Acl, problem_of
from coordinator.accounts.records import AclRecord
from coordinator.clock import Moment
from coordinator.core.core import Core
from coordinator.handlers.describe_acls import refuse_without_authorizer
from protocol.errors import ErrorCode
from protocol.messages.acls import AclCreationResult, CreateAcls, CreateAclsReply
from protocol.session import RequestRef


def create_acls(core: Core, ref: RequestRef, message: CreateAcls, moment: Moment) -> None:
    """Add the bindings that are sound, in one batch; durable when answered."""
    if refuse_without_authorizer(core, ref):
        return
    asked = [Acl.of(one) for one in message.creations]
    problems = [problem_of(acl) for acl in asked]
    known = core.accounts.authorizer.acls
    sound = dict.fromkeys(
        acl for acl, problem in zip(asked, problems, strict=True) if problem is None and acl not in known
    )
    failed = core.accounts.write((AclRecord(acl, is_there=True) for acl in sound), moment)
    results = tuple(
        AclCreationResult(ErrorCode.INVALID_REQUEST, problem) if problem else AclCreationResult(failed)
        for problem in problems
    )
    core.outbox.hold(core.accounts.position, ref, CreateAclsReply(results))
