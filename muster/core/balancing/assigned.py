"""Partitions that the coordinator assigns, in a server-balanced group (docs/spec/client-balanced-groups.md#12). The
member releases partitions that are no longer assigned and registers new ones, as an application does in the
client-balanced mode.
"""

from collections.abc import Iterable
from functools import partial

from muster.core.balancing import registering
from muster.core.balancing.member import BalancedMemberState
from muster.core.balancing.results import Code
from protocol.messages.balanced import FROM_STORED, NO_ASSIGNMENT, RegisteredPartition


def carried_out_id(m: BalancedMemberState) -> int:
    """Return the id of the assignment for the next heartbeat. If a partition of the assignment is not registered yet,
    the id makes the coordinator send the assignment again."""
    is_done = all(key in m.keys or key in m.busy or not m.meta.get(key) for key in m.assigned)
    return m.assignment_id if is_done else NO_ASSIGNMENT


def follow(m: BalancedMemberState, assignment_id: int, keys: Iterable[str]) -> None:
    """Release partitions that are not assigned, after their batches are confirmed, and register missing ones."""
    m.assignment_id, m.assigned = assignment_id, frozenset(keys)
    for key in tuple(m.keys):
        if key not in m.assigned and key not in m.leaving:
            m.note("partition given up", key=key, why="the coordinator has assigned it to another member")
            m.do(key, partial(registering.give_back, m, key, None))
    for key in sorted(m.assigned):
        if key not in m.keys and key not in m.busy and m.meta.get(key):
            m.do(key, partial(_register, m, key))


def _register(m: BalancedMemberState, key: str) -> None:
    registering.ask_for(m, key, FROM_STORED, partial(_registered, key))


def _registered(key: str, m: BalancedMemberState, code: int, reason: str, item: RegisteredPartition) -> None:
    if not code and m.is_running:
        m.own(key, item.reg_epoch, item.position, item.end)
    elif code == Code.EMPTY_REPLY:
        m.doubtful[key] = m.now_ms
    elif code:
        m.note("assigned partition not registered", key=key, why=reason)
    m.done(key)
