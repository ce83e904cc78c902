from collections.abc import Iterable

import pytest

from muster.net.dialects import ClientDialect
from muster.net.lanes import Lane, lane_of
from protocol.messages import Message
from protocol.messages.data import Fetch
from protocol.messages.groups import Heartbeat, JoinGroup, LeaveGroup, SyncGroup
from protocol.messages.offsets import ListOffsets, OffsetCommit, OffsetFetch
from protocol.messages.topics import Metadata

JOIN, SYNC, BEAT = JoinGroup("g", 1), SyncGroup("g", 1, "m"), Heartbeat("g", 1, "m")
COMMIT, OFFSETS, LEAVE = OffsetCommit("g", ()), OffsetFetch(()), LeaveGroup("g")
OF_THE_GROUP = (JOIN, SYNC, BEAT, COMMIT, OFFSETS, LEAVE)


@pytest.mark.parametrize("waiting", [(), (BEAT, COMMIT)])
def test_requests_of_a_member_keep_their_order_and_never_wait_for_a_fetch(waiting: Iterable[Message]) -> None:
    assert {lane_of(one, ClientDialect.KAFKA, waiting) for one in OF_THE_GROUP} == {Lane.GROUP}
    assert lane_of(Fetch(()), ClientDialect.KAFKA, waiting) is Lane.FETCH
    assert {lane_of(one, ClientDialect.KAFKA, waiting) for one in (Metadata(), ListOffsets(()))} == {Lane.ANY}


@pytest.mark.parametrize("held_back", [JOIN, SYNC])
def test_what_the_coordinator_holds_back_holds_up_nothing_else(held_back: Message) -> None:
    waiting = (BEAT, held_back)
    assert {lane_of(one, ClientDialect.KAFKA, waiting) for one in (BEAT, COMMIT, OFFSETS, LEAVE)} == {Lane.BESIDE}
    assert lane_of(Fetch(()), ClientDialect.KAFKA, waiting) is Lane.FETCH


def test_natively_one_connection_is_enough() -> None:
    assert {lane_of(one, ClientDialect.NATIVE, (JOIN,)) for one in (*OF_THE_GROUP, Fetch(()), Metadata())} == {Lane.ANY}
