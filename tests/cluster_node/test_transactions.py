"""Offsets that clients commit in transactions, at nodes whose shards are in the cluster's log."""

import pytest
from msgspec.structs import replace

from coordinator.clock import Moment
from coordinator.cluster_node.shard_service import ShardService
from coordinator.cluster_node.transactions import OpenTransaction
from coordinator.core.core import Core
from coordinator.runtime.shard import ShardState
from protocol.errors import ErrorCode
from protocol.messages import Message
from protocol.messages.offsets import (
    OffsetFetch,
    OffsetFetchGroup,
    OffsetFetchReply,
    OffsetFetchTopic,
    TxnOffsetCommit,
    TxnOffsetCommitPartition,
    TxnOffsetCommitReply,
    TxnOffsetCommitTopic,
)
from protocol.messages.topics import CreatableTopic, CreateTopics
from protocol.session import RequestRef
from tests.cluster_log.rig import pairs_in
from tests.cluster_log.test_transactions import CLIENT, marker
from tests.cluster_node.rig import Cluster, LogNode
from tests.cluster_node.test_service import committing, fetched, fetching, joined, owner

NONE = ErrorCode.NONE
UNSTABLE = ErrorCode.UNSTABLE_OFFSET_COMMIT


def serve(node: LogNode) -> None:
    """Let the node take commits in transactions."""

    def commit(core: Core, ref: RequestRef, message: TxnOffsetCommit, moment: Moment) -> None:
        assert service_of(node).commit(core, ref, message, moment)

    node.node.serving.handlers = {**node.node.serving.handlers, TxnOffsetCommit: commit}


def transacting() -> tuple[Cluster, LogNode]:
    cluster, node = owner()
    serve(node)
    return cluster, node


def service_of(node: LogNode) -> ShardService:
    return node.side.services[node.node.core.placement.shard_of("a")]


def open_transaction(node: LogNode, producer_id: int = CLIENT) -> None:
    service = service_of(node)
    service.transactions.opened(OpenTransaction(producer_id, 0, service.log.protocol.reader.tail.next_offset))


def in_transaction(offset: int, producer_id: int = CLIENT, partition: int = 0) -> TxnOffsetCommit:
    part = TxnOffsetCommitPartition(partition, offset)
    return TxnOffsetCommit("x", "a", producer_id, 0, (TxnOffsetCommitTopic("t", (part,)),))


def commit(node: LogNode, offset: int, producer_id: int = CLIENT) -> ErrorCode:
    open_transaction(node, producer_id)
    return error_of(node.ask(in_transaction(offset, producer_id)))


def error_of(reply: Message | None) -> ErrorCode:
    assert isinstance(reply, TxnOffsetCommitReply)
    return reply.topics[0].partitions[0].error_code


def end(cluster: Cluster, node: LogNode, *, is_committed: bool = True, producer_id: int = CLIENT) -> None:
    """Let the cluster write its marker, and the node read it."""
    partition = cluster.partitions[service_of(node).shard.index]
    partition.mark(marker(is_committed=is_committed, producer_id=producer_id), cluster.now_ms)
    partition.replicate(cluster.now_ms)
    node.pass_ms(1_000)


def seen(node: LogNode) -> int | ErrorCode:
    (found,) = fetched(node.ask(fetching("a")))
    return found


def stable(node: LogNode) -> int | ErrorCode:
    reply = node.ask(OffsetFetch((OffsetFetchGroup("a", (OffsetFetchTopic("t", (0,)),)),), require_stable=True))
    assert isinstance(reply, OffsetFetchReply)
    part = reply.groups[0].topics[0].partitions[0]
    return part.error_code or part.committed_offset


def in_log(cluster: Cluster, node: LogNode) -> dict[bytes, bytes | None]:
    """Return what the log has for offsets of the group."""
    found = pairs_in(cluster.partitions[service_of(node).shard.index].fetch(0, 10**6)[1])
    return {key: value for key, value in found.items() if key[:2] == b"\0\1"}


@pytest.mark.parametrize("is_committed", [True, False])
def test_offsets_are_pending_until_the_transaction_ends(is_committed: bool) -> None:
    cluster, node = transacting()
    node.ask(committing("a", 3))
    assert commit(node, 7) == NONE
    assert (seen(node), stable(node)) == (3, UNSTABLE)
    end(cluster, node, is_committed=is_committed)
    assert seen(node) == stable(node) == (7 if is_committed else 3)


def test_offsets_are_pending_from_the_decision_on() -> None:
    cluster, node = transacting()
    open_transaction(node)
    cluster.holds = True
    call = node.send(in_transaction(7))
    assert call not in node.replied
    shard = service_of(node).shard
    assert ("t", 0) in shard.offsets.pending.of("a")
    cluster.answer_writes()
    node.rest()
    assert error_of(node.replied[call]) == NONE


def test_an_offset_that_is_committed_meanwhile_overtakes_the_pending_one() -> None:
    cluster, node = transacting()
    commit(node, 7)
    node.ask(committing("a", 9))
    end(cluster, node)
    assert seen(node) == 9
    assert taken_over(cluster, node) == 9


def taken_over(cluster: Cluster, node: LogNode) -> int | ErrorCode:
    """Let another node take the shards over; return what it tells."""
    node.step_down()
    other = cluster.start(9)
    serve(other)
    cluster.give_all(other)
    return seen(other)


