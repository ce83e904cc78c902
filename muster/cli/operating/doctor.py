"""`muster doctor [GROUP]`: what is wrong with groups now, which client causes it, and how to fix it."""

import time
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Annotated, Any, Final

import typer

from diagnosis import gathering
from diagnosis.assignments import Key
from diagnosis.facts import known_facts
from diagnosis.people import duration
from diagnosis.problem import Evidence, GroupProblem, continued
from membership.topic_partition import TopicPartition
from muster.admin.asking import NotFound, describe_expiry, list_notes, list_topics
from muster.admin.describing import ask_description
from muster.admin.ends import ends_of, first_records
from muster.admin.nodes import ask_each, list_groups, nodes_with_groups
from muster.blocking.cluster import ClusterClient
from muster.cli.asking import AsJson, Bootstrap, describe_node, is_musterd, reaching
from muster.cli.failures import ExitCode
from muster.cli.operating.watching import Watch, watched
from muster.cli.showing import local_time, printable, say_left_out, say_nothing, show_json, utc_time
from muster.errors import Refused
from protocol.client_text import client_text
from protocol.errors import ErrorCode
from protocol.messages.groups import (
    DescribedGroup,
    ListedNote,
    ListRefusals,
    ListRefusalsReply,
)
from protocol.messages.offsets import OffsetFetch, OffsetFetchGroup, OffsetFetchReply
from protocol.words import counted

_LOOK_AGAIN_S: Final = 10.0


def doctor(
    ctx: typer.Context,
    group: Annotated[str | None, typer.Argument(metavar="[GROUP]", help="Default: all groups.")] = None,
    bootstrap: Bootstrap = None,
    as_json: AsJson = False,
    look_s: Annotated[
        float,
        typer.Option(
            "--look", metavar="SECONDS", min=0, help="At Kafka: time between two checks, if one is not enough."
        ),
    ] = _LOOK_AGAIN_S,
    watch: Watch = None,
) -> None:
    """Show what is wrong with groups: problem, client, since when, cost, and the command that helps.

    It changes nothing, and works at any Kafka (--bootstrap kafka://HOST:PORT). A broker reports less than musterd:
    neither the members that a rebalance waits for nor refused clients; a group that rebalances there is checked twice.
    Exit code 6 if there is a problem.
    """
    with reaching(ctx, bootstrap) as cluster:
        last: list[GroupProblem] = []
        show = partial(_look, cluster, group, look_s, last, is_musterd=is_musterd(ctx, bootstrap), as_json=as_json)
        watched(ctx, watch, show, is_data=as_json)


def _look(
    cluster: ClusterClient,
    group: str | None,
    look_s: float,
    last: list[GroupProblem],
    *,
    is_musterd: bool,
    as_json: bool,
) -> None:
    """Show the problems, and replace `last`, those of the look before, by them."""
    group_ids = [one.group_id for one in list_groups(cluster, say_left_out)] if group is None else [group]
    known, evidence = gathered(cluster, group_ids, () if group is None else (group,), is_musterd=is_musterd)
    if not is_musterd and look_s and gathering.needs_second_look(evidence):
        evidence = _second_look(cluster, group_ids, known, evidence, look_s)
    found = last[:] = continued(gathering.problems(evidence, known), last, known.now_ms)
    if group is not None and not (evidence or found):
        raise NotFound(f"there is no group {group!r}: see `muster groups list`")
    if as_json:
        show_json({"problems": [problem_document(one) for one in found]})
    else:
        _show(found, known.now_ms, len(evidence))
    if found:
        raise typer.Exit(ExitCode.PROBLEM)


def gathered(
    cluster: ClusterClient, group_ids: list[str], refused_by: tuple[str, ...] = (), *, is_musterd: bool
) -> tuple[gathering.Known, list[Evidence]]:
    """Gather evidence about the groups once. `refused_by`: the groups whose refusals count; all if empty."""
    known = _known(cluster, refused_by, is_musterd=is_musterd)
    return known, gathering.at_once(gathering.gather(_ServerEvidence(cluster), group_ids, known))


def _known(cluster: ClusterClient, group_ids: tuple[str, ...], *, is_musterd: bool) -> gathering.Known:
    counts = {topic.name or "": len(topic.partitions) for topic in list_topics(cluster) if not topic.is_internal}
    if not is_musterd:
        return gathering.Known(int(time.time() * 1000), counts, tells_all=False)
    node = describe_node(cluster)
    wall_ms = int(time.time() * 1000) if node is None else node.wall_ms
    left_out = say_left_out if group_ids else say_nothing  # already reported with the list of all groups
    told = ask_each(cluster, ListRefusalsReply, ListRefusals(group_ids), nodes_with_groups(cluster), left_out)
    return gathering.Known(wall_ms, counts, tuple(one for reply in told.values() for one in reply.refusals))


