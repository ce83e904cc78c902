"""`muster tokens create`, `list` and `delete NAME`: bearer tokens for programs that use HTTP.

The command makes a token and shows it once; the node gets only its hash.
"""

import os
from typing import Annotated, Final

import typer

from muster.admin.asking import NotFound
from muster.blocking.cluster import expect
from muster.cli.asking import AsJson, Bootstrap, administering
from muster.cli.durations import duration_ms
from muster.cli.showing import local_time, show_json, show_table, utc_time
from muster.errors import Refused
from protocol.access_token import SECRET_BYTES, hash_of, token_of
from protocol.errors import ErrorCode
from protocol.messages.tokens import (
    ROLES,
    CreateToken,
    CreateTokenReply,
    DeleteToken,
    DeleteTokenReply,
    ListTokens,
    ListTokensReply,
)

app = typer.Typer(no_args_is_help=True)

_NOT_PERMITTED: Final = "no access rule permits this: tokens are for those who may DESCRIBE, and ALTER, the cluster"


@app.command("list")
def list_command(ctx: typer.Context, bootstrap: Bootstrap = None, as_json: AsJson = False) -> None:
    """All tokens: what they may do, until when, and who made them."""
    with administering(ctx, bootstrap, _NOT_PERMITTED) as cluster:
        reply = expect(ListTokensReply, cluster.ask(ListTokens()))
    if as_json:
        show_json(
            [
                {
                    "name": one.name,
                    "role": one.role,
                    "made_by": one.made_by,
                    "made": utc_time(one.made_ms),
                    "expires": utc_time(one.expires_ms),
                    "expired": reply.wall_ms >= one.expires_ms,
                }
                for one in reply.tokens
            ]
        )
    elif reply.tokens:
        rows = (
            (
                one.name,
                one.role,
                local_time(one.expires_ms) + (" (expired)" if reply.wall_ms >= one.expires_ms else ""),
                one.made_by,
            )
            for one in reply.tokens
        )
        show_table(("TOKEN", "ROLE", "EXPIRES", "MADE BY"), rows)
    else:
        print("There are no tokens yet: `muster tokens create --role view` makes one.")


@app.command()
def create(
    ctx: typer.Context,
    role: Annotated[str, typer.Option(metavar="|".join(ROLES), help="Role that sets its rights.")],
    expires: Annotated[str, typer.Option(metavar="TIME", help="Lifetime, as 12h or 30d.")] = "30d",
    name: Annotated[str | None, typer.Option(metavar="NAME", help="Default: a generated name.")] = None,
    bootstrap: Bootstrap = None,
    as_json: AsJson = False,
) -> None:
    """Make a token, and show it once. Programs send it as `Authorization: Bearer TOKEN`."""
    if role not in ROLES:
        raise typer.BadParameter(f"{role[:40]!r} is no role: say {', '.join(ROLES)}", param_hint="--role")
    lifetime_ms = duration_ms(expires, "--expires")
    token = token_of(os.urandom(SECRET_BYTES))
    name = name or f"{role}-{os.urandom(4).hex()}"
    with administering(ctx, bootstrap, _NOT_PERMITTED) as cluster:
        made = CreateToken(name, role, hash_of(token), lifetime_ms)
        reply = expect(CreateTokenReply, cluster.ask(made))
    if as_json:
        show_json({"name": name, "role": role, "expires": utc_time(reply.expires_ms), "token": token})
    else:
        print(f"Made token {name} ({role}), which ends {local_time(reply.expires_ms)}. It is not shown again:")
        print(token)


@app.command()
def delete(
    ctx: typer.Context, name: Annotated[str, typer.Argument(metavar="NAME")], bootstrap: Bootstrap = None
) -> None:
    """Delete a token. Sessions that logged in with it end at once."""
    with administering(ctx, bootstrap, _NOT_PERMITTED) as cluster:
        try:
            expect(DeleteTokenReply, cluster.ask(DeleteToken(name)))
        except Refused as refused:
            if refused.error_code is ErrorCode.RESOURCE_NOT_FOUND:
                raise NotFound(f"there is no token {name!r}: see `muster tokens list`") from None
            raise
    print(f"Deleted token {name}.")
