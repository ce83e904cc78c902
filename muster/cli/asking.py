"""Questions of the command, put to whichever node has the answer."""

from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from typing import Annotated, Final, NamedTuple

import typer

from membership.topic_partition import TopicPartition
from muster.blocking.cluster import ClusterClient, expect
from muster.cli.describing import ask_description
from muster.errors import Refused
from muster.net.bootstrap import parse_bootstrap
from muster.net.dialects import ClientDialect
from muster.net.security import Security
from protocol.errors import ErrorCode
from protocol.messages.groups import (
    DeletedGroup,
    DeleteGroups,
    DeleteGroupsReply,
    DescribedGroup,
    ListedNote,
    ListNotes,
    ListNotesReply,
)
from protocol.messages.node import DescribeNode, DescribeNodeReply
from protocol.messages.offsets import (
    DescribeExpiry,
    DescribeExpiryReply,
    ExpiringOffset,
    OffsetFetch,
    OffsetFetchGroup,
    OffsetFetchPartitionReply,
    OffsetFetchReply,
)
from protocol.messages.ownership import DescribeOwnership, DescribeOwnershipReply, OwnedPartition
from protocol.messages.topics import Metadata, MetadataReply, MetadataTopicReply

DEFAULT_BOOTSTRAP = "127.0.0.1:9390"
NAMED: Final = "muster.cli.named"
"""Key in the context for what arguments name (`group`, `groups` or `topic`), which documents of failures say."""
_UNREACHED = "no broker of the cluster was reached yet: "

Bootstrap = Annotated[
    str | None, typer.Option(metavar="HOST:PORT", help="As before the command: where musterd listens.")
]
AsJson = Annotated[bool, typer.Option("--json", help="One JSON document for scripts.")]


class Servers(NamedTuple):
    """The servers to ask first, and how to reach them; brokers of Kafka's may be reached otherwise."""

    bootstrap: str = DEFAULT_BOOTSTRAP
    security: Security | None = None
    broker_security: Security | None = None


class Complaint(Exception):
    """A refusal by the command itself, with a sentence for people."""


class NotThere(Complaint):
    """Something that was named does not exist."""


class ActRefused(Complaint):
    """A change that was refused: the group has members, the plan is stale, or it is not permitted."""


def not_served(group_id: str, code: ErrorCode) -> str | None:
    """Return where to look when a coordinator does not answer for a group, None for any other code. A single node
    answers NOT_COORDINATOR for a shard that it could not load.
    """
    if code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
        return (
            f"the shard of group {group_id!r} is being loaded: GET /readyz (HTTP) says how far that is; then try again"
        )
    if code is ErrorCode.NOT_COORDINATOR:
        return (
            f"the shard of group {group_id!r} is not served ({code.name}): it is not loaded yet, or could not be; "
            "GET /readyz (HTTP, as `curl http://127.0.0.1:9391/readyz`) says which, and why"
        )
    return None


@contextmanager
def answering_for(group_id: str) -> Iterator[None]:
    """Turns what is said of the group's shard, and that there is no such group, into a Complaint."""
    try:
        yield
    except Refused as refused:
        if refused.error_code is ErrorCode.GROUP_ID_NOT_FOUND:
            raise NotThere(f"there is no group {group_id!r}: see `muster groups list`") from None
        if sentence := not_served(group_id, refused.error_code):
            raise Complaint(sentence) from None
        raise


def servers(ctx: typer.Context, bootstrap: str | None) -> Servers:
    """Return what was said before the command, with what was said after it."""
    said: Servers = ctx.obj
    return said._replace(bootstrap=bootstrap) if bootstrap else said


@contextmanager
def reaching(ctx: typer.Context, bootstrap: str | None) -> Iterator[ClusterClient]:
    """The nodes behind `--bootstrap`, closed at the end. A wrong address is a usage error."""
    ctx.meta[NAMED] = _named(ctx)
    with reaching_servers(servers(ctx, bootstrap), "--bootstrap") as cluster:
        yield cluster


def _named(ctx: typer.Context) -> dict[str, object]:
    is_of_topics = ctx.parent is not None and ctx.parent.info_name == "topics"
    named = {one: ctx.params[one] for one in ("group", "groups", "topic") if ctx.params.get(one)}
    if len(named.get("groups", ())) == 1:
        named = {"group": named["groups"][0]}
    return named | ({"topic": ctx.params["name"]} if is_of_topics and "name" in ctx.params else {})


@contextmanager
def administering(ctx: typer.Context, bootstrap: str | None, not_permitted: str) -> Iterator[ClusterClient]:
    """Same as `reaching`. Raises ActRefused with the sentence `not_permitted` where the access rules of the cluster
    refuse a request.
    """
    with reaching(ctx, bootstrap) as cluster:
        try:
            yield cluster
        except Refused as refused:
            if refused.error_code is ErrorCode.CLUSTER_AUTHORIZATION_FAILED:
                raise ActRefused(not_permitted) from None
            raise


@contextmanager
def reaching_topics(ctx: typer.Context, bootstrap: str | None) -> Iterator[ClusterClient]:
    """Same as `reaching`, for what is about topics. Raises Complaint where musterd stands beside a Kafka cluster and
    has never reached it: it knows of no topic then, and that would look as if there were none.
    """
    with reaching(ctx, bootstrap) as cluster:
        if parse_bootstrap(servers(ctx, bootstrap).bootstrap).dialect is ClientDialect.NATIVE:
            _refuse_unreached(expect(DescribeNodeReply, cluster.ask(DescribeNode())))
        else:
            topology(cluster, topics=False)  # where nobody answers, that is said at once
        yield cluster


