"""The run: records are written, read and written on while the nodes of their groups are killed."""

import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from interop.cluster_nodes import NODES_GROUP, node
from interop.committed import Committed, committed_records
from interop.deliveries import deliveries
from interop.exactly_once.judge import of_copies
from interop.kafka_cluster import kafka_cluster
from interop.load import Load
from interop.nodes.faults import Scene
from interop.nodes.story import NODES, owners_of
from interop.outage_member import NATIVE
from interop.program import until
from interop.reader import Reader
from interop.recovery import Recovery

BROKERS, PARTITIONS = 3, 12
QUERIES, SERVICES = ("spark-1", "spark-2"), ("confluent-kafka", "muster")
_AWAY_S, _LONG_AWAY_S = 2.0, 10.0
"""Time for which a killed node stays away; every second for longer than a session of the nodes."""
_PATIENCE_S, _EASE_S = 400.0, 3.0


class Plan(NamedTuple):
    parts: tuple[str, ...]
    kills: int
    per_second: int


class SparkRig(NamedTuple):
    """Cluster and nodes, and where members leave what they have read."""

    scene: Scene
    work: Path
    plan: Plan

    @property
    def natives(self) -> str:
        return ",".join(one.native for one in self.scene.nodes)

    @property
    def kafka(self) -> str:
        return ",".join(one.bootstrap for one in self.scene.nodes)

    def query(self, name: str, group: str, topic: str, *more: str) -> Reader:
        """Start a query of the group."""
        folder = self.work / group
        folder.mkdir(exist_ok=True)
        file = folder / f"{name}.read"
        command = [sys.executable, "-m", "interop.spark_nodes.query", "--bootstrap", self.natives, "--group", group]
        command += ["--topic", topic, "--name", name, "--folder", str(folder), "--file", str(file), *more]
        file.touch()
        return Reader(name, command, file, folder / f"{name}.log")

    def service(self, library: str, group: str, topic: str) -> Reader:
        """Start a consumer of the group."""
        folder = self.work / group
        folder.mkdir(exist_ok=True)
        file = folder / f"{library}.read"
        where = self.natives if library in NATIVE else self.kafka
        command = [sys.executable, "-m", "interop.outage_member", library, where, group, topic, str(file)]
        file.touch()
        return Reader(library, command, file, folder / f"{library}.log")


def run(work: Path, plan: Plan) -> list[str]:
    """Prints as it goes; what failed."""
    with ExitStack() as stack:
        cluster = stack.enter_context(kafka_cluster(work, BROKERS))
        scene = Scene([], [], cluster)
        for number in NODES:
            scene.nodes.append(node(number, cluster.bootstrap, work))
            stack.callback(scene.nodes[-1].end)
        failed = [fault for part in plan.parts for fault in PARTS[part](SparkRig(scene, work, plan))]
        heard = cluster.groups() - {NODES_GROUP}
        return failed + [f"Kafka's own coordinator has heard of the group {one}" for one in heard]


def _shared(rig: SparkRig) -> list[str]:
    """Queries and services in one group."""
    group, topic = "reports", "sales"
    _make(rig, topic)
    with ExitStack() as stack:
        load = _load(rig, topic, stack)
        members = [rig.query(name, group, topic) for name in QUERIES]
        members += [rig.service(library, group, topic) for library in SERVICES]
        failed = _told(rig, load, members, [], [group], stack)
    failed += [f"the producer: {one}" for one in load.refused]
    found = deliveries(load.acknowledged, {one.name: one.read() for one in members})
    print(f"shared: {found}", flush=True)
    return [f"shared: {one}" for one in [*failed, *found.faults]]


