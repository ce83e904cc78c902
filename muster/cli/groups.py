"""`muster groups list`, `muster groups describe GROUP` and `muster groups delete GROUP...`."""

from collections.abc import Iterable
from typing import Annotated, Any

import typer

from diagnosis.people import phase, waiting_for
from membership.topic_partition import TopicPartition
from muster.blocking.cluster import EARLIEST, LATEST, ClusterClient
from muster.cli import balanced, hand_back, owners
from muster.cli.asking import (
    AsJson,
    Bootstrap,
    Complaint,
    NotThere,
    committed_offsets,
    delete_groups,
    describe_group,
    list_groups,
    not_served,
    partitions_of,
    reaching,
    servers,
)
from muster.cli.ends import ends_of, left_out, oldest
from muster.cli.operating import exports, listing, pinning, surgery
from muster.cli.operating.carrying_out import ActRefused
from muster.cli.operating.member_facts import EPOCH_COLUMNS, VERBOSE_COLUMNS, epoch_row, facts_document, verbose_row
from muster.cli.showing import local_time, printable, show_csv, show_facts, show_json, show_table, utc_time
from muster.net.bootstrap import parse_bootstrap
from muster.net.dialects import ClientDialect
from protocol import consumer_protocol, streams_protocol
from protocol.errors import ErrorCode, ProtocolViolation
from protocol.messages.groups import DeletedGroup, DescribedGroup, DescribedMember

app = typer.Typer(no_args_is_help=True)
app.command()(owners.owners)
app.command("consume-from-max")(balanced.consume_from_max)
app.command("hand-back")(hand_back.hand_back)
app.command("reset")(surgery.reset)
app.command("delete-offsets")(surgery.delete_offsets)
app.command("evict")(surgery.evict)
app.command("pin")(pinning.pin)
app.command("unpin")(pinning.unpin)
app.command("export")(exports.export)
app.command("import")(exports.import_)


@app.command("list")
def list_command(
    ctx: typer.Context,
    bootstrap: Bootstrap = None,
    as_json: AsJson = False,
    verbose: Annotated[bool, typer.Option("--verbose", help="Members, lag, since when, and what is wrong.")] = False,
    as_csv: Annotated[bool, typer.Option("--csv", help="Comma-separated values for spreadsheets.")] = False,
) -> None:
    """All groups and their states."""
    if verbose:
        _list_verbose(ctx, bootstrap, as_json=as_json, as_csv=as_csv)
        return
    with reaching(ctx, bootstrap) as cluster:
        found = list_groups(cluster)
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


def _list_verbose(ctx: typer.Context, bootstrap: str | None, *, as_json: bool, as_csv: bool) -> None:
    is_musterd = parse_bootstrap(servers(ctx, bootstrap).bootstrap).dialect is ClientDialect.NATIVE
    with reaching(ctx, bootstrap) as cluster:
        found = listing.described_groups(cluster, is_musterd=is_musterd)
    if as_json:
        show_json(found)
    else:
        (show_csv if as_csv else show_table)(listing.COLUMNS, map(listing.row, found))


@app.command()
def describe(
    ctx: typer.Context,
    group: Annotated[str, typer.Argument(metavar="GROUP")],
    bootstrap: Bootstrap = None,
    as_json: AsJson = False,
    verbose: Annotated[bool, typer.Option("--verbose", help="Each member's times, connection and software.")] = False,
) -> None:
    """Show the members of a group, what each has, and how far it is.

    While the group rebalances, it says for how long, for whom it waits, and how long at most.

    Of the topics it has commits for or is assigned, all partitions are shown. The lag is the records after the
    committed offset; without one (-), all records there are. The total lag is their sum. Beside brokers, ends that
    are older than a few seconds say so.

    Of a client-balanced group, every partition of its topics is shown, and a warning where nobody reads some.
    """
    with reaching(ctx, bootstrap) as cluster:
        described = describe_group(cluster, group)
        if described.protocol_type in balanced.BALANCED_TYPES:
            balanced.describe_balanced(cluster, group, as_json=as_json)
            return
        owned = {member.member_id: _assigned(described, member.member_assignment) for member in described.members}
        committed = committed_offsets(cluster, group)
        owners = {one: member_id for member_id, ones in owned.items() for one in ones}
        lines = _progress(cluster, committed, owners)
    if as_json:
        show_json(_document(described, owned, lines))
    else:
        _show(described, owned, lines, is_verbose=verbose)


