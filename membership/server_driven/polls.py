"""Actions of polls, releases of partitions and the close: from outside the group into it and out again."""

from membership.events import Closing, Polled, Released
from membership.joining import close_when_released, finish, may_join, note_poll, release_all
from membership.member import State
from membership.replies import PollOverdue
from membership.server_driven.heartbeats import forget, leave_quietly
from membership.server_driven.reconciliation import reconcile, report
from membership.server_driven.state import ServerDrivenState
from membership.subscription import look_before_joining
from protocol.messages.groups import NO_GENERATION


def start(m: ServerDrivenState, event: Polled) -> None:
    """Join, once the application has released lost partitions."""
    if not may_join(m, event) or m.releasing:
        return
    if m.held:
        m.state = State.RELEASING
        m.lose()
    elif m.topics or m.regex:
        _join(m)
    look_before_joining(m)


def _join(m: ServerDrivenState) -> None:
    forget(m)
    m.generation_id = NO_GENERATION
    m.join_again(m.rejoin)


def poll(m: ServerDrivenState, event: Polled) -> None:
    """Note the poll of a member, which leaves if it has no subscription any more."""
    note_poll(m, event)
    if m.is_subscribed or m.releasing:
        return
    if m.held:
        m.revoke(m.held)
    else:
        _withdraw(m)


def _withdraw(m: ServerDrivenState) -> None:
    leave_quietly(m)
    m.reset("joining for the first time", forget_id=False)
    forget(m)
    m.unjoin()


def let_go(m: ServerDrivenState, _event: Released) -> None:
    """Report the remaining partitions, then continue towards the target."""
    m.released()
    if m.state is State.STEADY:
        if not m.is_subscribed and not m.held:
            _withdraw(m)
            return
        report(m)
        reconcile(m)


def join_when_released(m: ServerDrivenState, _event: Released) -> None:
    m.released()
    if m.topics or m.regex:
        _join(m)
    else:
        m.unjoin()


def give_up_place(m: ServerDrivenState, _event: PollOverdue) -> None:
    """Leave the group if the application does not poll, so that others get its partitions."""
    m.rejoin = f"poll was not called for {m.settings.max_poll_interval_ms} ms"
    leave_quietly(m)
    m.reset(m.rejoin, forget_id=False)
    forget(m)
    if m.state is not State.RELEASING:
        m.unjoin()


def close(m: ServerDrivenState, event: Closing) -> None:
    """Release partitions, then leave."""
    is_lost = m.generation_id == NO_GENERATION or m.state is State.UNJOINED
    close_when_released(m, event)
    release_all(m, depart, is_lost=is_lost)


def depart(m: ServerDrivenState, _event: Released | None = None) -> None:
    m.released()
    if m.held:
        m.revoke(m.held)  # only some of them were being released
    elif not leave_quietly(m):
        finish(m)
