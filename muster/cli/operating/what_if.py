"""`muster groups what-if`: the assignment that would follow a change."""

from typing import Annotated

import typer

from diagnosis.assignments import ranges
from membership.outlook import GroupChange, Outlook, facts_of, foresee, parse_partitions, subscribed
from muster.admin.asking import Complaint, describe_group
from muster.blocking.cluster import expect
from muster.cli.asking import AsJson, Bootstrap, reaching
from muster.cli.showing import printable, show_json, show_table
from protocol.messages.topics import Metadata, MetadataReply, MetadataTopic
from protocol.words import counted

_MOST_SHOWN = 20


def what_if(
    ctx: typer.Context,
    group: Annotated[str, typer.Argument(metavar="GROUP")],
    members: Annotated[
        str, typer.Option("--members", metavar="+N|-N", help="Members that join (+N) or leave (-N).")
    ] = "0",
    partitions: Annotated[
        list[str] | None, typer.Option("--partitions", metavar="TOPIC=N", help="A topic grows. May be repeated.")
    ] = None,
    assignor: Annotated[str, typer.Option("--assignor", metavar="NAME", help="Another assignor.")] = "",
    bootstrap: Bootstrap = None,
    as_json: AsJson = False,
) -> None:
    """Show the assignment that would follow a change of a group, and what would move. Changes nothing.

    The command runs the assignors of members and coordinators itself. Added members subscribe as the first one does;
    removed members are the last ones.
    """
    try:
        change = GroupChange(int(members), parse_partitions(",".join(partitions or ())), assignor)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None
    with reaching(ctx, bootstrap) as cluster:
        described = describe_group(cluster, group)
        try:
            wanted = tuple(MetadataTopic(name) for name in subscribed(described))
            outlook = foresee(described, expect(MetadataReply, cluster.ask(Metadata(wanted))), change)
        except ValueError as error:
            raise Complaint(str(error)) from None
    if as_json:
        show_json(facts_of(group, outlook))
    else:
        _show(outlook)


def _show(outlook: Outlook) -> None:
    rows = [
        (member_id, ranges(sorted(outlook.before.get(member_id, ()))), ranges(sorted(outlook.after.get(member_id, ()))))
        for member_id in outlook.before | outlook.after
    ]
    show_table(("MEMBER", "NOW", "THEN"), rows)
    moved = outlook.moved
    of = len({one for share in outlook.after.values() for one in share})
    print(f"\n{len(moved)} of {counted(of, 'partition')} would move, by {outlook.assignor}" + (":" if moved else "."))
    for one in moved[:_MOST_SHOWN]:
        print(printable(f"{one.partition}: {one.owner or 'nobody'} -> {one.next_owner or 'nobody'}"))
    if len(moved) > _MOST_SHOWN:
        print(f"and {len(moved) - _MOST_SHOWN} more: see --json")
