"""`muster groups hand-back GROUP --to HOST:PORT`: writes a group's offsets to the cluster's own coordinator."""

from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import Annotated, Final

import typer

from membership.events import NodeAddress
from membership.nodes import nodes_of
from membership.topic_partition import TopicPartition
from muster.admin.asking import Complaint, describe_group, topology
from muster.admin.describing import ask_description
from muster.blocking.cluster import ClusterClient, expect, until
from muster.cli.asking import Bootstrap, Servers, reaching, reaching_servers, servers
from muster.cli.showing import printable, show_table
from muster.errors import Refused
from protocol.errors import ErrorCode
from protocol.kafka.features import GATEWAY_FEATURE
from protocol.messages.groups import DescribedGroup
from protocol.messages.node import ApiVersions, ApiVersionsReply
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
from protocol.messages.topics import Metadata, MetadataReply, MetadataTopic
from protocol.words import counted

_GONE: Final = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
_ANY: Final = 1 << 31
_MOST_NAMED: Final = 10
_PATIENCE_S = 15.0
_GREETING_S = 5.0
_OF_TRANSACTIONS: Final = frozenset({25, 28})
"""AddOffsetsToTxn and TxnOffsetCommit, which every Kafka broker since 0.11 advertises. A listener of Muster's
advertises them only with shards in the cluster's log, and then has Muster's feature too."""

Kept = dict[TopicPartition, OffsetFetchPartitionReply]


def hand_back(
    ctx: typer.Context,
    group: Annotated[str, typer.Argument(metavar="GROUP")],
    to: Annotated[
        str | None,
        typer.Option(
            "--to",
            metavar="HOST:PORT[,HOST:PORT]",
            help="Brokers of the cluster at their own addresses, not Muster's listeners. Default: those that musterd "
            "names.",
        ),
    ] = None,
    bootstrap: Bootstrap = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
) -> None:
    """Write a group's offsets to the Kafka cluster's own coordinator, so that it can continue there.

    The group must have no members, here or at the cluster. The offsets are shown before they are written, and read
    back afterwards; those of partitions that the cluster does not have are skipped. The group here is unchanged.
    """
    with (
        reaching(ctx, bootstrap) as here,
        reaching_servers(_cluster(here, to, servers(ctx, bootstrap)), "--to") as there,
    ):
        _refuse_ourselves(here, there, group, to)
        _refuse_members(describe_group(here, group), "here")
        kept = {one: part for one, part in _offsets(here, group).items() if part.committed_offset >= 0}
        if not kept:
            raise Complaint(f"group {group!r} has no committed offsets here")
        _refuse_members(_described(there, group), "at the cluster")
        absent = dict.fromkeys(_absent(there, kept))
        theirs = _offsets(there, group)
        changes = {
            one: part
            for one, part in sorted(kept.items())
            if one not in absent and _offset(theirs.get(one)) != part.committed_offset
        }
        _show_absent([*absent])
        if not changes:
            if len(absent) == len(kept):
                raise Complaint(f"the cluster has none of the topics for which group {group!r} has offsets here")
            count = len(kept) - len(absent)
            number = "the 1 offset" if count == 1 else f"all {count} offsets"
            print(f"The cluster has {number} of group {printable(group)} already.")
            return
        show_table(
            ("TOPIC", "PARTITION", "AT THE CLUSTER", "HERE"),
            ((one.topic, one.partition, _offset(theirs.get(one)), kept[one].committed_offset) for one in changes),
        )
        if not yes:
            these = "this 1 offset" if len(changes) == 1 else f"these {len(changes)} offsets"
            typer.confirm(f"Write {these} to the cluster's own coordinator?", abort=True)
        _write(there, group, changes)


def _write(there: ClusterClient, group: str, changes: Kept) -> None:
    """Write the offsets, and print the result for each. Raises Complaint unless all offsets of existing partitions were
    written."""
    refused = _commit(there, group, changes)
    went = sorted(one for one, code in refused.items() if code is _GONE)
    back = _offsets(there, group)
    written = [one for one in changes if one not in refused]
    differing = {one: None for one in written if _offset(back.get(one)) != changes[one].committed_offset}
    problems = [f"{one} was not written: {code.name}" for one, code in refused.items() if code is not _GONE]
    problems += [
        f"the cluster does not give back what was written for {one}: another client commits there" for one in differing
    ]
    good = [one for one in written if one not in differing]
    _show_absent(went)
    if problems:
        rest = f"written and read back: {_few(map(str, good))}" if good else "nothing else was written"
        raise Complaint(f"{_few(problems)}; {rest}. Hand back again for what is missing")
    if not good:
        raise Complaint(f"nothing was written: the cluster has none of these topics any more (group {group!r})")
    what = "it" if len(good) == 1 else "them"
    print(
        f"Wrote {counted(len(good), 'offset')}, and read {what} back. Start the members of group {printable(group)} at "
        "the cluster. When it shall come here again, delete it here first: `muster groups delete`."
    )


def _absent(there: ClusterClient, wanted: Iterable[TopicPartition]) -> list[TopicPartition]:
    """Return the partitions that the cluster reports as missing; other errors appear when offsets are written."""
    names = sorted({one.topic for one in wanted})
    reply = expect(MetadataReply, there.ask(Metadata(tuple(map(MetadataTopic, names)))))
    gone = {topic.name for topic in reply.topics if topic.error_code is _GONE}
    counts = {topic.name: len(topic.partitions) for topic in reply.topics if not topic.error_code}
    return sorted(one for one in wanted if one.topic in gone or one.partition >= counts.get(one.topic, _ANY))


