"""The command `muster`: options that all commands share, and their exit codes."""

import sys
from importlib.metadata import version
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from muster.admin.asking import Complaint
from muster.cli import completion, explain, groups, offsets, records, topics
from muster.cli.accounts import acls, quotas, tokens, users
from muster.cli.asking import DEFAULT_BOOTSTRAP
from muster.cli.config import read_servers
from muster.cli.failures import complain, complain_of_use, is_json, remember_form
from muster.cli.operating import audit, doctor, surgery
from muster.cli.operating.watching import WatchableCommand
from muster.cli.showing import INTERRUPTED, forget_stdout
from muster.errors import MusterError

_Misuse: Any = typer.BadParameter.__mro__[1]  # UsageError: of Click, or of the Click inside newer versions of Typer


class _Command(TyperGroup):
    """Ends with one sentence instead of a traceback for errors that users can fix."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        remember_form(ctx, args)
        try:
            return super().parse_args(ctx, args)
        except _Misuse as error:
            raise _misused(ctx, error) from None

    def invoke(self, ctx: Any) -> Any:
        try:
            result = super().invoke(ctx)
            sys.stdout.flush()
        except (MusterError, Complaint) as error:
            raise typer.Exit(complain(ctx, error)) from None
        except _Misuse as error:
            raise _misused(ctx, error) from None
        except KeyboardInterrupt:
            raise typer.Exit(INTERRUPTED) from None
        except BrokenPipeError:
            forget_stdout()
            raise typer.Exit(0) from None
        return result


def _misused(ctx: Any, error: Any) -> Exception:
    """Return the exception that ends the command: the error itself, which Typer prints, unless output is JSON."""
    return typer.Exit(complain_of_use(error)) if is_json(ctx) else error


app = typer.Typer(
    cls=_Command,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    help="Show consumer groups, explain why they rebalanced, and use topics by hand.",
)
app.add_typer(groups.app, name="groups", help="Consumer groups: members, offsets and lag.")
app.add_typer(offsets.app, name="offsets", help="Committed offsets: when they expire.")
app.add_typer(topics.app, name="topics", help="Topics: list, describe, make and delete them.")
app.add_typer(acls.app, name="acls", help="Access rules: list, make and delete them.")
app.add_typer(quotas.app, name="quotas", help="Limits of users, client ids and addresses: list, set, delete them.")
app.add_typer(tokens.app, name="tokens", help="Tokens of programs that use HTTP: make, list, delete them.")
app.add_typer(users.app, name="users", help="Users that may log in: make and delete them, set passwords.")
app.command("doctor", cls=WatchableCommand)(doctor.doctor)
app.command("audit")(audit.audit)
app.command("undo")(surgery.undo)
app.command("completion")(completion.completion)
app.command("explain")(explain.explain)
app.command("produce")(records.produce)
app.command("consume")(records.consume)


def _print_version(wanted: bool) -> None:
    if wanted:
        print(f"muster {version('muster')}")
        raise typer.Exit


@app.callback()
def _root(
    ctx: typer.Context,
    bootstrap: Annotated[
        str, typer.Option(metavar="HOST:PORT", envvar="MUSTER_BOOTSTRAP", help="Where musterd listens (native).")
    ] = DEFAULT_BOOTSTRAP,
    config: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            envvar="MUSTER_CONFIG",
            help="File of connection settings: lines of NAME=VALUE, as security.protocol=SSL.",
        ),
    ] = None,
    show_version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and end.")
    ] = False,
) -> None:
    ctx.obj = read_servers(bootstrap, config)