@app.command()
def delete(
    ctx: typer.Context,
    groups: Annotated[list[str], typer.Argument(metavar="GROUP...")],
    bootstrap: Bootstrap = None,
    as_json: AsJson = False,
) -> None:
    """Delete groups that have no members, with all offsets they have committed."""
    with reaching(ctx, bootstrap) as cluster:
        results = delete_groups(cluster, dict.fromkeys(groups))
    if as_json:
        show_json([{"group_id": one.group_id, "deleted": not one.error_code, "error": _error(one)} for one in results])
    else:
        for one in results:
            if not one.error_code:
                print(f"Deleted group {printable(one.group_id)}.")
    refused = [_why_not(one) for one in results if one.error_code]
    if refused:
        raise _kind_of(results)("; ".join(refused))


def _kind_of(results: list[DeletedGroup]) -> type[Complaint]:
    codes = {one.error_code for one in results if one.error_code}
    if ErrorCode.NON_EMPTY_GROUP in codes:
        return ActRefused
    return NotThere if codes == {ErrorCode.GROUP_ID_NOT_FOUND} else Complaint


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


def _assigned(group: DescribedGroup, assignment: bytes) -> list[TopicPartition]:
    """Show nothing for what cannot be read: other kinds of members write what they like."""
    topics: Iterable[tuple[str, Iterable[int]]] = ()
    try:
        if group.protocol_type == consumer_protocol.PROTOCOL_TYPE:
            topics = consumer_protocol.decode_assignment(assignment).partitions
        elif group.protocol_type == streams_protocol.PROTOCOL_TYPE:
            topics = streams_protocol.decode_streams_assignment(assignment).items()
    except ProtocolViolation:
        return []
    return sorted(TopicPartition(topic, partition) for topic, partitions in topics for partition in partitions)


def _progress(
    cluster: ClusterClient, committed: dict[TopicPartition, int], owners: dict[TopicPartition, str]
) -> list[dict[str, Any]]:
    """A line a partition. Without a commit of its own all that a partition has is still to be read."""
    named = committed.keys() | owners.keys()
    existing = partitions_of(cluster, {one.topic for one in named})
    found = ends_of(cluster, existing, LATEST)
    ends = {one: end.offset for one, end in found.items()}
    first = ends_of(cluster, existing - committed.keys(), EARLIEST)
    begins = {**{one: begin.offset for one, begin in first.items()}, **committed}
    return [
        {
            "topic": one.topic,
            "partition": one.partition,
            "committed_offset": committed.get(one),
            "end_offset": ends.get(one),
            "lag": max(0, ends[one] - begins[one]) if one in ends and one in begins else None,
            "member_id": owners.get(one),
            "end_age_ms": found[one].age_ms if one in found else None,
        }
        for one in sorted(named | existing)
    ]


def _document(
    group: DescribedGroup, owned: dict[str, list[TopicPartition]], lines: list[dict[str, Any]]
) -> dict[str, Any]:
    return {
        "group_id": group.group_id,
        "state": group.group_state,
        "state_since": utc_time(group.state_since_ms) if group.state_since_ms >= 0 else None,
        "generation_id": group.generation_id,
        **({"target_epoch": group.target_epoch} if group.target_epoch >= 0 else {}),
        "protocol_type": group.protocol_type,
        "protocol": group.protocol_data,
        "leader": group.leader,
        "rebalance_timeout_ms": group.rebalance_timeout_ms,
        "pending_members": group.pending_members,
        "shard": group.shard if group.shard >= 0 else None,
        "log": _log(group),
        "phase": group.phase or None,
        "phase_ms": group.phase_ms if group.phase else None,
        "phase_left_ms": group.phase_left_ms if group.phase else None,
        "waiting_for": list(group.waiting_for),
        "limited_by": group.limited_by or None,
        "members": [
            {
                "member_id": member.member_id,
                "group_instance_id": member.group_instance_id,
                "client_id": member.client_id,
                "client_host": member.client_host,
                "partitions": [{"topic": one.topic, "partition": one.partition} for one in owned[member.member_id]],
                **facts_document(member),
                **(_epochs(group, member) if group.target_epoch >= 0 else {}),
            }
            for member in group.members
        ],
        "partitions": lines,
        "total_lag": sum(line["lag"] or 0 for line in lines),
    }