def _once(rig: SparkRig) -> list[str]:
    """Queries that write with one transactional sink, and services that read what is committed."""
    group, topic, bills, after = "billing", "orders", "bills", "mailing"
    sink = "bills-sink"
    _make(rig, topic, bills)
    with ExitStack() as stack:
        load = _load(rig, topic, stack)
        to = ("--to", bills, "--sink", sink, "--sink-bootstrap", f"kafka://{rig.kafka}")
        queries = [rig.query(name, group, topic, *to) for name in QUERIES]
        services = [rig.service(library, after, bills) for library in SERVICES]
        failed = _told(rig, load, queries, services, [group, sink, after], stack)
        there = _committed(rig, bills)
        until(lambda: not _left(there, services), "services have read all that is committed", _PATIENCE_S)
    failed += [f"the producer: {one}" for one in load.refused]
    copies = of_copies([one.value for one in there], len(load.acknowledged))
    read = deliveries(load.acknowledged, {one.name: one.read() for one in queries})
    served = deliveries([(one.partition, one.offset) for one in there], {one.name: one.read() for one in services})
    print(f"once, queries: {read}", flush=True)
    print(f"once, their topic: {len(there):,} records, {len(copies)} faults; services: {served}", flush=True)
    return [f"once: {one}" for one in [*failed, *copies, *read.faults, *served.faults]]


PARTS: Mapping[str, Callable[[SparkRig], list[str]]] = {"shared": _shared, "once": _once}


def _make(rig: SparkRig, *topics: str) -> None:
    admin = AdminClient({"bootstrap.servers": rig.scene.cluster.bootstrap, "log_level": 0})
    for made in admin.create_topics([NewTopic(one, PARTITIONS, BROKERS) for one in topics]).values():
        made.result(30)


def _load(rig: SparkRig, topic: str, stack: ExitStack) -> Load:
    load = Load(rig.scene.cluster.bootstrap, topic, rig.plan.per_second)
    stack.callback(load.stop)
    return load


def _told(
    rig: SparkRig,
    load: Load,
    readers: Sequence[Reader],
    followers: Sequence[Reader],
    groups: Sequence[str],
    stack: ExitStack,
) -> list[str]:
    """Kill the nodes of these groups in turn, and each third time a member; what failed. Members end with the stack."""
    members = (*readers, *followers)
    for one in members:
        stack.callback(one.stop)
    recovery = Recovery(readers, load, followers=followers, ease_s=_EASE_S, patience_s=_PATIENCE_S)
    recovery.after("a beginning", lambda: None)
    for number in range(rig.plan.kills):
        if recovery.failed:
            break
        group = groups[number % len(groups)]
        member = members[number // 3 % len(members)] if number % 3 == 2 else None
        place = _owner(rig, group)
        what = f"kill {number + 1}: node {NODES[place]}, which had the group {group}"
        what += f", and {member.name}" if member else ""
        recovery.after(what, _killing(rig, place, _AWAY_S if number % 2 else _LONG_AWAY_S, member))
    recovery.after("the end", load.stop, by_all=False)
    return recovery.failed


def _killing(rig: SparkRig, place: int, away_s: float, member: Reader | None) -> Callable[[], None]:
    def happen() -> None:
        rig.scene.nodes[place].end()
        time.sleep(away_s / 2)
        if member is not None:  # after it has read what it cannot commit
            member.kill()
        time.sleep(away_s / 2)
        rig.scene.nodes[place].start()
        if member is not None:
            member.start()

    return happen


def _owner(rig: SparkRig, group: str) -> int:
    """Return the place of the node that has the group, once one has it. Raises Unlike."""
    found: list[int] = []

    def is_owned() -> bool:
        place = owners_of(rig.scene, [group])[group]
        if place is not None:
            found.append(place)
        return bool(found)

    until(is_owned, f"the group {group} has a node", _PATIENCE_S)
    return found[0]


def _committed(rig: SparkRig, topic: str) -> list[Committed]:
    return committed_records(rig.scene.cluster.bootstrap, topic, PARTITIONS)


def _left(there: Sequence[Committed], services: Sequence[Reader]) -> set[tuple[int, int]]:
    return {(one.partition, one.offset) for one in there} - {place for one in services for place in one.read()}
