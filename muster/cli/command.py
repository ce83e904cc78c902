"""The command as a whole: what all parts share, and how each ends."""

import os
import sys
from importlib.metadata import version
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from muster.cli import explain, groups, offsets, quotas, records, topics, users
from muster.cli.asking import DEFAULT_BOOTSTRAP, Complaint, NotThere
from muster.cli.config import read_servers
from muster.cli.operating import audit, carrying_out, doctor, surgery
from muster.errors import CannotConnect, MusterError, Refused, RequestTimedOut
from protocol.errors import ErrorCode

_INTERRUPTED = 130
_NOT_THERE, _NOT_REACHED = 3, 5
_ABSENT = (ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID)


class _Command(TyperGroup):
    """Ends with one sentence instead of a traceback for what users can do something about."""

    def invoke(self, ctx: Any) -> Any:
        try:
            result = super().invoke(ctx)
            sys.stdout.flush()
        except (MusterError, Complaint) as error:
            print(f"muster: {error}", file=sys.stderr)
            raise typer.Exit(_exit_code(error)) from None
        except KeyboardInterrupt:
            raise typer.Exit(_INTERRUPTED) from None
        except BrokenPipeError:
            _forget_stdout()
            raise typer.Exit(0) from None
        return result


def _exit_code(error: Exception) -> int:
    if isinstance(error, NotThere) or (isinstance(error, Refused) and error.error_code in _ABSENT):
        return _NOT_THERE
    if isinstance(error, Refused | carrying_out.ActRefused):
        return carrying_out.REFUSED
    return _NOT_REACHED if isinstance(error, CannotConnect | RequestTimedOut) else 1


def _forget_stdout() -> None:
    """Close standard output: its reader has gone (`| head`). The interpreter's own flush at the end must not complain
    of it.
    """
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)


app = typer.Typer(
    cls=_Command,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    help="Look at consumer groups, ask why they rebalanced, and use topics by hand.",
)
app.add_typer(groups.app, name="groups", help="Consumer groups: who is in them and how far they are.")
app.add_typer(offsets.app, name="offsets", help="Committed offsets: when they go.")
app.add_typer(topics.app, name="topics", help="Topics: which there are, where they are; make and delete them.")
app.add_typer(quotas.app, name="quotas", help="Limits of users, client ids and addresses: list, set, delete them.")
app.add_typer(users.app, name="users", help="Users: who may log in; make and delete them, set passwords.")
app.command("doctor")(doctor.doctor)
app.command("audit")(audit.audit)
app.command("undo")(surgery.undo)
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
            help="How servers are reached: lines of NAME=VALUE, as security.protocol=SSL.",
        ),
    ] = None,
    show_version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and end.")
    ] = False,
) -> None:
    ctx.obj = read_servers(bootstrap, config)
