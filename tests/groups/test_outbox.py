from hypothesis import given
from hypothesis import strategies as st

from coordinator.runtime.outbox import NEVER, Awaited, LeasedOutbox, Outbox
from protocol.errors import ErrorCode
from protocol.messages import Message
from protocol.messages.groups import HeartbeatReply, MemberRemoved
from protocol.session import RequestRef

REPLY = HeartbeatReply()
REFUSED = HeartbeatReply(ErrorCode.NOT_COORDINATOR)


def ready(outbox: Outbox) -> list[int]:
    return [ref.number for ref, _ in outbox.ready]


def test_what_is_sent_leaves_in_order() -> None:
    outbox = Outbox(0)
    for number in (1, 2):
        outbox.send(RequestRef(1, number), REPLY)
    assert ready(outbox) == [1, 2]
    assert outbox


def test_what_is_durable_already_is_not_held() -> None:
    outbox = Outbox(10)
    outbox.hold(10, RequestRef(1, 1), REPLY)
    assert ready(outbox) == [1]
    assert not outbox.held


def test_what_is_held_leaves_when_its_position_is_durable() -> None:
    outbox = Outbox(0)
    outbox.hold(10, RequestRef(1, 1), REPLY)
    outbox.hold(20, RequestRef(1, 2), REPLY)
    assert not outbox
    outbox.release(9)
    assert ready(outbox) == []
    outbox.release(19)
    assert ready(outbox) == [1]
    outbox.release(20)
    assert ready(outbox) == [1, 2]


def test_a_push_is_something_to_send() -> None:
    outbox = Outbox(0)
    outbox.listening.add(3)
    outbox.push([(3, MemberRemoved("g", "m", "why"))])
    assert outbox
    assert outbox.pushes[0][0] == 3


def test_a_push_that_its_connection_cannot_receive_is_not_queued() -> None:
    outbox = Outbox(0)
    outbox.listening.add(3)
    outbox.push([(number, MemberRemoved("g", "m", "why")) for number in (2, 3, 4)])
    assert [number for number, _message in outbox.pushes] == [3]


@given(st.lists(st.integers(1, 100), max_size=30), st.lists(st.integers(0, 120), max_size=10))
def test_held_replies_leave_once_in_order_and_never_before_they_are_durable(holds: list[int], marks: list[int]) -> None:
    outbox = Outbox(0)
    for number, position in enumerate(holds):
        outbox.hold(position, RequestRef(1, number), REPLY)
    for durable in sorted(marks):
        outbox.release(durable)
        assert all(holds[number] <= durable for number in ready(outbox))
    assert ready(outbox) == list(range(len(outbox.ready)))
    outbox.release(100)
    assert ready(outbox) == list(range(len(holds)))


def test_a_group_waits_for_its_last_record_until_that_is_durable() -> None:
    outbox = Outbox(0)
    for group_id, position in (("a", 10), ("b", 20), ("a", 30)):
        outbox.wrote(group_id, position)
    assert [outbox.position_of(group_id) for group_id in "abc"] == [30, 20, 0]
    outbox.release(20)
    assert [outbox.position_of(group_id) for group_id in "abc"] == [30, 0, 0]
    outbox.release(30)
    assert [outbox.position_of(group_id) for group_id in "abc"] == [0, 0, 0]


def refused(reply: Message) -> Message:
    assert reply is REPLY
    return REFUSED


def branches(barriers: list[int]) -> tuple[Outbox, list[LeasedOutbox]]:
    trunk = Outbox(0)
    return trunk, [LeasedOutbox(trunk, lambda at=at: barriers[at], refused) for at in range(len(barriers))]  # type: ignore[misc]


def test_a_branch_waits_for_its_own_log_and_sends_by_the_way_of_all() -> None:
    trunk, (one, other) = branches([0, 0])
    one.wrote("a", 3)
    other.wrote("b", 1)
    one.hold_for("a", RequestRef(1, 1), REPLY)
    other.hold_for("b", RequestRef(1, 2), REPLY)
    trunk.hold(5, RequestRef(1, 3), REPLY)
    assert trunk.held_replies == 3
    other.release(1)
    assert ready(trunk) == [2]
    trunk.release(5)
    one.release(3)
    assert ready(trunk) == [2, 3, 1]
    assert not trunk.held_replies


def test_a_reply_about_several_logs_waits_for_each_of_them() -> None:
    trunk, (one, other, third) = branches([0, 0, 0])
    for branch, position in ((one, 3), (other, 1), (third, 7)):
        branch.wrote("g", position)
    awaited = Awaited()
    for branch in (one, other, third):
        awaited.add_group(branch, "g")
    third.release(7)
    awaited.hold(trunk, RequestRef(1, 1), REPLY)
    one.release(2)
    one.release(3)
    assert not trunk.ready
    other.release(1)
    assert ready(trunk) == [1]
    assert not trunk.held_replies


def test_a_reply_about_nothing_that_waits_leaves_at_once() -> None:
    trunk, (one,) = branches([0])
    awaited = Awaited()
    awaited.add_group(one, "unheard")
    awaited.hold(trunk, RequestRef(1, 1), REPLY)
    assert ready(trunk) == [1]


def test_without_a_lease_a_read_waits_for_the_barrier() -> None:
    barriers = [4]
    trunk, (one,) = branches(barriers)
    one.hold_for("g", RequestRef(1, 1), REPLY)
    one.release(3)
    assert not trunk.ready
    one.release(4)
    barriers[0] = 0
    one.hold_for("g", RequestRef(1, 2), REPLY)
    assert ready(trunk) == [1, 2]
    barriers[0] = NEVER
    one.hold_for("g", RequestRef(1, 3), REPLY)
    assert trunk.ready[-1] == (RequestRef(1, 3), REFUSED)


def test_what_waits_for_a_log_that_is_lost_is_refused_and_so_is_what_comes_too_late() -> None:
    trunk, (one, other) = branches([0, 0])
    one.wrote("g", 5)
    other.wrote("g", 2)
    one.hold_for("g", RequestRef(1, 1), REPLY)
    awaited, late, old = Awaited(), Awaited(), Awaited()
    for each in (awaited, late):
        each.add_group(one, "g")
        each.add_group(other, "g")
    old.add(one, 5)
    awaited.hold(trunk, RequestRef(1, 2), REPLY)
    one.lose(5)
    other.lose(2)
    late.hold(trunk, RequestRef(1, 3), REPLY)
    one.release(9)  # of a later claim
    old.hold(trunk, RequestRef(1, 4), REPLY)
    assert sorted([(ref.number, reply) for ref, reply in trunk.ready]) == [(number, REFUSED) for number in (1, 2, 3, 4)]
    one.wrote("g", 10)
    one.hold_for("g", RequestRef(1, 5), REPLY)
    one.release(10)
    assert trunk.ready[-1] == (RequestRef(1, 5), REPLY)