def _show_absent(absent: Sequence[TopicPartition]) -> None:
    if absent:
        parts = [f"{printable(topic)} {_numbers(ones)}" for topic, ones in groupby(absent, lambda one: one.topic)]
        print(
            f"Left out, because the cluster has no such partitions: {', '.join(parts)}. Here these offsets stay until "
            "they expire, or the group is deleted (`muster groups delete`)."
        )


def _few(texts: Iterable[str]) -> str:
    all_of_them = list(texts)
    more = len(all_of_them) - _MOST_NAMED
    return "; ".join(all_of_them[:_MOST_NAMED]) + (f"; and {more} more" if more > 0 else "")


def _numbers(ones: Iterable[TopicPartition]) -> str:
    return " ".join(str(one.partition) for one in ones)


def _cluster(here: ClusterClient, to: str | None, said: Servers) -> Servers:
    """Return the brokers' addresses, with Muster's connection settings unless others are given."""
    security = said.broker_security or said.security
    if to is not None:
        return Servers(to if "://" in to else f"kafka://{to}", security)
    found = ",".join(map(_written, _brokers(here)))
    if not found:
        raise Complaint(f"musterd at {said.bootstrap} stands beside no brokers that it names: say where with --to")
    return Servers(f"kafka://{found}", security)


def _brokers(here: ClusterClient) -> list[NodeAddress]:
    """Return the brokers in musterd's Metadata, at their own addresses."""
    return [node for node in nodes_of(topology(here, topics=False)).values() if node.speaks]


def _written(node: NodeAddress) -> str:
    return f"[{node.host}]:{node.port}" if ":" in node.host else str(node)


def _refuse_ourselves(here: ClusterClient, there: ClusterClient, group_id: str, to: str | None) -> None:
    """Refuse Muster's own listeners, since writing there would change this group. Raises CannotConnect at once if there
    is no server.
    """
    is_kafka = _is_broker(there, None)
    node = there.coordinator(group_id)
    brokers = _brokers(here)
    is_known = (node.host, node.port) in {(broker.host, broker.port) for broker in brokers}
    if is_known or _is_broker(there, node):
        return
    named = f"{node}, which coordinates there," if is_kafka or to is None else to
    advice = f", say {_written(brokers[0])}" if brokers else " of the cluster"
    raise Complaint(f"{named} is a listener of Muster's: name a broker{advice}")


def _is_broker(there: ClusterClient, node: NodeAddress | None) -> bool:
    reply = expect(ApiVersionsReply, there.ask(ApiVersions("muster-cli", "1"), _GREETING_S, node=node))
    offers_transactions = not _OF_TRANSACTIONS.isdisjoint(one.api_key for one in reply.api_keys)
    return offers_transactions and GATEWAY_FEATURE not in reply.supported_features


def _described(cluster: ClusterClient, group_id: str) -> DescribedGroup:
    def ask() -> DescribedGroup | None:
        found = ask_description(cluster, group_id)
        if found.error_code.retriable:  # the coordinator may be moving
            return None
        if found.error_code not in (ErrorCode.NONE, ErrorCode.GROUP_ID_NOT_FOUND):
            raise Refused(found.error_code, f"group {group_id!r} at the cluster: {found.error_code.name}")
        return found

    return until(ask, _PATIENCE_S, f"no node describes group {group_id!r}")


def _refuse_members(group: DescribedGroup, where: str) -> None:
    if group.members:
        # Kafka writes a host with a slash before it.
        them = "it" if len(group.members) == 1 else "them"
        named = ", ".join(f"{member.client_id} at {member.client_host.lstrip('/')}" for member in group.members[:10])
        raise Complaint(
            f"group {group.group_id!r} has {counted(len(group.members), 'member')} {where} ({named}): stop {them} first"
        )


def _offsets(cluster: ClusterClient, group_id: str) -> Kept:
    wanted = OffsetFetch((OffsetFetchGroup(group_id),), require_stable=True)

    def ask() -> Kept | None:
        group = cluster.ask_coordinator(OffsetFetchReply, group_id, wanted).groups[0]
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

    return until(ask, _PATIENCE_S, f"no node returns the offsets of group {group_id!r}")


def _offset(part: OffsetFetchPartitionReply | None) -> int | None:
    return None if part is None or part.committed_offset < 0 else part.committed_offset


def _commit(cluster: ClusterClient, group_id: str, changes: Kept) -> dict[TopicPartition, ErrorCode]:
    """Commit; return the refused partitions with their errors."""
    topics: dict[str, list[OffsetCommitPartition]] = {}
    for one, part in changes.items():
        topics.setdefault(one.topic, []).append(
            OffsetCommitPartition(one.partition, part.committed_offset, part.committed_leader_epoch, part.metadata)
        )
    message = OffsetCommit(group_id, tuple(OffsetCommitTopic(name, tuple(parts)) for name, parts in topics.items()))
    reply = cluster.ask_coordinator(OffsetCommitReply, group_id, message)
    return {
        TopicPartition(topic.name, answer.partition_index): answer.error_code
        for topic in reply.topics
        for answer in topic.partitions
        if answer.error_code
    }
