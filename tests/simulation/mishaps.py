"""Mishaps: the effect of each decision on a world. A decision without a target does nothing."""

import errno
from collections.abc import Callable, Mapping
from functools import partial
from random import Random
from typing import TYPE_CHECKING

import msgspec

from coordinator.groups.hold import LONGEST_MS
from coordinator.node.events import Call
from protocol.messages.groups import HoldGroup
from protocol.messages.offsets import OffsetCommit, OffsetCommitPartition, OffsetCommitTopic
from tests.simulation.configs import draw_limits
from tests.simulation.network import Link
from tests.simulation.plan import Decision
from tests.simulation.strangers import Echo, Ghost, foreign, may_be_sent_again, oversized

if TYPE_CHECKING:
    from tests.simulation.world import World

Mishap = Callable[["World", Decision, Random], None]
HUGE_COMMIT_CALL, HOLD_CALL = 2, 3
WRITEBACK_ERRORS = (errno.EIO, errno.ENOSPC, errno.EDQUOT)
HUGE_GROUP = "huge"


def _join(world: "World", decision: Decision, random: Random) -> None:
    world.join(decision.who)


# --- the network ---


def _link_of(world: "World", decision: Decision) -> Link | None:
    member = world.running(decision.who)
    return member.link if member is not None else None


def _cut(world: "World", decision: Decision, random: Random) -> None:
    if (link := _link_of(world, decision)) is not None:
        world.seen.add("cut connections")
        link.cut(world, random)


def _delay(world: "World", decision: Decision, random: Random) -> None:
    if (link := _link_of(world, decision)) is not None:
        world.seen.add("delays")
        link.to_daemon.hold(decision.amount)
        link.to_client.hold(decision.amount)


def _reorder(world: "World", decision: Decision, random: Random) -> None:
    for link in world.daemon.links.values():
        world.seen.add("connections overtaken by others")
        link.to_daemon.hold(random.randrange(decision.amount))


def _deaf(world: "World", decision: Decision, random: Random) -> None:
    if (link := _link_of(world, decision)) is not None:
        world.seen.add("one-way cuts")
        link.to_client.hold(world.stretch(decision.amount))


def _mute(world: "World", decision: Decision, random: Random) -> None:
    if (link := _link_of(world, decision)) is not None:
        world.seen.add("one-way cuts")
        link.to_daemon.hold(world.stretch(decision.amount))


def _half_open(world: "World", decision: Decision, random: Random) -> None:
    if (link := _link_of(world, decision)) is not None:
        world.seen.add("half-open connections")
        link.cut_off(world, decision.amount)


def _reset_in_reply(world: "World", decision: Decision, random: Random) -> None:
    link = _link_of(world, decision)
    if link is None:
        return

    def break_off(data: bytes) -> None:
        world.seen.add("replies broken off")
        assert link is not None
        pipe = link.to_client
        pipe.send(data[: random.randrange(1, len(data))])
        link.on_reply = swallow
        world.after(pipe.arrives_in_ms + 1, lambda: link.cut(world, random))

    def swallow(_data: bytes) -> None:
        assert link is not None
        link.on_reply = swallow

    link.on_reply = break_off


def _lose_reply(world: "World", decision: Decision, random: Random) -> None:
    link = _link_of(world, decision)
    if link is None:
        return

    def lose(_data: bytes) -> None:
        world.seen.add("replies lost after their effect")
        link.cut(world, random)

    link.on_reply = lose


def _resend(world: "World", decision: Decision, random: Random) -> None:
    member = world.running(decision.who)
    if member is not None and may_be_sent_again(member.last_request):
        echo = Echo(member, world.checkers, world.seen)
        echo.link = world.open_link(echo, echo.received, lambda: None)
        echo.call()


# --- members ---


def _stall(world: "World", decision: Decision, random: Random) -> None:
    member = world.running(decision.who)
    if member is not None:
        world.seen.add("members that stood still")
        member.stalled_until_ms = world.now_ms + world.stretch(decision.amount)


def _kill(world: "World", decision: Decision, random: Random) -> None:
    member = world.running(decision.who)
    if member is None:
        return
    world.seen.add("members killed")
    ghost = Ghost(member, world.checkers, world.seen)
    member.kill()

    def haunt() -> None:
        ghost.link = world.open_link(ghost, ghost.received, lambda: None)
        ghost.haunt()

    world.after(world.stretch(decision.amount), haunt)


def _leave(world: "World", decision: Decision, random: Random) -> None:
    member = world.running(decision.who)
    if member is not None:
        world.seen.add("members that left")
        member.leave()


def _replace(world: "World", decision: Decision, random: Random) -> None:
    member = world.running(decision.who)
    if member is not None and member.settings.group_instance_id is not None:
        member.kill()
        world.after(decision.amount, lambda: world.join(decision.who))


def _duplicate(world: "World", decision: Decision, random: Random) -> None:
    member = world.running(decision.who)
    if member is not None and member.settings.group_instance_id is not None:
        world.seen.add("instance ids used twice")
        world.join(f"{decision.who}'", like=decision.who)


def _storm(world: "World", decision: Decision, random: Random) -> None:
    world.seen.add("join storms")
    names = [f"s{decision.number}-{index}" for index in range(decision.amount)]
    for name in names:
        world.after(random.randrange(50), partial(world.join, name, group_id="orders"))

    def go(name: str) -> None:
        if (member := world.running(name)) is not None:
            member.leave()

    for name in names:
        world.after(world.stretch(random.randrange(3_000, 15_000)), partial(go, name))


