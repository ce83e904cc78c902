"""`muster acls list`, `create` and `delete`: access rules, of Muster and of any Kafka cluster."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import product
from typing import Annotated, Final, NamedTuple

import typer
from msgspec.structs import astuple

from muster.admin.asking import NotFound
from muster.blocking.cluster import ClusterClient, expect
from muster.cli.asking import ActRefused, AsCsv, AsJson, Bootstrap, administering
from muster.cli.showing import show_csv, show_json, show_table
from muster.errors import Refused
from protocol.errors import ErrorCode
from protocol.messages.acls import (
    CLUSTER_NAME,
    AclBindingFilter,
    AclCreation,
    AclOperation,
    AclPatternType,
    AclPermission,
    AclResourceType,
    CreateAcls,
    CreateAclsReply,
    DeleteAcls,
    DeleteAclsReply,
    DescribeAcls,
    DescribeAclsReply,
)
from protocol.words import counted

app = typer.Typer(no_args_is_help=True)

_COLUMNS: Final = ("PRINCIPAL", "PERMISSION", "OPERATION", "RESOURCE", "PATTERN", "HOST")
_NOT_PERMITTED: Final = "no access rule permits this: rules are for those who may DESCRIBE, and ALTER, the cluster"
_NO_RULES: Final = "there are no access rules at this server: its authorizer.class.name enables them"
_ANY_HOST: Final = "*"
_OP: Final = AclOperation
_OPERATIONS: Final[Mapping[AclResourceType, tuple[AclOperation, ...]]] = {
    AclResourceType.TOPIC: (
        _OP.READ,
        _OP.WRITE,
        _OP.CREATE,
        _OP.DELETE,
        _OP.ALTER,
        _OP.DESCRIBE,
        _OP.DESCRIBE_CONFIGS,
        _OP.ALTER_CONFIGS,
    ),
    AclResourceType.GROUP: (_OP.READ, _OP.DELETE, _OP.DESCRIBE, _OP.DESCRIBE_CONFIGS, _OP.ALTER_CONFIGS),
    AclResourceType.CLUSTER: (
        _OP.CREATE,
        _OP.ALTER,
        _OP.DESCRIBE,
        _OP.CLUSTER_ACTION,
        _OP.DESCRIBE_CONFIGS,
        _OP.ALTER_CONFIGS,
        _OP.IDEMPOTENT_WRITE,
    ),
    AclResourceType.TRANSACTIONAL_ID: (_OP.WRITE, _OP.DESCRIBE, _OP.TWO_PHASE_COMMIT),
}
"""Kafka's operations of each resource type, besides ALL: any other would be stored without an effect."""

Allowed = Annotated[
    list[str] | None, typer.Option("--allow", metavar="PRINCIPAL", help="Rules that allow it, as User:bob or User:*.")
]
Denied = Annotated[list[str] | None, typer.Option("--deny", metavar="PRINCIPAL", help="Rules that deny it.")]
Operations = Annotated[
    list[str] | None, typer.Option("--operation", metavar="NAME", help="Such as read, write, describe, all.")
]
TopicNames = Annotated[list[str] | None, typer.Option("--topic", metavar="NAME", help="Rules on this topic.")]
GroupIds = Annotated[list[str] | None, typer.Option("--group", metavar="GROUP", help="Rules on this group.")]
TransactionalIds = Annotated[
    list[str] | None, typer.Option("--transactional-id", metavar="ID", help="Rules on this transactional id.")
]
Cluster = Annotated[bool, typer.Option("--cluster", help="Rules on the cluster.")]
Prefixed = Annotated[bool, typer.Option("--prefixed", help="Names are prefixes: rules on all names that begin so.")]


class _Resource(NamedTuple):
    kind: AclResourceType
    name: str


class _Conditions(NamedTuple):
    """The options of a command that says which rules it means."""

    grants: tuple[tuple[AclPermission, str], ...]
    operations: tuple[AclOperation, ...]
    resources: tuple[_Resource, ...]
    is_prefixed: bool
    host: str | None

    @property
    def is_empty(self) -> bool:
        """True if no option was given, so that every rule matches."""
        return not any((self.grants, self.operations, self.resources, self.is_prefixed, self.host))

    def filters(self) -> tuple[AclBindingFilter, ...]:
        """Return a filter for each combination; an option that was not given matches every rule."""
        literal = AclPatternType.LITERAL if self.resources else AclPatternType.ANY
        pattern = AclPatternType.PREFIXED if self.is_prefixed else literal
        return tuple(
            AclBindingFilter(kind, name, pattern, principal, self.host, operation, permission)
            for (permission, principal), operation, (kind, name) in product(
                self.grants or ((AclPermission.ANY, None),),
                self.operations or (AclOperation.ANY,),
                self.resources or ((AclResourceType.ANY, None),),
            )
        )


