from hypothesis import given
from hypothesis import strategies as st

from coordinator.runtime.outbox import Outbox
from protocol.messages.groups import HeartbeatReply, MemberRemoved
from protocol.session import RequestRef

REPLY = HeartbeatReply()


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
    outbox.pushes.append((3, MemberRemoved("g", "m", "why")))
    assert outbox
    assert outbox.pushes[0][0] == 3


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
