"""`muster groups hand-back GROUP --to HOST:PORT`: a group's offsets, written where it goes on without Muster."""

from typing import Annotated

import typer

from muster.blocking.cluster import Cluster, expect, until
from muster.cli.asking import (
    Bootstrap,
    Complaint,
    Servers,
    coordinator,
    describe_group,
    reaching,
    reaching_servers,
    servers,
)
from muster.cli.showing import printable, show_table
from muster.errors import Refused
from muster.topic_partition import TopicPartition
from protocol.errors import ErrorCode
from protocol.messages.groups import DescribedGroup, DescribeGroups, DescribeGroupsReply
from protocol.messages.offsets import (
    OffsetCommit,
    OffsetCommitPartition,
    OffsetCommitReply,
    OffsetCommitTopic,
    OffsetFetch,
    OffsetFetchGroup,
    OffsetFetchPartitionReply,
    OffsetFetchReply,
)

_PATIENCE_S = 15.0

Kept = dict[TopicPartition, OffsetFetchPartitionReply]


def hand_back(
    ctx: typer.Context,
    group: Annotated[str, typer.Argument(metavar="GROUP")],
    to: Annotated[
        str,
        typer.Option("--to", metavar="HOST:PORT[,HOST:PORT]", help="Brokers of the cluster, not Muster's listeners."),
    ],
    bootstrap: Bootstrap = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
) -> None:
    """Write a group's offsets to the Kafka cluster's own coordinator, so that it goes on there.

    The group may have members neither here nor there. What is to be written is shown first, and read back at the end.
    Here the group stays as it is.
    """
    brokers = _cluster(to, servers(ctx, bootstrap))
    with reaching(ctx, bootstrap) as here, reaching_servers(brokers, "--to") as there:
        _refuse_members(describe_group(here, group), "here")
        kept = {one: part for one, part in _offsets(here, group).items() if part.committed_offset >= 0}
        if not kept:
            raise Complaint(f"group {group!r} has no committed offsets here")
        _refuse_members(_described(there, group), "at the cluster")
        theirs = _offsets(there, group)
        changes = {one: part for one, part in sorted(kept.items()) if _offset(theirs.get(one)) != part.committed_offset}
        if not changes:
            print(f"The cluster has all {len(kept)} offsets of group {printable(group)} already.")
            return
        show_table(
            ("TOPIC", "PARTITION", "AT THE CLUSTER", "HERE"),
            ((one.topic, one.partition, _offset(theirs.get(one)), kept[one].committed_offset) for one in changes),
        )
        if not yes:
            typer.confirm(f"Write these {len(changes)} offsets to the cluster's own coordinator?", abort=True)
        _commit(there, group, changes)
        wrong = [
            one for one, part in changes.items() if _offset(_offsets(there, group).get(one)) != part.committed_offset
        ]
        if wrong:
            raise Complaint(f"the cluster does not give back what was written for {wrong[0]}: somebody commits there")
    print(
        f"Wrote {len(changes)} offsets, and read them back. Start the members of group {printable(group)} at the "
        "cluster. When it shall come here again, delete it here first: `muster groups delete`."
    )


def _cluster(to: str, said: Servers) -> Servers:
    """The brokers, reached as Muster is unless said otherwise."""
    return Servers(to if "://" in to else f"kafka://{to}", said.broker_security or said.security)


def _described(cluster: Cluster, group_id: str) -> DescribedGroup:
    def ask() -> DescribedGroup | None:
        answer = cluster.ask(DescribeGroups((group_id,)), node=coordinator(cluster, group_id))
        found = expect(DescribeGroupsReply, answer).groups[0]
        if found.error_code.retriable:  # coordinators move
            return None
        if found.error_code not in (ErrorCode.NONE, ErrorCode.GROUP_ID_NOT_FOUND):
            raise Refused(found.error_code, f"group {group_id!r} at the cluster: {found.error_code.name}")
        return found

    return until(ask, _PATIENCE_S, f"nobody describes group {group_id!r}")


def _refuse_members(group: DescribedGroup, where: str) -> None:
    if group.members:
        named = ", ".join(f"{member.client_id}{member.client_host}" for member in group.members[:10])
        raise Complaint(f"group {group.group_id!r} has {len(group.members)} members {where} ({named}): stop them first")


def _offsets(cluster: Cluster, group_id: str) -> Kept:
    wanted = OffsetFetch((OffsetFetchGroup(group_id),), require_stable=True)

    def ask() -> Kept | None:
        answer = cluster.ask(wanted, node=coordinator(cluster, group_id))
        group = expect(OffsetFetchReply, answer).groups[0]
        errors = [group.error_code, *(part.error_code for topic in group.topics for part in topic.partitions)]
        refused = next((code for code in errors if code), None)
        if refused is not None and refused.retriable:
            return None
        if refused is not None:
            raise Refused(refused, f"the offsets of {group_id!r}: {refused.name}")
        return {
            TopicPartition(topic.name, part.partition_index): part
            for topic in group.topics
            for part in topic.partitions
        }

    return until(ask, _PATIENCE_S, f"nobody tells the offsets of group {group_id!r}")


def _offset(part: OffsetFetchPartitionReply | None) -> int | None:
    return None if part is None or part.committed_offset < 0 else part.committed_offset


def _commit(cluster: Cluster, group_id: str, changes: Kept) -> None:
    topics: dict[str, list[OffsetCommitPartition]] = {}
    for one, part in changes.items():
        topics.setdefault(one.topic, []).append(
            OffsetCommitPartition(one.partition, part.committed_offset, part.committed_leader_epoch, part.metadata)
        )
    message = OffsetCommit(group_id, tuple(OffsetCommitTopic(name, tuple(parts)) for name, parts in topics.items()))
    reply = expect(OffsetCommitReply, cluster.ask(message, node=coordinator(cluster, group_id)))
    for topic in reply.topics:
        for answer in topic.partitions:
            if answer.error_code:
                raise Refused(
                    answer.error_code,
                    f"{topic.name} {answer.partition_index} was not written: {answer.error_code.name}; the rest may be",
                )
