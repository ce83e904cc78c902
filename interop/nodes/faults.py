"""Faults of nodes and brokers, one at a time."""

import random
import signal
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import NamedTuple

from confluent_kafka import ElectionType, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient

from coordinator.cluster_log.settings import OFFSETS_LOG_TOPIC
from interop.cluster_nodes import SHARDS, Node
from interop.kafka_cluster import Cluster
from interop.nodes.cuttable_proxy import CuttableProxy

_AWAY_S = (0.5, 10.0)
_ASLEEP_S = (2.0, 30.0)
"""Shortest and longest; each doubling is as likely as another."""


class Scene(NamedTuple):
    """Nodes, the way of each to the brokers, and the brokers."""

    nodes: list[Node]
    proxies: list[CuttableProxy]
    cluster: Cluster


class Fault(NamedTuple):
    """`happen` returns once it is over, with the time at which a node that was away was started again, if one was.
    `node`: the one it happens to, by its place; None: no single one."""

    kind: str
    what: str
    node: int | None
    happen: Callable[[], float | None]


def _kill(scene: Scene, chance: random.Random) -> Fault:
    return _away("kill -9", lambda node: node.end(), scene, chance)


def _stop(scene: Scene, chance: random.Random) -> Fault:
    return _away("planned stop", lambda node: node.stop(), scene, chance)


def _away(kind: str, leave: Callable[[Node], object], scene: Scene, chance: random.Random) -> Fault:
    """Have a node leave, and start it again."""
    node, away_s = _one(scene, chance), _drawn_s(chance, _AWAY_S)

    def happen() -> float:
        leave(scene.nodes[node])
        time.sleep(away_s)
        started_s = time.time()
        scene.nodes[node].start()
        return started_s

    return Fault(kind, f"{kind} of node {node + 1}, back after {away_s:.1f} s", node, happen)


def _sleep(scene: Scene, chance: random.Random) -> Fault:
    node, for_s = _one(scene, chance), _drawn_s(chance, _ASLEEP_S)

    def happen() -> None:
        scene.nodes[node].send_signal(signal.SIGSTOP)
        time.sleep(for_s)
        scene.nodes[node].send_signal(signal.SIGCONT)

    return Fault("asleep", f"node {node + 1} asleep for {for_s:.1f} s", node, happen)


def _cut(scene: Scene, chance: random.Random) -> Fault:
    node, for_s = _one(scene, chance), _drawn_s(chance, _ASLEEP_S)

    def happen() -> None:
        scene.proxies[node].cut()
        time.sleep(for_s)
        scene.proxies[node].mend()

    return Fault("cut off", f"node {node + 1} cut off from the brokers for {for_s:.1f} s", node, happen)


def _kill_broker(scene: Scene, chance: random.Random) -> Fault:
    number, away_s = chance.randrange(len(scene.cluster.brokers)), _drawn_s(chance, _AWAY_S)

    def happen() -> None:
        scene.cluster.brokers[number].kill()
        time.sleep(away_s)
        scene.cluster.brokers[number].start()
        scene.cluster.until_whole(OFFSETS_LOG_TOPIC)

    return Fault("broker killed", f"broker {number + 1} killed, back after {away_s:.1f} s", None, happen)


def _move_leaders(scene: Scene, chance: random.Random) -> Fault:
    number = chance.randrange(len(scene.cluster.brokers))

    def happen() -> None:
        scene.cluster.brokers[number].stop()
        scene.cluster.brokers[number].start()
        scene.cluster.until_whole(OFFSETS_LOG_TOPIC)
        elect(scene.cluster)

    return Fault("leaders moved", f"leaders moved from broker {number + 1} and back", None, happen)


def elect(cluster: Cluster) -> None:
    """Have the log's partitions led by the brokers that should lead them."""
    partitions = [TopicPartition(OFFSETS_LOG_TOPIC, number) for number in range(SHARDS)]
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap, "log_level": 0})
    with suppress(KafkaException):  # most are led by the right one
        admin.elect_leaders(ElectionType.PREFERRED, partitions).result(30)


def _kill_all(scene: Scene, chance: random.Random) -> Fault:
    def happen() -> None:
        for node in scene.nodes:
            node.end()
        for node in scene.nodes:
            node.start()

    return Fault("all nodes killed", "all nodes killed at once", None, happen)


def _drawn_s(chance: random.Random, limits: tuple[float, float]) -> float:
    least, most = limits
    return float(least * (most / least) ** chance.random())


def _one(scene: Scene, chance: random.Random) -> int:
    return chance.randrange(len(scene.nodes))


KINDS: Mapping[str, tuple[int, Callable[[Scene, random.Random], Fault]]] = {
    "kill": (6, _kill),
    "stop": (6, _stop),
    "sleep": (4, _sleep),
    "cut": (3, _cut),
    "broker": (2, _kill_broker),
    "leader": (2, _move_leaders),
    "all": (1, _kill_all),
}
"""Kinds of faults, with how often each is drawn beside the others."""


def drawn(scene: Scene, chance: random.Random, kinds: tuple[str, ...]) -> Fault:
    """Return one of these kinds."""
    (kind,) = chance.choices(kinds, [KINDS[one][0] for one in kinds])
    return KINDS[kind][1](scene, chance)