def _leader_dies(world: "World", decision: Decision, random: Random) -> None:
    chosen = world.running(decision.who)
    for member in world.members.values():
        if chosen is not None and member.settings.group_id == chosen.settings.group_id:
            member.dies_as_leader = True
    world.after(world.stretch(8_000), world.leaders_live)


def _never_sync(world: "World", decision: Decision, random: Random) -> None:
    member = world.running(decision.who)
    if member is not None:
        member.syncs_after_ms = world.now_ms + world.stretch(decision.amount)


def _foreign(world: "World", decision: Decision, random: Random) -> None:
    member = world.running(decision.who)
    if member is not None:
        member.tamper = partial(foreign, world.seen, random)


def _oversized(world: "World", decision: Decision, random: Random) -> None:
    member = world.running(decision.who)
    if member is not None:
        member.tamper = partial(oversized, world.seen, decision.amount)


def _huge_commit(world: "World", decision: Decision, random: Random) -> None:
    partitions = tuple(OffsetCommitPartition(index, decision.number) for index in range(decision.amount))
    world.seen.add("huge commits")
    world.daemon.step(Call(HUGE_COMMIT_CALL, OffsetCommit(HUGE_GROUP, (OffsetCommitTopic("alpha", partitions),))))


def _hold(world: "World", decision: Decision, random: Random) -> None:
    group_id = world.group_of(decision.who)
    if group_id is not None:
        until_members = random.choice((0, 1, 2, 4))
        request = HoldGroup(group_id, min(world.stretch(decision.amount), LONGEST_MS), until_members)
        world.daemon.step(Call(HOLD_CALL, request))


# --- the daemon, its clock and its disk ---


def _power(world: "World", decision: Decision, random: Random) -> None:
    if random.random() < 0.8:
        world.daemon.write_half()
    world.daemon.power_failure(decision.amount)


def _power_in_job(world: "World", decision: Decision, random: Random) -> None:
    world.daemon.power_in = decision.amount


def _power_in_swap(world: "World", decision: Decision, random: Random) -> None:
    world.daemon.power_in_swap = decision.amount


def _killed(world: "World", decision: Decision, random: Random) -> None:
    world.daemon.kill()


def _restart(world: "World", decision: Decision, random: Random) -> None:
    world.seen.add("starts with another config")
    daemon = world.daemon
    is_down = daemon.node is None
    if not is_down:
        daemon.stop()
    if daemon.node is None:
        daemon.config = msgspec.structs.replace(
            world.draw_config(random), offsets_topic_num_partitions=daemon.config.offsets_topic_num_partitions
        )
        daemon.limits = draw_limits(random)


def _pause(world: "World", decision: Decision, random: Random) -> None:
    if world.daemon.node is not None:
        world.seen.add("daemons that stood still")
        world.daemon.pause(world.stretch(decision.amount))


def _slow_disk(world: "World", decision: Decision, random: Random) -> None:
    world.daemon.loop_time.slow_until_ms = world.now_ms + decision.amount


def _full(world: "World", decision: Decision, random: Random) -> None:
    world.seen.add("full disks")
    world.daemon.fill()
    world.after(decision.amount, world.daemon.make_room)


def _fail(world: "World", decision: Decision, random: Random) -> None:
    world.daemon.fail_in = decision.amount


def _still(world: "World", decision: Decision, random: Random) -> None:
    world.daemon.loop_time.still_until_ms = world.now_ms + decision.amount


def _lost_write(world: "World", decision: Decision, random: Random) -> None:
    world.daemon.lose_write(decision.amount, random.choice(WRITEBACK_ERRORS))


def _lost_sync(world: "World", decision: Decision, random: Random) -> None:
    world.daemon.lose_sync(decision.amount, random.choice(WRITEBACK_ERRORS))


def _flip(world: "World", decision: Decision, random: Random) -> None:
    daemon = world.daemon
    random.choice((daemon.power_failure, daemon.kill))(1_000)
    daemon.flip(random)


def _clock(world: "World", decision: Decision, random: Random) -> None:
    world.seen.add("clock jumps forward" if decision.amount > 0 else "clock jumps back")
    world.daemon.wall_offset_ms += decision.amount


MISHAPS: Mapping[str, Mishap] = {
    "weather": lambda world, _decision, _random: world.let_weather(),
    "ledger": lambda world, _decision, _random: world.keep_ledger(),
    "member": _join,
    "cut": _cut,
    "delay": _delay,
    "reorder": _reorder,
    "deaf": _deaf,
    "mute": _mute,
    "half-open": _half_open,
    "reset in reply": _reset_in_reply,
    "lose reply": _lose_reply,
    "resend": _resend,
    "stall": _stall,
    "kill": _kill,
    "leave": _leave,
    "replace": _replace,
    "duplicate": _duplicate,
    "storm": _storm,
    "leader dies": _leader_dies,
    "never sync": _never_sync,
    "foreign": _foreign,
    "oversized": _oversized,
    "huge commit": _huge_commit,
    "power": _power,
    "power in job": _power_in_job,
    "power in swap": _power_in_swap,
    "daemon killed": _killed,
    "restart": _restart,
    "pause": _pause,
    "slow disk": _slow_disk,
    "full": _full,
    "fail": _fail,
    "still": _still,
    "lost write": _lost_write,
    "lost sync": _lost_sync,
    "flip": _flip,
    "clock": _clock,
    "hold": _hold,
}


def befall(world: "World", decision: Decision) -> None:
    """Carry out the decision, with details that it draws."""
    MISHAPS[decision.kind](world, decision, Random(f"{world.seed} decision {decision.number}"))


__all__ = ["MISHAPS", "befall"]
