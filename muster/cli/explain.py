"""`muster explain GROUP`: why it rebalanced, as a timeline."""

import re
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Annotated, Any

import typer

from diagnosis import rebalances
from diagnosis.assignments import partitions_of, ranges
from diagnosis.facts import note_facts
from diagnosis.people import standstill
from diagnosis.rebalances import NotedRebalance, noted_rebalances
from muster.admin.asking import Complaint, describe_group, list_notes
from muster.cli.asking import AsJson, Bootstrap, reaching
from muster.cli.operating.member_facts import epoch_row
from muster.cli.showing import local_time, show_facts, show_json, show_table, utc_time
from protocol.messages.groups import DescribedGroup, DescribedMember, ListedNote

_OPENINGS = {
    "rebalance": "Rebalance",
    "completed": "Done",
    "assigned": "Shared out",
    "dropped": "Left out",
    "replaced": "No rebalance needed",
    "moved": "No rebalance needed",
    "expired": "Forgotten",
    "admin": "Asked for",
    "revoked": "Held up",
    "rewound": "Went back",
}
_UUID = re.compile(r"\b([0-9a-f]{8})-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b")
"""The UUID in a member id. Its first part identifies the member for people; scripts get all of it."""
_NOW_COLUMNS = ("MEMBER", "PROTOCOL", "EPOCH", "PARTITIONS", "TARGET", "TO REVOKE", "FOR")
_ROLES = {"rebalance": "Began with", "completed": "Leader:", "assigned": "By", "dropped": "It was", "replaced": "Now"}


def explain(
    ctx: typer.Context,
    group: Annotated[str, typer.Argument(metavar="GROUP")],
    newest: Annotated[int, typer.Option("--limit", min=1, max=1000, help="Number of notes, the newest.")] = 100,
    short: Annotated[
        bool, typer.Option("--short", help="A sentence a rebalance: cause, client, last member to join, cost.")
    ] = False,
    bootstrap: Bootstrap = None,
    as_json: AsJson = False,
) -> None:
    """Show why a group rebalanced: when, which member began it, the result, and which members it waits for now.

    For a group that the coordinator balances, it also shows the progress of each member.
    """
    now: DescribedGroup | None = None
    with reaching(ctx, bootstrap) as cluster:
        notes = list_notes(cluster, group, newest)
        with suppress(Complaint):  # a deleted group still has notes
            now = describe_group(cluster, group)
    if as_json:
        known = None if now is None else _present(now)
        told = [_rebalance_document(one) for one in noted_rebalances(notes)]
        show_json({"group_id": group, "now": known, "notes": [_document(note) for note in notes], "rebalances": told})
    elif short and notes:
        show_table(("WHEN", "REBALANCE"), map(_rebalance_row, noted_rebalances(notes)), whole="WHEN")
    elif notes:
        columns = ("WHEN", "GENERATION", "MEMBERS", "WHAT HAPPENED")
        show_table(columns, map(_row, notes), whole="WHEN")
    else:
        print(f"Group {group!r} has not rebalanced yet.")
    if not as_json and now is not None:
        _show_present(now)


def _show_present(group: DescribedGroup) -> None:
    """Show what the group waits for; for a server-driven one, epochs and assignments."""
    is_driven = group.target_epoch >= 0
    shown: list[tuple[str, object]] = [*standstill(group)]
    if is_driven:
        shown = [("Epoch", group.generation_id), ("Target epoch", group.target_epoch), *shown]
    if shown:
        print()
        show_facts([("Now", group.group_state), *shown])
    if is_driven and group.members:
        print()
        show_table(_NOW_COLUMNS, map(partial(_member_row, group), group.members))


def _member_row(group: DescribedGroup, member: DescribedMember) -> tuple[object, ...]:
    assigned, target, pending = (ranges(partitions_of(group, one)) for one in _assignments(member).values())
    member_id, protocol, epoch, *rest = epoch_row(member, target, pending)
    return member_id, protocol, epoch, assigned, *rest


def _assignments(member: DescribedMember) -> dict[str, bytes]:
    return {
        "partitions": member.member_assignment,
        "target": member.target_assignment,
        "to_revoke": member.pending_revocation,
    }


def _present(group: DescribedGroup) -> dict[str, Any]:
    """Return the group's state as JSON, for scripts."""
    present: dict[str, Any] = {
        "state": group.group_state,
        "generation_id": group.generation_id,
        "phase": group.phase or None,
        "phase_ms": group.phase_ms if group.phase else None,
        "waiting_for": list(group.waiting_for),
    }
    if group.target_epoch >= 0:
        present["target_epoch"] = group.target_epoch
        present["members"] = [
            {
                "member_id": member.member_id,
                "group_protocol": member.group_protocol or None,
                "member_epoch": member.member_epoch,
                "revoking_ms": member.revoking_ms if member.revoking_ms >= 0 else None,
                **{
                    name: [{"topic": topic, "partition": number} for topic, number in partitions_of(group, encoded)]
                    for name, encoded in _assignments(member).items()
                },
            }
            for member in group.members
        ]
    return present


def sentence(note: ListedNote, time: Callable[[int], str]) -> str:
    """Format a note for people: `Rebalance: member joined, app-1 at 10.0.0.1. By m-1.` `time` shows when."""
    opening = _OPENINGS.get(note.kind, note.kind.capitalize())
    what = ", ".join(part for part in (note.cause, note.detail.removesuffix(".")) if part)
    whose = f" {_ROLES.get(note.kind, 'By')} {note.initiator}." if note.initiator else ""
    often = f" {note.times} times since {time(note.since_ms)}." if note.times > 1 else ""
    return f"{opening}: {what}.{whose}{often}"


def _row(note: ListedNote) -> tuple[object, ...]:
    return (local_time(note.wall_ms), note.generation_id, note.members, _UUID.sub(r"\1", sentence(note, local_time)))


def _rebalance_row(rebalance: NotedRebalance) -> tuple[object, ...]:
    return (local_time(rebalance.first.wall_ms), _UUID.sub(r"\1", rebalances.sentence(rebalance)))


def _rebalance_document(rebalance: NotedRebalance) -> dict[str, Any]:
    told = (*rebalance.causes, *rebalance.dropped, rebalance.end, rebalance.assigned)
    numbers = {note.number for note in told if note is not None}
    return {
        "when": utc_time(rebalance.first.wall_ms),
        "sentence": rebalances.sentence(rebalance),
        "is_over": rebalance.end is not None,
        "notes": sorted(numbers),
    }


def _document(note: ListedNote) -> dict[str, Any]:
    return {**note_facts(note), "when": utc_time(note.wall_ms), "sentence": sentence(note, utc_time)}