@app.command("list")
def list_command(
    ctx: typer.Context,
    allow: Allowed = None,
    deny: Denied = None,
    operation: Operations = None,
    topic: TopicNames = None,
    group: GroupIds = None,
    transactional_id: TransactionalIds = None,
    cluster: Cluster = False,
    prefixed: Prefixed = False,
    host: Annotated[str | None, typer.Option(metavar="ADDRESS", help="Rules for this address.")] = None,
    bootstrap: Bootstrap = None,
    as_json: AsJson = False,
    as_csv: AsCsv = False,
) -> None:
    """Access rules: all, or those that match the options."""
    if as_csv and as_json:
        raise typer.BadParameter("say one of --csv and --json")
    conditions = _conditions(allow, deny, operation, topic, group, transactional_id, cluster, prefixed, host)
    with _ruling(ctx, bootstrap) as client:
        found = _matching(client, conditions)
    if as_json:
        show_json([_document(one) for one in found])
    elif as_csv:
        show_csv(_COLUMNS, map(_row, found))
    elif found:
        show_table(_COLUMNS, map(_row, found))
    elif conditions.is_empty:
        print("There are no access rules yet: `muster acls create --allow User:NAME ...` makes one.")
    else:
        print("No access rule matches.")


@app.command()
def create(
    ctx: typer.Context,
    allow: Allowed = None,
    deny: Denied = None,
    operation: Operations = None,
    topic: TopicNames = None,
    group: GroupIds = None,
    transactional_id: TransactionalIds = None,
    cluster: Cluster = False,
    prefixed: Prefixed = False,
    host: Annotated[str, typer.Option(metavar="ADDRESS", help="Only for clients at this address.")] = _ANY_HOST,
    bootstrap: Bootstrap = None,
) -> None:
    """Make an access rule for each principal, operation and resource. A denial wins over what is allowed."""
    said = _conditions(allow, deny, operation, topic, group, transactional_id, cluster, prefixed, host)
    if not said.grants:
        raise typer.BadParameter("a rule needs --allow or --deny, such as --allow User:bob")
    if not said.operations:
        raise typer.BadParameter("a rule needs --operation, such as --operation read")
    if not said.resources:
        raise typer.BadParameter("a rule needs --topic, --group, --transactional-id or --cluster")
    if prefixed and cluster:
        raise typer.BadParameter("--prefixed and --cluster cannot both be meant: the cluster has one name")
    pattern = AclPatternType.PREFIXED if prefixed else AclPatternType.LITERAL
    creations = tuple(
        AclCreation(kind, name, principal, host, one, permission, pattern)
        for (permission, principal), (kind, name), one in product(said.grants, said.resources, said.operations)
    )
    for one in creations:
        _check_operation(AclResourceType(one.resource_type), AclOperation(one.operation))
    with _ruling(ctx, bootstrap) as client:
        results = expect(CreateAclsReply, client.ask(CreateAcls(creations))).results
        for result in results:
            if result.error_code:
                made = sum(not each.error_code for each in results)
                why = result.error_message or result.error_code.name
                raise Refused(result.error_code, f"{made} of {counted(len(results), 'access rule')} made: {why}")
    print(f"Made {counted(len(creations), 'access rule')}.")
    show_table(_COLUMNS, map(_row, creations))


@app.command()
def delete(
    ctx: typer.Context,
    allow: Allowed = None,
    deny: Denied = None,
    operation: Operations = None,
    topic: TopicNames = None,
    group: GroupIds = None,
    transactional_id: TransactionalIds = None,
    cluster: Cluster = False,
    prefixed: Prefixed = False,
    host: Annotated[str | None, typer.Option(metavar="ADDRESS", help="Rules for this address.")] = None,
    bootstrap: Bootstrap = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask before deleting several rules.")] = False,
) -> None:
    """Delete the access rules that match the options, and print them."""
    conditions = _conditions(allow, deny, operation, topic, group, transactional_id, cluster, prefixed, host)
    if conditions.is_empty:
        raise typer.BadParameter("say which rules, such as --allow User:bob or --topic orders")
    with _ruling(ctx, bootstrap) as client:
        found = _matching(client, conditions)
        if not found:
            raise NotFound("no access rule matches: see `muster acls list`")
        if len(found) > 1 and not yes:
            show_table(_COLUMNS, map(_row, found))
            typer.confirm(f"Delete these {len(found)} access rules?", abort=True)
        # The rules that were shown, not what matches by now.
        reply = expect(DeleteAclsReply, client.ask(DeleteAcls(tuple(_exactly(one) for one in found))))
        deleted = []
        for result in reply.filter_results:
            _check(result.error_code, result.error_message)
            for one in result.matching_acls:
                _check(one.error_code, one.error_message)
                deleted.append(
                    AclCreation(
                        one.resource_type,
                        one.resource_name,
                        one.principal,
                        one.host,
                        one.operation,
                        one.permission_type,
                        one.pattern_type,
                    )
                )
    print(f"Deleted {counted(len(deleted), 'access rule')}.")
    show_table(_COLUMNS, map(_row, deleted))


