"""Audit of administration: requests whose changes are logged with the values before and after.

Changes of groups are logged from the groups' notes, which have both values.
"""

from collections.abc import Callable, Mapping
from itertools import islice
from typing import Any, Final, NamedTuple

from coordinator.accounts.acls import Acl
from coordinator.accounts.audit import AuditEvent
from coordinator.accounts.permission import Permission
from coordinator.accounts.scram import ScramMechanism
from coordinator.clock import Moment
from coordinator.core.core import INTERNAL, Core
from coordinator.groups.classic.notes import Cause
from coordinator.groups.notes import TAKEOVER, instance_of
from coordinator.handlers.alter_client_quotas import entity_of
from coordinator.handlers.describe_acls import matching
from coordinator.records.records import Note
from protocol.errors import ErrorCode
from protocol.messages import Message
from protocol.messages.acls import (
    AclOperation,
    AclPatternType,
    AclPermission,
    AclResourceType,
    AlterUserScramCredentials,
    CreateAcls,
    DeleteAcls,
    ScramDeletion,
    ScramUpsertion,
)
from protocol.messages.configs import AlterConfigs, IncrementalAlterConfigs, ResourceType
from protocol.messages.quotas import AlterClientQuotas
from protocol.messages.reports import DrainMembers
from protocol.messages.tokens import CreateToken, DeleteToken
from protocol.messages.topics import CreatePartitions, CreateTopics, DeleteTopics
from protocol.session import RequestRef

Handler = Callable[[Core, RequestRef, Any, Moment], None]
_MOST_OF_ONE: Final = 100
"""Refusals of one request that are told; others are counted: clients name as many topics as they like."""


class Fact(NamedTuple):
    """A thing as it is: `identity` tells whether it has changed, `shown` is written."""

    identity: Any
    shown: Any


Facts = dict[str, Fact]


def sender(core: Core, ref: RequestRef) -> dict[str, Any]:
    """Return who sent the request, and from where."""
    if ref.connection == INTERNAL:
        caller = core.callers.get(ref.number)
        if caller is None:
            return {"listener": "http"}
        told = {"principal": caller.principal, "host": caller.host, "certificate": caller.certificate}
        return {"listener": "http"} | told
    known = core.connections.get(ref.connection)
    if known is None:
        return {}
    return {
        "principal": known.principal,
        "host": known.peer_host,
        "port": known.peer_port,
        "listener": known.dialect,
        "client_id": known.session.client_id,
        "certificate": known.certificate,
    }


def audit_refusal(core: Core, ref: RequestRef, message: Message, missing: list[Permission], moment: Moment) -> None:
    """Tell what a principal lacked for a request."""
    if not core.audit.is_on:
        return
    who, unlike = sender(core, ref), dict.fromkeys(missing)
    core.audit.leave_out(max(0, len(unlike) - _MOST_OF_ONE))
    for one in islice(unlike, _MOST_OF_ONE):
        name = one.name if isinstance(one.name, str) else core.topics.name_of(one.name) or one.name.hex()
        lacked = f"{one.operation.name} on {one.kind}" + (f" {name}" if name else "")
        fields = {"request": type(message).__name__, "lacked": lacked, "code": one.denial.name}
        core.audit.record(AuditEvent.REFUSED, moment, {**who, **fields})


def audit_foreign_member(core: Core, ref: RequestRef, message: Any, code: ErrorCode, moment: Moment) -> None:
    """Tell of a request for a member of another principal."""
    if core.audit.is_on:
        lacked = f"ownership of a member of group {message.group_id}"
        about = {"request": type(message).__name__, "lacked": lacked, "code": code.name}
        core.audit.record(AuditEvent.REFUSED, moment, {**sender(core, ref), **about})


_OF_TOPICS = (Cause.TOPIC_CREATED, Cause.TOPIC_DELETED, Cause.PARTITIONS_ADDED)
_AUDITED_BY_HANDLERS = {*_OF_TOPICS, Cause.SETTINGS_CHANGED}


def audit_act(core: Core, note: Note) -> None:
    """Tell of an act on a group: offsets reset or deleted, a group deleted, a process fenced by another with its
    instance id. Acts on topics and settings are told by their handlers, with the values before and after."""
    if not core.audit.is_on or note.cause in _AUDITED_BY_HANDLERS:
        return
    origin = note.origin
    who: dict[str, Any] = {}
    if origin is not None:
        who = {"principal": origin.principal, "host": origin.client_host.removeprefix("/"), "port": origin.client_port}
        who |= {"listener": origin.listener, "client_id": origin.client_id, "certificate": origin.certificate}
    if note.act == TAKEOVER and (held := note.previous) is not None:
        previous: dict[str, Any] = {
            "member_id": held.member_id,
            "client_id": held.client_id,
            "host": held.client_host.removeprefix("/"),
        }
        previous |= {"heard_ago_ms": held.heard_ago_ms} if held.heard_ago_ms >= 0 else {}
        about = {"group": note.group_id, "instance": instance_of(note), "member_id": note.initiator}
        often = {"times": note.times} if note.times > 1 else {}
        core.audit.takeover(note.wall_ms, {**who, **about, "previous": previous, **often})
        return
    changes: list[Any] = [
        _change(f"offset {one.topic}-{one.partition_index}", _shown(one.previous_offset), _shown(one.offset))
        for one in note.changes
    ]
    about = {"group": note.group_id, "detail": note.detail}
    core.audit.administration(note.wall_ms, {**who, **about}, note.act, changes)


