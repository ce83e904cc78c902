"""`muster groups list`, `muster groups describe GROUP` and `muster groups delete GROUP...`."""

from functools import partial
from typing import Annotated

import typer

from muster.admin.asking import Complaint, NotFound, delete_groups, not_served
from muster.admin.nodes import list_groups
from muster.blocking.cluster import ClusterClient
from muster.cli import balanced, hand_back, owners
from muster.cli.asking import ActRefused, AsCsv, AsJson, Bootstrap, is_musterd, reaching
from muster.cli.operating import draining, exports, group_settings, holding, listing, surgery, what_if
from muster.cli.operating.group_views import DescribeForm, GroupView, show_groups
from muster.cli.operating.watching import Watch, WatchableCommand, watched
from muster.cli.showing import printable, say_left_out, show_csv, show_json, show_table
from protocol.errors import ErrorCode
from protocol.messages.groups import DeletedGroup

app = typer.Typer(no_args_is_help=True)
app.command()(owners.owners)
app.command("consume-from-max")(balanced.consume_from_max)
app.command("hand-back")(hand_back.hand_back)
app.command("reset")(surgery.reset)
app.command("delete-offsets")(surgery.delete_offsets)
app.command("evict")(surgery.evict)
app.command("hold")(holding.hold)
app.command("release")(holding.release)
app.command("what-if")(what_if.what_if)
app.command("drain")(draining.drain)
app.command("alter")(group_settings.alter)
app.command("pin")(group_settings.pin)
app.command("unpin")(group_settings.unpin)
app.command("export")(exports.export)
app.command("import")(exports.import_)


@app.command("list", cls=WatchableCommand)
def list_command(
    ctx: typer.Context,
    bootstrap: Bootstrap = None,
    as_json: AsJson = False,
    verbose: Annotated[bool, typer.Option("--verbose", help="Members, lag, since when, and what is wrong.")] = False,
    as_csv: AsCsv = False,
    watch: Watch = None,
) -> None:
    """All groups and their states."""
    with reaching(ctx, bootstrap) as cluster:
        if verbose:
            tells_all = is_musterd(ctx, bootstrap)
            show = partial(_list_verbose, cluster, is_musterd=tells_all, as_json=as_json, as_csv=as_csv)
        else:
            show = partial(_list, cluster, as_json=as_json, as_csv=as_csv)
        watched(ctx, watch, show, is_data=as_json or as_csv)


def _list(cluster: ClusterClient, *, as_json: bool, as_csv: bool) -> None:
    found = list_groups(cluster, say_left_out)
    if as_csv:
        show_csv(("GROUP", "STATE", "PROTOCOL TYPE"), ((g.group_id, g.group_state, g.protocol_type) for g in found))
        return
    if as_json:
        show_json(
            [
                {"group_id": g.group_id, "state": g.group_state, "protocol_type": g.protocol_type, "type": g.group_type}
                for g in found
            ]
        )
    elif found:
        show_table(("GROUP", "STATE", "PROTOCOL TYPE"), ((g.group_id, g.group_state, g.protocol_type) for g in found))
    else:
        print("There are no groups. One appears with its first member: `muster consume TOPIC --group GROUP`.")


def _list_verbose(cluster: ClusterClient, *, is_musterd: bool, as_json: bool, as_csv: bool) -> None:
    found = listing.described_groups(cluster, is_musterd=is_musterd)
    if as_json:
        show_json(found)
    else:
        (show_csv if as_csv else show_table)(listing.COLUMNS, map(listing.row, found))


