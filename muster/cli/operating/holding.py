"""`muster groups hold` and `release`: merging several changes of members into one rebalance."""

import re
from typing import Annotated, Final

import typer

from diagnosis.people import duration, have
from muster.admin.asking import answering_for
from muster.cli.asking import AsJson, Bootstrap, reaching
from muster.cli.showing import printable, show_json
from muster.errors import Refused
from protocol.messages.groups import HoldGroup, HoldGroupReply
from protocol.words import counted

_UNITS: Final = {"s": 1_000, "m": 60_000}
_LONGEST_MS: Final = 300_000
_TIME: Final = re.compile(r"([0-9]{1,4})([sm])")
Group = Annotated[str, typer.Argument(metavar="GROUP")]


def hold(
    ctx: typer.Context,
    group: Group,
    for_: Annotated[str, typer.Option("--for", metavar="TIME", help="As 90s or 3m; 5 minutes at most.")],
    until_members: Annotated[
        int, typer.Option("--until-members", min=0, help="End it once this number of members have joined since.")
    ] = 0,
    bootstrap: Bootstrap = None,
    as_json: AsJson = False,
) -> None:
    """Hold a group: members that join or leave meanwhile cause one rebalance, at the end. The others continue to read.

    Before a deploy that restarts six members: muster groups hold GROUP --for 90s --until-members 6. Another hold
    replaces the first; `muster groups release GROUP` and a restart of the node end it.
    """
    found = _TIME.fullmatch(for_)
    if found is None:
        raise typer.BadParameter(f"{for_[:40]!r} is no time: say 90s or 3m", param_hint="--for")
    for_ms = int(found[1]) * _UNITS[found[2]]
    if not 0 < for_ms <= _LONGEST_MS:
        raise typer.BadParameter(
            "a hold lasts 5 minutes at most, since clients give up then, and 1s or more", param_hint="--for"
        )
    left_ms = _ask(ctx, bootstrap, HoldGroup(group, for_ms, until_members))
    until = f", or until {counted(until_members, 'member')} {have(until_members)} joined" if until_members else ""
    _show(group, left_ms, f"Holding {group} for {duration(left_ms)}{until}.", as_json=as_json)


def release(ctx: typer.Context, group: Group, bootstrap: Bootstrap = None, as_json: AsJson = False) -> None:
    """End the hold on a group: all changes during the hold cause one rebalance, now."""
    _show(group, _ask(ctx, bootstrap, HoldGroup(group, 0)), f"Released {group}: nothing holds it now.", as_json=as_json)


def _show(group: str, left_ms: int, sentence: str, *, as_json: bool) -> None:
    if as_json:
        show_json({"group_id": group, "hold_left_ms": left_ms})
    else:
        print(printable(sentence))


def _ask(ctx: typer.Context, bootstrap: str | None, message: HoldGroup) -> int:
    group = message.group_id
    with reaching(ctx, bootstrap) as cluster, answering_for(group):
        reply = cluster.ask_coordinator(HoldGroupReply, group, message)
        if reply.error_code:
            raise Refused(reply.error_code, f"group {group!r}: {reply.error_message or reply.error_code.name}")
    return reply.left_ms