def test_the_newer_of_two_transactions_wins_whichever_ends_first() -> None:
    for first, second in ((CLIENT, CLIENT + 1), (CLIENT + 1, CLIENT)):
        cluster, node = transacting()
        commit(node, 7)
        commit(node, 8, CLIENT + 1)
        end(cluster, node, producer_id=first)
        end(cluster, node, producer_id=second)
        assert seen(node) == 8
        assert taken_over(cluster, node) == 8


def test_what_is_decided_is_written_under_the_offsets_own_keys() -> None:
    cluster, node = transacting()
    commit(node, 7)
    assert in_log(cluster, node) == {}
    end(cluster, node)
    assert len(in_log(cluster, node)) == 1
    protocol = service_of(node).log.protocol
    assert not protocol.reader.tail.transactions.unsettled and not protocol.reader.tail.transactions.open


def test_what_is_decided_is_written_in_as_many_batches_as_it_takes() -> None:
    cluster, node = transacting()
    partition = cluster.partitions[service_of(node).shard.index]
    made = CreateTopics(tuple(CreatableTopic(f"t{number}", 10) for number in range(40)))
    node.ask(made)
    parts = tuple(TxnOffsetCommitPartition(number, 1) for number in range(10))
    small = [TxnOffsetCommitTopic(one.name, parts) for one in made.topics]
    open_transaction(node)
    assert error_of(node.ask(TxnOffsetCommit("x", "a", CLIENT, 0, tuple(small)))) is NONE
    for topic in small:
        long = tuple(replace(one, committed_offset=2, committed_metadata="m" * 4_000) for one in topic.partitions)
        assert error_of(node.ask(TxnOffsetCommit("x", "a", CLIENT, 0, (replace(topic, partitions=long),)))) is NONE
    before = len(partition.batches)
    end(cluster, node)
    written = partition.batches[before:]
    assert max(len(batch.data) for batch in written) < 1_100_000 and len(written) > 2
    assert service_of(node).shard.state is ShardState.ACTIVE
    pending = service_of(node).log.protocol.reader.tail.transactions.unsettled
    assert not pending
    other = cluster.start(2)
    node.step_down()
    cluster.give_all(other)
    other.ask(made)
    assert fetched(other.ask(OffsetFetch((OffsetFetchGroup("a", (OffsetFetchTopic("t7", (0,)),)),)))) == [2]


def test_a_commit_that_is_refused_whole_waits_for_no_other_of_its_group() -> None:
    cluster, node = transacting()
    cluster.holds = True
    node.ask(committing("a", 5))
    open_transaction(node)
    part = TxnOffsetCommitPartition(0, 7, committed_metadata="m" * 5_000)
    reply = node.ask(TxnOffsetCommit("x", "a", CLIENT, 0, (TxnOffsetCommitTopic("t", (part,)),)))
    assert error_of(reply) is ErrorCode.OFFSET_METADATA_TOO_LARGE
    cluster.answer_writes()


def test_a_taker_over_finds_what_is_pending_and_its_end() -> None:
    cluster, node = transacting()
    node.ask(committing("a", 3))
    commit(node, 7)
    node.step_down()
    other = cluster.start(2)
    serve(other)
    cluster.give_all(other)
    assert (seen(other), stable(other)) == (3, UNSTABLE)
    end(cluster, other)
    assert seen(other) == stable(other) == 7


def test_a_taker_over_settles_what_ended_while_nobody_served() -> None:
    cluster, node = transacting()
    commit(node, 7)
    node.step_down()
    partition = cluster.partitions[service_of(node).shard.index]
    partition.mark(marker(), cluster.now_ms)
    partition.replicate(cluster.now_ms)
    other = cluster.start(2)
    serve(other)
    cluster.give_all(other)
    assert seen(other) == stable(other) == 7
    other.pass_ms(1_000)
    assert len(in_log(cluster, other)) == 1


def test_a_commit_whose_transaction_has_just_ended_is_refused_and_dropped() -> None:
    cluster, node = transacting()
    node.ask(committing("a", 3))
    open_transaction(node)
    partition = cluster.partitions[service_of(node).shard.index]
    partition.mark(marker(), cluster.now_ms)
    partition.replicate(cluster.now_ms)
    assert error_of(node.ask(in_transaction(7))) == ErrorCode.NOT_COORDINATOR
    assert seen(node) == stable(node) == 3
    end(cluster, node)
    assert seen(node) == 3
    assert taken_over(cluster, node) == 3


def test_a_transaction_is_asked_for_again_once_it_has_ended() -> None:
    cluster, node = transacting()
    commit(node, 7)
    transactions = service_of(node).transactions
    assert transactions.begin(CLIENT, 1) is None, "another epoch"
    end(cluster, node)
    assert transactions.begin(CLIENT, 0) is None


def test_who_waits_for_a_shard_that_is_lost_is_told_to_look_again() -> None:
    cluster, node = transacting()
    open_transaction(node)
    cluster.holds = True
    call = node.send(in_transaction(7))
    node.step_down()
    assert error_of(node.replied[call]) == ErrorCode.NOT_COORDINATOR


def test_a_member_of_an_older_generation_is_refused_and_nothing_is_pending() -> None:
    _, node = transacting()
    joined(node, "a")
    open_transaction(node)
    late = replace(in_transaction(7), generation_id=0, member_id="late")
    assert error_of(node.ask(late)) == ErrorCode.UNKNOWN_MEMBER_ID
    assert not service_of(node).shard.offsets.pending
