"""Bounds of the memory for closed connections and refused clients."""

from coordinator.core import closed_connections
from coordinator.core.closed_connections import ClosedConnections
from coordinator.runtime import refusals
from coordinator.runtime.refusals import RefusedRequests
from protocol.errors import ErrorCode
from protocol.messages.groups import JoinGroup, RefusedRequest
from tests.node.node_rig import NodeRig


def refusal(group_id: str, wall_ms: int) -> RefusedRequest:
    return RefusedRequest(group_id, "JoinGroup", ErrorCode.INVALID_SESSION_TIMEOUT, "app", "/h", wall_ms=wall_ms)


def test_repeated_refusals_of_a_client_count() -> None:
    kept = RefusedRequests()
    for wall_ms in (5, 7, 9):
        kept.add(refusal("g", wall_ms))
    kept.add(refusal("other", 8))

    (one,) = kept.list(frozenset({"g"}))
    assert (one.times, one.since_ms, one.wall_ms) == (3, 5, 9)
    assert len(kept.list(frozenset())) == 2


def test_the_client_refused_longest_ago_is_forgotten_first() -> None:
    kept = RefusedRequests()
    for number in range(refusals.MOST_KEPT):
        kept.add(refusal(f"g{number}", number))
    kept.add(refusal("g0", 99))
    kept.add(refusal("new", 100))

    assert not kept.list(frozenset({"g1"}))
    assert kept.list(frozenset({"g0"}))
    assert len(kept.list(frozenset())) == refusals.MOST_KEPT


def test_the_connection_closed_longest_ago_is_forgotten_first() -> None:
    closed = ClosedConnections()
    for number in range(closed_connections.MOST_KEPT + 1):
        closed.add(number, number)

    assert closed.closed_ms(0) is None
    assert closed.closed_ms(1) == 1


def test_refusals_of_groups_that_do_not_exist_are_counted_for_none() -> None:
    rig = NodeRig()
    rig.connect(1)
    for number in range(20):
        (reply,) = rig.ask(1, JoinGroup(f"{number}" + "x" * 7_000, session_timeout_ms=1, protocol_type="consumer"))
        assert reply.error_code is ErrorCode.INVALID_SESSION_TIMEOUT  # type: ignore[attr-defined]
    assert len(rig.node.core.refusals.list(frozenset())) == 20
    assert not rig.node.core.journal.tallies.groups
