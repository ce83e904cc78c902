"""`muster explain GROUP`: why it rebalanced, as a timeline."""

import re
from collections.abc import Callable
from typing import Annotated, Any

import msgspec
import typer

from muster.cli.asking import AsJson, Bootstrap, list_notes, reaching
from muster.cli.showing import local_time, show_json, show_table, utc_time
from protocol.messages.groups import ListedNote

_OPENINGS = {
    "rebalance": "Rebalance",
    "completed": "Done",
    "dropped": "Left out",
    "replaced": "No rebalance needed",
    "expired": "Forgotten",
    "admin": "Asked for",
    "rewound": "Went back",
}
_UUID = re.compile(r"\b([0-9a-f]{8})-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b")
"""The end of a member id. Its beginning tells members apart; scripts get all of it."""
_ROLES = {"rebalance": "Began with", "completed": "Leader:", "dropped": "It was", "replaced": "Now"}


def explain(
    ctx: typer.Context,
    group: Annotated[str, typer.Argument(metavar="GROUP")],
    newest: Annotated[int, typer.Option("--limit", min=1, max=1000, help="How many notes, the newest.")] = 100,
    bootstrap: Bootstrap = None,
    as_json: AsJson = False,
) -> None:
    """Show why a group rebalanced: when, who began it, and what came of it."""
    with reaching(ctx, bootstrap) as cluster:
        notes = list_notes(cluster, group, newest)
    if as_json:
        show_json({"group_id": group, "notes": [_document(note) for note in notes]})
    elif notes:
        columns = ("WHEN", "GENERATION", "MEMBERS", "WHAT HAPPENED")
        show_table(columns, map(_row, notes), whole="WHEN")
    else:
        print(f"Group {group!r} has not rebalanced yet.")


def sentence(note: ListedNote, time: Callable[[int], str]) -> str:
    """Return what a note says, for people: `Rebalance: member joined, app-1 at 10.0.0.1. By m-1.` `time` shows when."""
    opening = _OPENINGS.get(note.kind, note.kind.capitalize())
    what = ", ".join(part for part in (note.cause, note.detail.removesuffix(".")) if part)
    whose = f" {_ROLES.get(note.kind, 'By')} {note.initiator}." if note.initiator else ""
    often = f" {note.times} times since {time(note.since_ms)}." if note.times > 1 else ""
    return f"{opening}: {what}.{whose}{often}"


def _row(note: ListedNote) -> tuple[object, ...]:
    return (local_time(note.wall_ms), note.generation_id, note.members, _UUID.sub(r"\1", sentence(note, local_time)))


def _document(note: ListedNote) -> dict[str, Any]:
    return {**msgspec.to_builtins(note), "when": utc_time(note.wall_ms), "sentence": sentence(note, utc_time)}
