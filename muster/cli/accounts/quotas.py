"""`muster quotas list`, `set LIMIT=VALUE...` and `delete LIMIT...`: limits of users, client ids and addresses."""

from collections.abc import Iterable
from typing import Annotated, Final

import typer

from muster.blocking.cluster import expect
from muster.cli.asking import AsJson, Bootstrap, administering
from muster.cli.showing import show_json, show_table
from muster.errors import Refused
from protocol.errors import ErrorCode
from protocol.messages.quotas import (
    AlterClientQuotas,
    AlterClientQuotasReply,
    AlteringQuota,
    DescribeClientQuotas,
    DescribeClientQuotasReply,
    QuotaChange,
    QuotaEntity,
)

app = typer.Typer(no_args_is_help=True)

_DEFAULT: Final = "(default)"
_NOT_PERMITTED: Final = "no access rule permits this: limits need DESCRIBE_CONFIGS, and ALTER_CONFIGS, on the cluster"

User = Annotated[str | None, typer.Option("--user", metavar="NAME", help="User that the limit is for.")]
AllUsers = Annotated[bool, typer.Option("--default-user", help="All users without a limit of their own, each.")]
Client = Annotated[str | None, typer.Option("--client-id", metavar="ID", help="The limit is for this client id.")]
AllClients = Annotated[
    bool, typer.Option("--default-client-id", help="All client ids without a limit of their own, each.")
]
Ip = Annotated[str | None, typer.Option("--ip", metavar="ADDRESS", help="The limit is for this address.")]
AllIps = Annotated[bool, typer.Option("--default-ip", help="All addresses without a limit of their own, each.")]
Limits = Annotated[
    list[str], typer.Argument(metavar="LIMIT=VALUE...", help="Such as commit_rate=100, a second, or member_count=50.")
]
Names = Annotated[list[str], typer.Argument(metavar="LIMIT...")]


@app.command("list")
def list_command(ctx: typer.Context, bootstrap: Bootstrap = None, as_json: AsJson = False) -> None:
    """All limits."""
    with administering(ctx, bootstrap, _NOT_PERMITTED) as cluster:
        reply = expect(DescribeClientQuotasReply, cluster.ask(DescribeClientQuotas()))
    _check(reply.error_code, reply.error_message)
    entries = reply.entries or ()
    if as_json:
        show_json(
            [
                {
                    "entity": {part.entity_type: part.entity_name for part in one.entity},
                    "limits": {limit.key: limit.value for limit in one.values},
                }
                for one in entries
            ]
        )
    elif entries:
        rows = ((_shown(one.entity), limit.key, _number(limit.value)) for one in entries for limit in one.values)
        show_table(("WHOM", "LIMIT", "VALUE"), sorted(rows))
    else:
        print("There are no limits: `muster quotas set --user NAME LIMIT=VALUE` makes one.")


@app.command("set")
def set_command(
    ctx: typer.Context,
    limits: Limits,
    user: User = None,
    default_user: AllUsers = False,
    client_id: Client = None,
    default_client_id: AllClients = False,
    ip: Ip = None,
    default_ip: AllIps = False,
    bootstrap: Bootstrap = None,
) -> None:
    """Set limits: what a user, a client id or an address may use, in a second or at a time."""
    entity = _entity(user, default_user, client_id, default_client_id, ip, default_ip)
    _alter(ctx, bootstrap, entity, [_read(one) for one in limits])
    print(f"Set {', '.join(limits)} of {_shown(entity)}.")


@app.command()
def delete(
    ctx: typer.Context,
    limits: Names,
    user: User = None,
    default_user: AllUsers = False,
    client_id: Client = None,
    default_client_id: AllClients = False,
    ip: Ip = None,
    default_ip: AllIps = False,
    bootstrap: Bootstrap = None,
) -> None:
    """Delete limits."""
    entity = _entity(user, default_user, client_id, default_client_id, ip, default_ip)
    _alter(ctx, bootstrap, entity, [QuotaChange(one, remove=True) for one in limits])
    print(f"Deleted {', '.join(limits)} of {_shown(entity)}.")


def _entity(
    user: str | None,
    default_user: bool,
    client_id: str | None,
    default_client_id: bool,
    ip: str | None,
    default_ip: bool,
) -> tuple[QuotaEntity, ...]:
    """Return whom the options name. Raises a usage error if that is nobody, or one and all."""
    parts = (("user", user, default_user), ("client-id", client_id, default_client_id), ("ip", ip, default_ip))
    for kind, name, is_default in parts:
        if name is not None and is_default:
            raise typer.BadParameter(f"--{kind} and --default-{kind} cannot both be meant")
    entity = tuple(QuotaEntity(kind, name) for kind, name, is_default in parts if name is not None or is_default)
    if not entity:
        raise typer.BadParameter("a limit needs --user, --client-id or --ip")
    return entity


def _read(text: str) -> QuotaChange:
    key, _, value = text.partition("=")
    try:
        return QuotaChange(key, float(value))
    except ValueError:
        raise typer.BadParameter(f"{text!r} is no limit: LIMIT=VALUE is wanted, such as commit_rate=100") from None


def _number(value: float) -> str:
    """Write a whole number as it was typed: 10000000, not 1e+07."""
    return str(int(value)) if value.is_integer() else str(value)


def _shown(entity: Iterable[QuotaEntity]) -> str:
    return ", ".join(f"{one.entity_type} {one.entity_name or _DEFAULT}" for one in entity)


def _alter(
    ctx: typer.Context, bootstrap: str | None, entity: tuple[QuotaEntity, ...], changes: Iterable[QuotaChange]
) -> None:
    with administering(ctx, bootstrap, _NOT_PERMITTED) as cluster:
        reply = expect(AlterClientQuotasReply, cluster.ask(AlterClientQuotas((AlteringQuota(entity, tuple(changes)),))))
        for one in reply.entries:
            _check(one.error_code, one.error_message)


def _check(code: ErrorCode, sentence: str | None) -> None:
    if code:
        raise Refused(code, sentence or code.name)
