"""`muster audit --since`: administrative acts on groups, and the clients that did them."""

import time
from typing import Annotated, Any

import typer

from diagnosis.facts import note_facts
from muster.admin.nodes import Node, ask_each, nodes_with_groups
from muster.blocking.cluster import ClusterClient, expect
from muster.cli.asking import AsJson, Bootstrap, reaching
from muster.cli.durations import duration_ms
from muster.cli.showing import local_time, say_left_out, show_json, show_table, utc_time
from protocol.client_text import client_text
from protocol.messages.groups import AuditedNote, ListAudit, ListAuditReply


def audit(
    ctx: typer.Context,
    since: Annotated[str, typer.Option(metavar="TIME", help="Period before now, as 90m, 12h or 7d.")] = "1d",
    bootstrap: Bootstrap = None,
    as_json: AsJson = False,
) -> None:
    """Show resets, rewinds, deletions, evictions and takeovers in all groups: when, which group, what, and by whom.

    musterd keeps them as long as its notes. Offsets are undone with `muster undo GROUP:NUMBER`.
    """
    since_ms = int(time.time() * 1000) - duration_ms(since, "--since")
    with reaching(ctx, bootstrap) as cluster:
        told = ask_each(cluster, ListAuditReply, ListAudit(since_ms), nodes_with_groups(cluster), say_left_out)
        acts = {(one.group_id, one.note.number): one for node in told for one in _acts(cluster, node, told[node])}
    found = sorted(acts.values(), key=lambda one: (one.note.wall_ms, one.group_id, one.note.number))
    if as_json:
        show_json([_document(one) for one in found])
    elif found:
        show_table(("WHEN", "ID", "ACT", "BY", "WHAT"), map(_row, found), whole="WHEN")
    else:
        print(f"No act on any group in the last {since}.")


def _acts(cluster: ClusterClient, node: Node, reply: ListAuditReply) -> list[AuditedNote]:
    """Return all acts that a node has; its reply has the first of them."""
    found = list(reply.notes)
    while reply.has_more:
        reply = expect(ListAuditReply, cluster.ask(ListAudit(found[-1].note.wall_ms), node=node))
        more = [one for one in reply.notes if one not in found]
        if not more:
            break
        found += more
    return found


def _row(one: AuditedNote) -> tuple[object, ...]:
    note = one.note
    return (
        local_time(note.wall_ms),
        f"{one.group_id}:{note.number}",
        note.act,
        _who(one),
        f"{note.cause}: {note.detail}" + (f", {note.times} times" if note.times > 1 else ""),
    )


def _who(one: AuditedNote) -> str:
    origin = one.note.origin
    if origin is None:
        return ""
    principal = f"{origin.principal}, " if origin.principal else ""
    return principal + client_text(origin.client_id, origin.client_host, origin.client_port)


def _document(one: AuditedNote) -> dict[str, Any]:
    return {
        "group_id": one.group_id,
        **note_facts(one.note),
        "when": utc_time(one.note.wall_ms),
        "id": f"{one.group_id}:{one.note.number}",
    }