def _refuse_unreached(node: DescribeNodeReply) -> None:
    if node.gauges.get("upstream_reachable") == 0 and not node.gauges.get("upstream_brokers"):
        why = node.upstream_problem.removeprefix(_UNREACHED) or "it has just been asked"
        raise Complaint(f"musterd has not reached its Kafka cluster yet: {why}")


@contextmanager
def reaching_servers(where: Servers, hint: str) -> Iterator[ClusterClient]:
    """Same as `reaching`; `hint` names the option that said where."""
    _check_files("", where.security)
    _check_files("broker.", where.broker_security)
    try:
        parse_bootstrap(where.bootstrap, None, where.security, where.broker_security)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint=hint) from None
    cluster = ClusterClient(
        where.bootstrap, client_id="muster-cli", security=where.security, broker_security=where.broker_security
    )
    try:
        yield cluster
    finally:
        cluster.close()


def _check_files(prefix: str, security: Security | None) -> None:
    """Raise a usage error, with the setting's name, for a file that cannot be read."""
    try:
        if security is not None:
            security.context()
    except ValueError as error:
        is_ours = security is not None and security.certificate_location and "a certificate and its key" in str(error)
        name = f"{prefix}ssl.certificate.location" if is_ours else f"{prefix}ssl.ca.location"
        raise typer.BadParameter(str(error), param_hint=name) from None


def topology(cluster: ClusterClient, *, topics: bool) -> MetadataReply:
    """The nodes, and all topics if wanted."""
    return expect(MetadataReply, cluster.ask(Metadata(topics=None if topics else ())))


def list_topics(cluster: ClusterClient) -> list[MetadataTopicReply]:
    """By name; those that cannot be shown are left out."""
    found = (topic for topic in topology(cluster, topics=True).topics if topic.name is not None)
    return sorted((topic for topic in found if not topic.error_code), key=lambda topic: topic.name or "")


def describe_group(cluster: ClusterClient, group_id: str) -> DescribedGroup:
    """Raises Complaint, or Refused."""
    with answering_for(group_id):
        group = ask_description(cluster, group_id)
        if group.error_code:
            raise Refused(group.error_code, group.error_message or f"group {group_id!r}: {group.error_code.name}")
        return group


def committed_offsets(cluster: ClusterClient, group_id: str) -> dict[TopicPartition, int]:
    return {one: commit.committed_offset for one, commit in fetch_commits(cluster, group_id).items()}


def fetch_commits(cluster: ClusterClient, group_id: str) -> dict[TopicPartition, OffsetFetchPartitionReply]:
    """Return the committed offsets of a group. Raises Complaint, or Refused."""
    with answering_for(group_id):
        wanted = OffsetFetch((OffsetFetchGroup(group_id),))
        group = cluster.ask_coordinator(OffsetFetchReply, group_id, wanted).groups[0]
        if group.error_code:
            raise Refused(group.error_code, f"the offsets of {group_id!r}: {group.error_code.name}")
    return {
        TopicPartition(topic.name, part.partition_index): part
        for topic in group.topics
        for part in topic.partitions
        if not part.error_code and part.committed_offset >= 0
    }


def describe_expiry(cluster: ClusterClient, group_id: str) -> tuple[DescribeExpiryReply, list[ExpiringOffset]]:
    """Return what is said of the group, and of all its partitions. Raises Complaint, or Refused."""
    offsets: list[ExpiringOffset] = []
    with answering_for(group_id):
        first = reply = cluster.ask_coordinator(DescribeExpiryReply, group_id, DescribeExpiry(group_id))
        offsets += reply.offsets
        while reply.has_more:
            last = offsets[-1]
            more = DescribeExpiry(group_id, after_topic=last.topic, after_partition=last.partition_index)
            reply = cluster.ask_coordinator(DescribeExpiryReply, group_id, more)
            offsets += reply.offsets
    return first, offsets


def describe_ownership(cluster: ClusterClient, group_id: str) -> tuple[OwnedPartition, ...]:
    """The grants that hold now, by partition. Raises Complaint, or Refused."""
    with answering_for(group_id):
        reply = cluster.ask_coordinator(DescribeOwnershipReply, group_id, DescribeOwnership(group_id))
        if reply.error_code:
            raise Refused(reply.error_code, f"the owners of {group_id!r}: {reply.error_code.name}")
    return reply.items


def partitions_of(cluster: ClusterClient, names: Collection[str]) -> frozenset[TopicPartition]:
    """All partitions of those topics that exist."""
    found = [topic for topic in list_topics(cluster) if topic.name in names] if names else []
    return frozenset(
        TopicPartition(topic.name or "", number) for topic in found for number in range(len(topic.partitions))
    )


def delete_groups(cluster: ClusterClient, group_ids: Iterable[str]) -> list[DeletedGroup]:
    """Return what became of each, in order."""
    found: list[DeletedGroup] = []
    for group_id in group_ids:
        found += cluster.ask_coordinator(DeleteGroupsReply, group_id, DeleteGroups((group_id,))).results
    return found


def list_notes(cluster: ClusterClient, group_id: str, newest: int) -> list[ListedNote]:
    """The newest notes of a group, oldest first. Raises Complaint if there is no such group and never was."""
    with answering_for(group_id):
        notes = cluster.ask_coordinator(ListNotesReply, group_id, ListNotes(group_id, limit=newest)).notes
    if not notes:
        describe_group(cluster, group_id)
    return list(notes)