@contextmanager
def _ruling(ctx: typer.Context, bootstrap: str | None) -> Iterator[ClusterClient]:
    """Same as `administering`. Raises ActRefused with a sentence if the server has no access rules."""
    with administering(ctx, bootstrap, _NOT_PERMITTED) as cluster:
        try:
            yield cluster
        except Refused as refused:
            if refused.error_code is ErrorCode.SECURITY_DISABLED:
                raise ActRefused(_NO_RULES) from None
            raise


def _conditions(
    allow: Sequence[str] | None,
    deny: Sequence[str] | None,
    operations: Sequence[str] | None,
    topics: Sequence[str] | None,
    groups: Sequence[str] | None,
    transactional_ids: Sequence[str] | None,
    is_cluster: bool,
    is_prefixed: bool,
    host: str | None,
) -> _Conditions:
    """Read the options. Raises a usage error."""
    granted = [(AclPermission.ALLOW, one) for one in allow or ()] + [(AclPermission.DENY, one) for one in deny or ()]
    for _, principal in granted:
        kind, _, name = principal.partition(":")
        if not kind or not name:
            raise typer.BadParameter(f"{principal!r} is no principal: TYPE:NAME is wanted, such as User:bob")
    named = (
        (AclResourceType.TOPIC, topics or ()),
        (AclResourceType.GROUP, groups or ()),
        (AclResourceType.TRANSACTIONAL_ID, transactional_ids or ()),
        (AclResourceType.CLUSTER, (CLUSTER_NAME,) if is_cluster else ()),
    )
    resources = tuple(_Resource(kind, name) for kind, names in named for name in names)
    return _Conditions(tuple(granted), tuple(map(_operation, operations or ())), resources, is_prefixed, host)


def _operation(text: str) -> AclOperation:
    """Return the operation of a name as `read`, `describe-configs` or Kafka's `DescribeConfigs`."""
    wanted = _plain(text)
    for one in AclOperation:
        if one is not AclOperation.ANY and _plain(one.name) == wanted:
            return one
    names = ", ".join(one.name.lower() for one in AclOperation if one is not AclOperation.ANY)
    raise typer.BadParameter(f"{text!r} is no operation: say one of {names}", param_hint="--operation")


def _plain(name: str) -> str:
    return name.replace("-", "").replace("_", "").lower()


def _check_operation(kind: AclResourceType, operation: AclOperation) -> None:
    """Raise a usage error for an operation that no request needs on such a resource."""
    if operation is not AclOperation.ALL and operation not in _OPERATIONS[kind]:
        names = ", ".join(one.name.lower() for one in _OPERATIONS[kind])
        what = f"{operation.name.lower()} is no operation on a {_kind(kind)}"
        raise typer.BadParameter(f"{what}: say one of {names}, all", param_hint="--operation")


def _matching(cluster: ClusterClient, conditions: _Conditions) -> list[AclCreation]:
    """Return the rules that match any of the filters, in order of their resources."""
    found = set()
    for one in conditions.filters():
        reply = expect(DescribeAclsReply, cluster.ask(DescribeAcls(*astuple(one))))
        for resource in reply.resources:
            kind, name, pattern = resource.resource_type, resource.resource_name, resource.pattern_type
            found |= {
                AclCreation(kind, name, acl.principal, acl.host, acl.operation, acl.permission_type, pattern)
                for acl in resource.acls
            }
    return sorted(found, key=lambda one: (one.resource_type, one.resource_name, one.principal, *_row(one)))


def _exactly(rule: AclCreation) -> AclBindingFilter:
    return AclBindingFilter(
        rule.resource_type,
        rule.resource_name,
        rule.resource_pattern_type,
        rule.principal,
        rule.host,
        rule.operation,
        rule.permission_type,
    )


def _row(rule: AclCreation) -> tuple[str, ...]:
    kind = _kind(rule.resource_type)
    return (
        rule.principal,
        _named(AclPermission, rule.permission_type),
        _named(AclOperation, rule.operation),
        kind if rule.resource_type == AclResourceType.CLUSTER else f"{kind} {rule.resource_name}",
        _named(AclPatternType, rule.resource_pattern_type),
        rule.host,
    )


def _document(rule: AclCreation) -> dict[str, str]:
    return {
        "principal": rule.principal,
        "permission": _named(AclPermission, rule.permission_type),
        "operation": _named(AclOperation, rule.operation),
        "resource_type": _named(AclResourceType, rule.resource_type),
        "resource_name": rule.resource_name,
        "pattern_type": _named(AclPatternType, rule.resource_pattern_type),
        "host": rule.host,
    }


def _kind(resource_type: int) -> str:
    return _named(AclResourceType, resource_type).lower().replace("_", " ")


def _named(codes: Iterable[AclOperation | AclPatternType | AclPermission | AclResourceType], code: int) -> str:
    """Return the name of a code; the number of one that newer brokers have."""
    return next((one.name for one in codes if one == code), str(code))


def _check(code: ErrorCode, sentence: str | None) -> None:
    if code:
        raise Refused(code, sentence or code.name)
