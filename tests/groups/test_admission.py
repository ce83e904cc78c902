from collections.abc import Iterator
from typing import Any

import pytest

from coordinator.config.config import Config
from coordinator.core.admission import Found, admit, admit_write
from coordinator.core.core import Core
from coordinator.handlers.join_group import admit_join
from coordinator.handlers.sync_group import admit_sync
from coordinator.runtime.shard import ShardState
from protocol.errors import ErrorCode
from protocol.messages import Message
from protocol.messages.groups import JoinGroup, JoinGroupReply, JoinProtocol, SyncGroup, SyncGroupReply
from protocol.messages.offsets import OffsetCommit, OffsetCommitPartition, OffsetCommitTopic
from tests.groups.bench import join
from tests.transcripts.rig import Rig

NONE = ErrorCode.NONE
LIMITS: dict[str, Any] = {
    "offsets_topic_num_partitions": 2,
    "group_max_metadata_bytes": 2_000,
    "max_held_replies": 2,
    "max_groups": 3,
}


@pytest.fixture
def rig() -> Iterator[Rig]:
    with Rig(Config(**LIMITS), lambda line: None, lambda connection, request, reply: None) as made:
        yield made


@pytest.fixture
def core(rig: Rig) -> Core:
    return rig.node.core


def error_of(found: Found | Message) -> ErrorCode:
    if isinstance(found, Found):
        return NONE
    assert isinstance(found, JoinGroupReply | SyncGroupReply)
    return found.error_code


def joins(core: Core, message: JoinGroup) -> ErrorCode:
    return error_of(admit_join(core, message))


def syncs(core: Core, message: SyncGroup) -> ErrorCode:
    return error_of(admit_sync(core, message))


def becomes(core: Core, state: ShardState) -> None:
    for shard in core.shards:
        shard.state = state


def test_a_shard_that_serves_lets_pass(core: Core) -> None:
    assert admit(core, "g") is NONE
    assert joins(core, join()) is NONE
    assert syncs(core, SyncGroup("g", 1, "m")) is NONE


def test_the_group_id_is_looked_at_first(core: Core) -> None:
    becomes(core, ShardState.FAILED)
    assert admit(core, "") is ErrorCode.INVALID_GROUP_ID
    assert admit(core, "", may_be_empty=True) is ErrorCode.NOT_COORDINATOR
    wrong = join(session_timeout_ms=1)
    assert joins(core, type(wrong)("", 1)) is ErrorCode.INVALID_GROUP_ID


def test_then_the_session_timeout_and_then_the_shard(core: Core) -> None:
    becomes(core, ShardState.FAILED)
    assert joins(core, join(session_timeout_ms=5_999)) is ErrorCode.INVALID_SESSION_TIMEOUT
    assert joins(core, join()) is ErrorCode.NOT_COORDINATOR
    becomes(core, ShardState.LOADING)
    assert joins(core, join()) is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS


@pytest.mark.parametrize(
    ("session_ms", "passes"), [(5_999, False), (6_000, True), (1_800_000, True), (1_800_001, False)]
)
def test_session_timeouts_have_bounds_that_are_allowed(core: Core, session_ms: int, passes: bool) -> None:
    assert (joins(core, join(session_timeout_ms=session_ms)) is NONE) is passes


def test_a_shard_of_another_node_is_not_served_here(core: Core) -> None:
    becomes(core, ShardState.UNLOADED)
    assert admit(core, "g") is ErrorCode.NOT_COORDINATOR


def test_a_sync_while_loading_is_told_to_try_again(core: Core) -> None:
    becomes(core, ShardState.LOADING)
    assert syncs(core, SyncGroup("g", 1, "m")) is ErrorCode.REBALANCE_IN_PROGRESS
    becomes(core, ShardState.FAILED)
    assert syncs(core, SyncGroup("g", 1, "m")) is ErrorCode.NOT_COORDINATOR


@pytest.mark.parametrize("named", [(None, "range"), ("consumer", None), (None, None)])
def test_who_must_name_its_protocol_must_name_both_parts(core: Core, named: tuple[str | None, str | None]) -> None:
    refused = syncs(core, SyncGroup("", 1, "m", None, *named, must_name_protocol=True))
    assert refused is ErrorCode.INCONSISTENT_GROUP_PROTOCOL, "before the group id is looked at"
    assert syncs(core, SyncGroup("g", 1, "m", None, *named)) is NONE


def big_join(rig: Rig, metadata_bytes: int, member_id: str = "") -> ErrorCode:
    return joins(rig.node.core, join(member_id, protocols=(JoinProtocol("range", b"x" * metadata_bytes),)))


def test_metadata_of_a_group_has_a_limit_that_counts_all_its_members(rig: Rig) -> None:
    assert big_join(rig, 2_001) is ErrorCode.MESSAGE_TOO_LARGE
    link = rig.open_link()
    rig.send(link, join(protocols=(JoinProtocol("range", b"x" * 1_500),)))
    assert big_join(rig, 501) is ErrorCode.MESSAGE_TOO_LARGE
    assert big_join(rig, 500) is NONE
    (member_id,) = rig.node.core.find("g")[1].classic.members  # type: ignore[union-attr]
    assert big_join(rig, 2_000, member_id) is NONE, "its own old metadata would be replaced"


def test_writes_are_refused_while_too_many_replies_wait_for_the_disk(rig: Rig) -> None:
    core = rig.node.core
    rig.holds_disk = True
    link = rig.open_link()
    topics = (OffsetCommitTopic("t", (OffsetCommitPartition(0, 1),)),)
    for _ in range(2):
        assert admit_write(core) is NONE
        rig.send(link, OffsetCommit("g", topics))
    assert admit_write(core) is ErrorCode.COORDINATOR_NOT_AVAILABLE
    rig.release_disk()
    assert admit_write(core) is NONE


def test_writes_are_refused_while_too_many_bytes_wait_for_the_disk(rig: Rig) -> None:
    core = rig.node.core
    rig.holds_disk = True
    core.config = Config(**LIMITS, max_unflushed_bytes=1 << 16)
    link = rig.open_link()
    part = OffsetCommitPartition(0, 1, committed_metadata="x" * 4_096)
    while core.store.position - core.store.flushed < 1 << 16:
        assert admit_write(core) is NONE
        core.outbox.held.clear()
        rig.send(link, OffsetCommit("g", (OffsetCommitTopic("t", (part,) * 8),)))
    core.outbox.held.clear()
    assert admit_write(core) is ErrorCode.COORDINATOR_NOT_AVAILABLE
