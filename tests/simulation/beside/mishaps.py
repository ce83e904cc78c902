"""Faults of the brokers and of the network between them and the node."""

from collections.abc import Callable, Mapping
from random import Random
from typing import TYPE_CHECKING

from protocol.messages.topics import (
    CreatableTopic,
    CreatePartitions,
    CreateTopics,
    DeletableTopic,
    DeleteTopics,
    GrowingTopic,
)
from tests.simulation.beside.broker import LATE, MADE, PHOENIX
from tests.simulation.beside.callers import Flood
from tests.simulation.beside.network import AWAY, SILENT
from tests.simulation.plan import Decision

if TYPE_CHECKING:
    from tests.simulation.beside.world import BesideWorld

Mishap = Callable[["BesideWorld", Decision, Random], None]
_MOST_PARTITIONS = 8
_LATE_PARTITIONS = 2


def _cut(world: "BesideWorld", decision: Decision, random: Random) -> None:
    world.between.cut(world.between.links())


def _away(world: "BesideWorld", decision: Decision, random: Random) -> None:
    world.between.trouble(AWAY, world.between.brokers, decision.amount)


def _silent(world: "BesideWorld", decision: Decision, random: Random) -> None:
    world.between.trouble(SILENT, world.between.brokers, decision.amount)


def _one_away(world: "BesideWorld", decision: Decision, random: Random) -> None:
    world.between.trouble(random.choice((AWAY, SILENT)), (random.choice(world.between.brokers),), decision.amount)


def _upstream_silent(world: "BesideWorld", decision: Decision, random: Random) -> None:
    links = world.between.links()
    if links:
        world.between.silence([random.choice(links)])


def _upstream_cut(world: "BesideWorld", decision: Decision, random: Random) -> None:
    links = world.between.links()
    if links:
        world.between.cut([random.choice(links)])


def _delay(world: "BesideWorld", decision: Decision, random: Random) -> None:
    world.between.delay(decision.amount)


def _broken_answer(world: "BesideWorld", decision: Decision, random: Random) -> None:
    links = world.between.links()
    if links:
        world.between.break_off(random, random.choice(links))


def _power(world: "BesideWorld", decision: Decision, random: Random) -> None:
    if random.random() < 0.8:
        world.broker.write_half()
    world.broker.power_failure(decision.amount)


def _killed(world: "BesideWorld", decision: Decision, random: Random) -> None:
    world.broker.kill(decision.amount)


def _restart(world: "BesideWorld", decision: Decision, random: Random) -> None:
    world.broker.stop()


def _pause(world: "BesideWorld", decision: Decision, random: Random) -> None:
    if world.broker.node is not None:
        world.broker.pause(decision.amount)


def _slow_disk(world: "BesideWorld", decision: Decision, random: Random) -> None:
    world.broker.loop_time.slow_until_ms = world.now_ms + decision.amount


def _late(world: "BesideWorld", decision: Decision, random: Random) -> None:
    world.broker.ask(CreateTopics((CreatableTopic(LATE, _LATE_PARTITIONS),)))


def _growth(world: "BesideWorld", decision: Decision, random: Random) -> None:
    node, topic = world.broker.node, random.choice(("alpha", "beta"))
    count = None if node is None else node.core.topics.partition_count(topic)
    if count is not None and count < _MOST_PARTITIONS:
        world.seen.add("topics that grew")
        world.broker.ask(CreatePartitions((GrowingTopic(topic, count + 1),)))


def _phoenix(world: "BesideWorld", decision: Decision, random: Random) -> None:
    world.seen.add("topics made anew")
    world.broker.ask(DeleteTopics((DeletableTopic(PHOENIX),)))
    anew = CreateTopics((CreatableTopic(PHOENIX, MADE[PHOENIX]),))
    world.after(decision.amount, lambda: world.broker.ask(anew))


def _flood(world: "BesideWorld", decision: Decision, random: Random) -> None:
    Flood(world, decision.amount)


def _old_member(world: "BesideWorld", decision: Decision, random: Random) -> None:
    world.join_at_broker(decision.who)
    world.after(decision.amount, lambda: world.leave_broker(decision.who))


def _old_killed(world: "BesideWorld", decision: Decision, random: Random) -> None:
    old = world.old.get(decision.who)
    if old is not None and old.running:
        world.seen.add("members at the brokers killed")
        old.kill()


MISHAPS: Mapping[str, Mishap] = {
    "upstream cut": _cut,
    "upstream away": _away,
    "upstream silent": _silent,
    "one broker away": _one_away,
    "one twin silent": _upstream_silent,
    "one twin cut": _upstream_cut,
    "upstream delay": _delay,
    "broken answer": _broken_answer,
    "broker power": _power,
    "broker killed": _killed,
    "broker restart": _restart,
    "broker pause": _pause,
    "broker slow disk": _slow_disk,
    "topic late": _late,
    "growth": _growth,
    "phoenix": _phoenix,
    "flood": _flood,
    "old member": _old_member,
    "old killed": _old_killed,
}