@app.command(cls=WatchableCommand)
def describe(
    ctx: typer.Context,
    groups: Annotated[list[str] | None, typer.Argument(metavar="GROUP...", show_default=False)] = None,
    all_groups: Annotated[bool, typer.Option("--all-groups", help="Instead of GROUP.")] = False,
    offsets: Annotated[bool, typer.Option("--offsets", help="Only offsets, a line for each partition.")] = False,
    members: Annotated[bool, typer.Option("--members", help="Only members, a line for each.")] = False,
    state: Annotated[bool, typer.Option("--state", help="Only states, a line for each group.")] = False,
    verbose: Annotated[bool, typer.Option("--verbose", help="Each member's times, connection and software.")] = False,
    bootstrap: Bootstrap = None,
    as_json: AsJson = False,
    as_csv: AsCsv = False,
    watch: Watch = None,
) -> None:
    """Show the members of groups, their partitions, offsets and lag.

    For a group that rebalances, it shows the time so far, the members waited for, and the time limit. The group's
    problems come first, with the client that causes each.

    It shows all partitions of the topics that the group has commits for or is assigned. The lag is the number of
    records after the committed offset; without one (-), of all records. The total lag is their sum. Beside brokers,
    log ends that are older than a few seconds are marked with their age.

    For a client-balanced group it shows every partition of its topics, and warns of partitions without an owner.

    --offsets, --members and --state are tables over all groups, with more columns by --verbose. The default with --csv
    is --offsets.
    """
    if bool(groups) == all_groups:
        raise typer.BadParameter("say which groups: GROUP..., or --all-groups")
    views = {GroupView.OFFSETS: offsets, GroupView.MEMBERS: members, GroupView.STATE: state}
    chosen = [view for view, is_meant in views.items() if is_meant]
    if len(chosen) > 1:
        raise typer.BadParameter("say one of --offsets, --members and --state")
    if as_csv and as_json:
        raise typer.BadParameter("say one of --csv and --json")
    view = chosen[0] if chosen else GroupView.OFFSETS if as_csv else None
    is_one = len(set(groups or ())) == 1
    with reaching(ctx, bootstrap) as cluster:
        form = DescribeForm(view, is_one, verbose, as_json, as_csv, is_musterd(ctx, bootstrap))
        watched(ctx, watch, partial(show_groups, cluster, groups or None, form), is_data=as_json or as_csv)


@app.command()
def delete(
    ctx: typer.Context,
    groups: Annotated[list[str], typer.Argument(metavar="GROUP...")],
    bootstrap: Bootstrap = None,
    as_json: AsJson = False,
) -> None:
    """Delete groups that have no members, with all offsets they have committed.

    musterd keeps up to 2,000 of a group's deleted offsets: `muster audit` shows the id by which `muster undo` restores
    them.
    """
    results: list[DeletedGroup] = []
    try:
        with reaching(ctx, bootstrap) as cluster:
            results.extend(delete_groups(cluster, dict.fromkeys(groups)))
    finally:
        _show_deleted(results, as_json=as_json)  # an error may have ended it midway
    refused = [_why_not(one) for one in results if one.error_code]
    if refused:
        raise _kind_of(results)("; ".join(refused))


def _show_deleted(results: list[DeletedGroup], *, as_json: bool) -> None:
    if as_json:
        if results:
            show_json(
                [{"group_id": one.group_id, "deleted": not one.error_code, "error": _error(one)} for one in results]
            )
        return
    for one in results:
        if not one.error_code:
            print(f"Deleted group {printable(one.group_id)}.")


def _kind_of(results: list[DeletedGroup]) -> type[Complaint]:
    codes = {one.error_code for one in results if one.error_code}
    if ErrorCode.NON_EMPTY_GROUP in codes:
        return ActRefused
    return NotFound if codes == {ErrorCode.GROUP_ID_NOT_FOUND} else Complaint


def _error(deleted: DeletedGroup) -> str | None:
    return deleted.error_code.name if deleted.error_code else None


def _why_not(deleted: DeletedGroup) -> str:
    name = repr(deleted.group_id)
    if deleted.error_code is ErrorCode.NON_EMPTY_GROUP:
        return f"group {name} has members: stop them first, see `muster groups describe`"
    if deleted.error_code is ErrorCode.GROUP_ID_NOT_FOUND:
        return f"there is no group {name}: see `muster groups list`"
    return (
        not_served(deleted.group_id, deleted.error_code) or f"group {name} was not deleted: {deleted.error_code.name}"
    )