def _epochs(group: DescribedGroup, member: DescribedMember) -> dict[str, Any]:
    """Return the facts of a server-driven member."""
    assignments = {"target": member.target_assignment, "to_revoke": member.pending_revocation}
    return {
        "member_epoch": member.member_epoch,
        "revoking_ms": member.revoking_ms if member.revoking_ms >= 0 else None,
        **{
            name: [{"topic": one.topic, "partition": one.partition} for one in _assigned(group, encoded)]
            for name, encoded in assignments.items()
        },
    }


def _epoch_row(group: DescribedGroup, member: DescribedMember) -> tuple[object, ...]:
    target, pending = _assigned(group, member.target_assignment), _assigned(group, member.pending_revocation)
    return epoch_row(member, _ranges(target), _ranges(pending))


def _log(group: DescribedGroup) -> str | None:
    """Name the log as `musterd log` does. A node of an earlier version does not say."""
    return f"__consumer_offsets-{group.shard}" if group.shard >= 0 else None


def _show(
    group: DescribedGroup, owned: dict[str, list[TopicPartition]], lines: list[dict[str, Any]], *, is_verbose: bool
) -> None:
    since = f" since {local_time(group.state_since_ms)}" if group.state_since_ms >= 0 else ""
    protocol = " / ".join(part for part in (group.protocol_type, group.protocol_data) if part)
    is_server_driven = group.target_epoch >= 0
    generation = [("Generation", group.generation_id)]
    facts: list[tuple[str, object]] = [
        ("Group", group.group_id),
        ("State", group.group_state + since),
        *((name, said) for name, said in (("Phase", phase(group)), ("Waiting for", waiting_for(group))) if said),
        *([("Epoch", group.generation_id), ("Target", _target(group))] if is_server_driven else generation),
        ("Protocol", protocol),
        ("Leader", group.leader),
        ("Total lag", _total(lines) if lines else None),  # nobody has a share yet
    ]
    if (age := oldest(lines)) is not None:
        facts.append(("Ends", age))
    if log := _log(group):
        facts.append(("Shard", f"{group.shard} (log {log})"))
    if group.pending_members:
        facts.append(("Pending ids", group.pending_members))
    show_facts(facts)
    if group.members:
        print()
        rows = [
            (m.member_id, m.group_instance_id, m.client_id, m.client_host, _ranges(owned[m.member_id]))
            for m in group.members
        ]
        show_table(("MEMBER", "INSTANCE", "CLIENT", "HOST", "PARTITIONS"), rows)
        if is_verbose:
            print()
            show_table(VERBOSE_COLUMNS, map(verbose_row, group.members))
        if is_verbose and is_server_driven:
            print()
            show_table(EPOCH_COLUMNS, [_epoch_row(group, member) for member in group.members])
    if lines:
        print()
        show_table(
            ("TOPIC", "PARTITION", "COMMITTED", "END", "LAG", "MEMBER"), (tuple(line.values())[:-1] for line in lines)
        )


def _target(group: DescribedGroup) -> str:
    is_behind = group.target_epoch < group.generation_id
    return f"epoch {group.target_epoch}" + (", the next one is not computed yet" if is_behind else "")


def _total(lines: list[dict[str, Any]]) -> str:
    known = [line["lag"] for line in lines if line["lag"] is not None]
    return f"{sum(known) if known else '-'}{left_out(lines)}"


def _ranges(partitions: list[TopicPartition]) -> str:
    """`flights 0-3 7, other 0`."""
    by_topic: dict[str, list[list[int]]] = {}
    for topic, partition in partitions:
        runs = by_topic.setdefault(topic, [])
        if runs and runs[-1][1] == partition - 1:
            runs[-1][1] = partition
        else:
            runs.append([partition, partition])
    return ", ".join(
        f"{topic} " + " ".join(f"{low}-{high}" if low < high else f"{low}" for low, high in runs)
        for topic, runs in by_topic.items()
    )
