"""Holds on a classic group. While one lasts, a rebalance of an Empty or Stable group waits in PreparingRebalance: its
members are not asked to join again, so they continue to read and commit in their generation; a JoinGroup is parked."""

from coordinator.groups.classic.events import GroupHeld, HoldEnded
from coordinator.groups.classic.notes import Cause, note
from coordinator.groups.classic.rebalance import ask_to_join, wait_held
from coordinator.groups.classic.state import ClassicGroup
from coordinator.groups.hold import act_of, begun, described, left_of
from coordinator.groups.outcome import Outcome
from protocol.messages.groups import HoldGroupReply
from protocol.words import counted


def hold(group: ClassicGroup, event: GroupHeld, out: Outcome) -> None:
    """Hold the group, or release it. A rebalance under way is not held, but later ones are."""
    now_ms, request = out.moment.monotonic_ms, event.request
    before, group.hold = group.hold, begun(request, now_ms)
    if group.hold is not None or left_of(before, now_ms):
        detail = described(request, event.sender)
        note(group, out, "admin", Cause.HELD, "", detail, origin=event.sender, act=act_of(request))
    if group.hold is not None and group.is_held_back:
        wait_held(group, group.hold, out)
    out.reply_at_once(event.ref, HoldGroupReply(left_ms=left_of(group.hold, now_ms)))


def end_hold(group: ClassicGroup, event: HoldEnded, out: Outcome) -> None:
    """End the hold, and ask the members that have not joined meanwhile to join."""
    waited_ms = out.moment.monotonic_ms - group.rebalance_began_ms
    group.hold = None
    detail = f"{group.awaiting_join} of {counted(len(group.members), 'member')} joined within {waited_ms} ms"
    note(group, out, "held", Cause.HOLD_OVER, "", detail, took_ms=waited_ms)
    ask_to_join(group, out, Cause.HOLD_OVER, "")
