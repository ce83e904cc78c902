"""`muster groups drain`: stops Spark queries, and other members that send reports, from outside and without loss."""

import time
from typing import Annotated, Final

import typer

from diagnosis.people import client_of
from muster.admin.asking import describe_group
from muster.blocking.cluster import ClusterClient
from muster.cli.asking import ActRefused, AsJson, Bootstrap, reaching
from muster.cli.operating.naming import named_members
from muster.cli.showing import printable, show_json
from protocol.errors import ErrorCode
from protocol.messages.groups import DescribedMember
from protocol.messages.reports import DrainMembers, DrainMembersReply

_ASK_AGAIN_S: Final = 0.5


def drain(
    ctx: typer.Context,
    group: Annotated[str, typer.Argument(metavar="GROUP")],
    member: Annotated[list[str] | None, typer.Option("--member", metavar="ID")] = None,
    client: Annotated[list[str] | None, typer.Option("--client", metavar="CLIENT_ID", help="All its members.")] = None,
    timeout: Annotated[float, typer.Option(metavar="SECONDS", help="How long to wait; 0: not at all.")] = 300.0,
    bootstrap: Bootstrap = None,
    as_json: AsJson = False,
) -> None:
    """Make Spark queries stop reading, commit all they have read, and leave for good. Nothing is lost or read twice."""
    if not (member or client):
        raise typer.BadParameter("say which members: --member ID or --client CLIENT_ID")
    with reaching(ctx, bootstrap) as cluster:
        named = named_members(describe_group(cluster, group), member, client)
        request = DrainMembers(group, tuple(one.member_id for one in named))
        answers = cluster.ask_coordinator(DrainMembersReply, group, request).members
        refused = {one.member_id: one.error_code for one in answers if one.error_code}
        draining = [one for one in named if one.member_id not in refused]
        if not as_json:
            for one in draining:
                print(printable(f"Draining {client_of(one)}, {one.member_id}."))
        staying = _await_leaving(cluster, group, {one.member_id for one in draining}, timeout)
    if as_json:
        show_json([_document(one, refused.get(one.member_id), one.member_id in staying) for one in named])
    else:
        for one in draining:
            if one.member_id not in staying:
                print(printable(f"{client_of(one)}, {one.member_id}, has committed what it read and left."))
    problems = [_refusal(member_id, code) for member_id, code in refused.items()]
    if timeout:
        problems += [
            f"{member_id} has not left in {timeout:g} s, and will when its batch is done" for member_id in staying
        ]
    if problems:
        raise ActRefused("; ".join(problems))


def _await_leaving(cluster: ClusterClient, group: str, member_ids: set[str], timeout_s: float) -> set[str]:
    """Wait until members have left; return those that have not."""
    deadline = time.monotonic() + timeout_s
    while member_ids and time.monotonic() < deadline:
        time.sleep(_ASK_AGAIN_S)
        member_ids &= {one.member_id for one in describe_group(cluster, group).members}
    return member_ids


def _refusal(member_id: str, code: ErrorCode) -> str:
    if code is ErrorCode.UNSUPPORTED_VERSION:
        return f"{member_id} cannot drain, since it does not report itself as Spark queries do; `muster groups evict`"
    return f"{member_id} was not drained: {code.name}"


def _document(member: DescribedMember, code: ErrorCode | None, stays: bool) -> dict[str, object]:
    return {
        "member_id": member.member_id,
        "error": None if code is None else code.name,
        "has_left": not stays and not code,
    }