def _second_look(
    cluster: ClusterClient, group_ids: list[str], known: gathering.Known, first: list[Evidence], look_s: float
) -> list[Evidence]:
    waited_ms = wait(look_s)
    second = gathering.at_once(gathering.gather(_ServerEvidence(cluster), group_ids, known))
    return gathering.compared(first, second, waited_ms)


def wait(look_s: float) -> int:
    """Wait before the second gathering; return the milliseconds between the two."""
    time.sleep(look_s)
    return round(look_s * 1000)


class _ServerEvidence:
    """The servers behind `--bootstrap` as a source of evidence."""

    def __init__(self, cluster: ClusterClient) -> None:
        self._cluster = cluster

    async def describe(self, group_ids: Sequence[str]) -> list[DescribedGroup]:
        return [found for one in group_ids if (found := _described(self._cluster, one)) is not None]

    async def commits(self, group_ids: Sequence[str]) -> dict[str, dict[Key, gathering.Commit]]:
        return {one: _commits(self._cluster, one) for one in group_ids}

    async def offsets_at(self, keys: Sequence[Key], timestamp: int) -> dict[Key, int]:
        existing = {topic.name: len(topic.partitions) for topic in list_topics(self._cluster)}
        wanted = [TopicPartition(*key) for key in keys if key[1] < existing.get(key[0], 0)]
        found = ends_of(self._cluster, wanted, timestamp)
        return {(one.topic, one.partition): end.offset for one, end in found.items()}

    async def first_records(self, since: Mapping[Key, int]) -> dict[Key, gathering.WrittenRecord]:
        return first_records(self._cluster, since)

    async def notes(self, group_id: str) -> tuple[ListedNote, ...]:
        return tuple(list_notes(self._cluster, group_id, gathering.NOTES_A_GROUP))

    async def first_expiry(self, group_id: str) -> int:
        _first, offsets = describe_expiry(self._cluster, group_id)
        return min((one.expires_ms for one in offsets if one.expires_ms >= 0), default=-1)


def _described(cluster: ClusterClient, group_id: str) -> DescribedGroup | None:
    group = ask_description(cluster, group_id)
    if group.error_code is ErrorCode.GROUP_ID_NOT_FOUND:
        return None
    if group.error_code:
        raise Refused(group.error_code, f"group {group_id!r}: {group.error_message or group.error_code.name}")
    return group


def _commits(cluster: ClusterClient, group_id: str) -> dict[Key, gathering.Commit]:
    wanted = OffsetFetch((OffsetFetchGroup(group_id, with_origins=True),))
    return gathering.commits_of(cluster.ask_coordinator(OffsetFetchReply, group_id, wanted).groups[0])


def problem_document(problem: GroupProblem) -> dict[str, Any]:
    """Return the problem as JSON, for scripts."""
    return {
        **known_facts(problem),
        "since": utc_time(problem.since_ms) if problem.since_ms >= 0 else None,
    }


def culprit_of(problem: GroupProblem) -> str:
    """Name the client that causes the problem; empty if there is none."""
    return client_text(problem.client_id, problem.client_host, problem.client_port) if problem.client_host else ""


def _show(found: list[GroupProblem], now_ms: int, looked_at: int) -> None:
    """Print a paragraph for each problem, with the culprit in its first line."""
    if not found:
        print(f"No problem in {counted(looked_at, 'group')}.")
        return
    for number, one in enumerate(found):
        if number:
            print()
        who = culprit_of(one)
        print(printable(f"{one.group_id}: {one.kind.value}" + (f", {who}" if who else "")))
        print(printable(f"  {one.sentence}"))
        if one.since_ms >= 0:
            print(f"  since {local_time(one.since_ms)}, {duration(max(0, now_ms - one.since_ms))}")
        elif 0 <= one.seen_ms < now_ms:
            print(f"  seen since {local_time(one.seen_ms)}, {duration(now_ms - one.seen_ms)}")
        if one.partitions:
            print(f"  costs {counted(one.partitions, 'partition')}, unread: {counted(one.records, 'record')}")
        if one.command:
            print(printable(f"  {one.command}"))