def audited(handlers: Mapping[type[Message], Handler]) -> dict[type[Message], Handler]:
    """Return the handlers; those of administration tell what they changed."""
    return {
        message: _audited(handler, FACTS[message]) if message in FACTS else handler
        for message, handler in handlers.items()
    }


def _audited(handler: Handler, facts: Callable[[Core, Any], Facts]) -> Handler:
    def serve(core: Core, ref: RequestRef, message: Message, moment: Moment) -> None:
        if not core.audit.is_on:
            handler(core, ref, message, moment)
            return
        who, before = sender(core, ref), facts(core, message)
        handler(core, ref, message, moment)
        after = facts(core, message)
        changes = [
            _change(name, _of(before, name).shown, _of(after, name).shown)
            for name in before | after
            if _of(before, name).identity != _of(after, name).identity
        ]
        if changes:
            core.audit.administration(moment.wall_ms, who, type(message).__name__, changes)

    return serve


_NOTHING: Final = Fact(None, None)


def _of(facts: Facts, name: str) -> Fact:
    return facts.get(name, _NOTHING)


def _change(what: str, before: Any, after: Any) -> dict[str, Any]:
    return {"what": what, "before": before, "after": after}


def _shown(offset: int) -> int | None:
    return None if offset < 0 else offset


# ----------------------------------------------------------------------------------------------------------- the facts


def _acl(acl: Acl) -> str:
    permission, operation = AclPermission(acl.permission).name, AclOperation(acl.operation).name
    pattern = " (prefix)" if acl.pattern_type == AclPatternType.PREFIXED else ""
    resource = f"{AclResourceType(acl.resource_type).name.lower()} {acl.name}{pattern}"
    return f"acl: {permission} {operation} on {resource} to {acl.principal} from {acl.host}"


def _created_acls(core: Core, message: CreateAcls) -> Facts:
    asked = map(Acl.of, message.creations)
    return {_acl(acl): Fact(True, True) for acl in asked if acl in core.accounts.authorizer.acls}


def _deleted_acls(core: Core, message: DeleteAcls) -> Facts:
    return {_acl(acl): Fact(True, True) for one in message.filters for acl in matching(core, one)}


def _credentials(core: Core, message: AlterUserScramCredentials) -> Facts:
    found: Facts = {}
    changes: list[ScramDeletion | ScramUpsertion] = [*message.deletions, *message.upsertions]
    for one in changes:
        for mechanism, known in core.accounts.users.get(one.name, {}).items():
            if mechanism == one.mechanism:
                what = f"user {one.name}, {ScramMechanism(mechanism).title}"
                found[what] = Fact(known, {"iterations": known.iterations})
    return found


def _quotas(core: Core, message: AlterClientQuotas) -> Facts:
    found: Facts = {}
    for entry in message.entries:
        entity = entity_of(entry)
        names = " and ".join(f"{kind} {'(default)' if name is None else name}" for kind, name in entity)
        for key, value in core.accounts.quotas.limits.get(entity, {}).items():
            found[f"limit of {names}, {key}"] = Fact(value, value)
    return found


def _token(core: Core, message: CreateToken | DeleteToken) -> Facts:
    known = core.accounts.tokens.by_name.get(message.name)
    if known is None:
        return {}
    shown = {"role": known.role, "made_by": known.made_by, "expires_ms": known.expires_ms}
    return {f"token {message.name}": Fact(known, shown)}


def _topics(core: Core, message: CreateTopics | CreatePartitions | DeleteTopics) -> Facts:
    found: Facts = {}
    for one in message.topics:
        name = one.name or core.topics.name_of(getattr(one, "topic_id", b""))
        partitions = None if name is None else core.topics.partition_count(name)
        if partitions:
            found[f"topic {name}"] = Fact(partitions, {"partitions": partitions})
    return found


def _configs(core: Core, message: IncrementalAlterConfigs | AlterConfigs) -> Facts:
    found: Facts = {}
    for one in message.resources:
        kind, name = one.resource_type, one.resource_name
        own: Mapping[str, str] = {}
        if kind == ResourceType.TOPIC:
            own = core.embedded.configs(name) or {}
        elif kind == ResourceType.GROUP:
            own = core.group_configs.own(name)
        title = "topic" if kind == ResourceType.TOPIC else "group"
        found |= {f"{title} {name}, {key}": Fact(value, value) for key, value in own.items()}
    return found


def _draining(core: Core, message: DrainMembers) -> Facts:
    reports = {one: core.reports.get(message.group_id, one) for one in message.member_ids}
    return {
        f"drain of member {one} of group {message.group_id}": Fact(True, True)
        for one, report in reports.items()
        if report is not None and report.is_draining
    }


FACTS: Final[Mapping[type[Message], Callable[[Core, Any], Facts]]] = {
    CreateAcls: _created_acls,
    DrainMembers: _draining,
    DeleteAcls: _deleted_acls,
    AlterUserScramCredentials: _credentials,
    AlterClientQuotas: _quotas,
    CreateToken: _token,
    DeleteToken: _token,
    CreateTopics: _topics,
    CreatePartitions: _topics,
    DeleteTopics: _topics,
    IncrementalAlterConfigs: _configs,
    AlterConfigs: _configs,
}
"""Facts about what each request of administration changes. It is changed when the handler ends."""
