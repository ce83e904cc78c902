"""The run: numbers that are written, carried on and judged while nodes and programs are killed."""

import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import NamedTuple

from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from bench.builds import NotHere
from interop import builds, catalogue
from interop.cluster_nodes import NODES_GROUP, node
from interop.committed import committed_records, reading
from interop.exactly_once.etl import ETL, etl_through_brokers, etl_through_nodes
from interop.exactly_once.judge import of_copies, of_counts, of_offsets
from interop.exactly_once.killer import Killer
from interop.exactly_once.workers import Worker
from interop.kafka_cluster import Cluster, kafka_cluster
from interop.processes import Program, missing
from interop.server import Musterd

TOPIC, PARTITIONS = "numbers", 4


class _Copier(NamedTuple):
    """A client that carries numbers on: how many programs, and how its topic is judged."""

    judge: Callable[[list[str], int], list[str]] = of_copies
    programs: int = 2
    has_folder: bool = False
    """Its programs take a folder in place of a transactional id."""
    commits: bool = True
    """The group has offsets of what it reads."""


_COPIERS: Mapping[str, _Copier] = {
    "java": _Copier(),
    "confluent-kafka": _Copier(),
    "go-franz": _Copier(),
    "kafka-streams": _Copier(of_counts, has_folder=True),
    "connect": _Copier(has_folder=True, commits=False),
    "flink": _Copier(programs=1, has_folder=True),
}
PROGRAMS = (*_COPIERS, ETL)
_PATIENCE_S = 180.0
_PAUSE_MS = "250"
_EVENTS = ("committed", "aborted", "anew", "ended by itself")


class Plan(NamedTuple):
    """Programs and numbers of a run. `compare`: TestTxnEtl through the brokers themselves, too."""

    programs: tuple[str, ...]
    brokers: int
    nodes: int
    kills: int
    etl_records: int
    compare: bool


class TransactionRig:
    """Cluster, nodes and the folder of a run, and what failed."""

    def __init__(self, cluster: Cluster, nodes: list[Musterd], work: Path) -> None:
        self.failed: list[str] = []
        self.cluster = cluster
        self.nodes = nodes
        self.killer = Killer(nodes)
        self.work = work

    @property
    def bootstrap(self) -> str:
        return ",".join(one.bootstrap for one in self.nodes)


def run(work: Path, plan: Plan) -> list[str]:
    """Prints as it goes; what failed."""
    chosen = [name for name in _COPIERS if name in plan.programs]
    programs = {name: _built(name) for name in (*chosen, "java")} if chosen else {}
    with ExitStack() as stack:
        cluster = stack.enter_context(kafka_cluster(work, plan.brokers, ways=int(plan.compare)))
        topics = [TOPIC, *(_target(name) for name in chosen)]
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap, "log_level": 0})
        for created in admin.create_topics([NewTopic(one, PARTITIONS, plan.brokers) for one in topics]).values():
            created.result(30)
        nodes: list[Musterd] = []
        for number in range(plan.nodes):
            nodes.append(node(number + 1, cluster.bootstrap, work))
            stack.callback(nodes[-1].end)
        rig = TransactionRig(cluster, nodes, work)
        if chosen:
            _carry(rig, programs, chosen, plan.kills)
        for one in nodes:
            one.stop()
        if ETL in plan.programs:
            rig.failed += etl_through_nodes(cluster, work, plan.nodes, plan.etl_records, plan.kills)
        heard = cluster.groups() - {NODES_GROUP}
        rig.failed += [f"Kafka's own coordinator has heard of the group {one}" for one in heard]
        if ETL in plan.programs and plan.compare:
            with suppress(TimeoutError):  # not judged
                etl_through_brokers(cluster, plan.etl_records, plan.kills)
    return rig.failed


def _built(name: str) -> Program:
    folder = builds.CLIENTS / name
    client = catalogue.read((folder / "client.toml").read_bytes())
    if lacking := missing(client):
        raise NotHere(f"there is no {', '.join(lacking)} here, which {client.name} needs")
    return builds.built(folder, client)


def _target(name: str) -> str:
    return f"{TOPIC}-{name}"


def _group(name: str) -> str:
    return f"copy-{name}"


# --- numbers, carried from topic to topic ---


def _carry(rig: TransactionRig, programs: Mapping[str, Program], chosen: list[str], kills: int) -> None:
    workers: dict[str, list[Worker]] = {}
    with ExitStack() as stack:
        written = ["transact", "--bootstrap", rig.bootstrap, "--topic", TOPIC, "--partitions", str(PARTITIONS)]
        written += ["--transactional-id", TOPIC, "--pause-ms", _PAUSE_MS]
        writer = Worker(programs["java"], written, rig.work / "writer.log")
        stack.callback(writer.kill)
        for name in chosen:
            workers[name] = [_worker(rig, programs[name], name, number) for number in range(_COPIERS[name].programs)]
            for one in workers[name]:
                stack.callback(one.kill)
        _until_all_go_on(rig, workers, "a beginning")
        for number in range(kills):
            rig.killer.kill_next()
            what = f"kill {number + 1}: a node"
            if number % 2:
                name = chosen[number // 2 % len(chosen)]
                workers[name][0].crash()
                what += f", and a program of {name}"
            if not _until_all_go_on(rig, workers, what):
                break
        if writer.stop() != 0:
            rig.failed.append("the writer of transactions did not end in good order")
        count = writer.told["records"]
        print(f"written: {count:,} numbers, {writer.told['aborted']} transactions aborted", flush=True)
        for name in chosen:
            _judge(rig, name, count, workers[name])


def _worker(rig: TransactionRig, program: Program, name: str, number: int) -> Worker:
    arguments = ["transform", "--bootstrap", rig.bootstrap, "--topic", TOPIC, "--to", _target(name)]
    arguments += ["--group", _group(name)]
    if _COPIERS[name].has_folder:
        arguments += ["--folder", str(rig.work / f"state-{name}-{number}")]
    else:
        arguments += ["--transactional-id", f"{name}-{number}"]
    return Worker(program, arguments, rig.work / f"{name}-{number}.log")


def _until_all_go_on(rig: TransactionRig, workers: Mapping[str, list[Worker]], what: str) -> bool:
    """Wait until each program has written something more, and say how long that took."""
    reached = {name: _ends(rig, name) for name in workers}
    began = time.monotonic()
    waiting = set(workers)
    while waiting and time.monotonic() - began < _PATIENCE_S:
        time.sleep(0.5)
        _revive(workers[name] for name in waiting)
        waiting -= {name for name in waiting if _ends(rig, name) > reached[name]}
    print(f"{what}: all go on after {time.monotonic() - began:.1f} s", flush=True)
    rig.failed += [f"{what}: {name} does not go on" for name in sorted(waiting)]
    return not waiting


def _revive(workers: Iterable[list[Worker]]) -> None:
    for each in workers:
        for one in each:
            one.revive()


def _ends(rig: TransactionRig, name: str) -> int:
    """Sum of the topic's ends, as readers of committed records see them."""
    reader = Consumer(reading(rig.cluster.bootstrap))
    try:
        ends = [reader.get_watermark_offsets(TopicPartition(_target(name), at), timeout=20) for at in range(PARTITIONS)]
        return sum(high for _, high in ends)
    finally:
        reader.close()


def _judge(rig: TransactionRig, name: str, count: int, workers: list[Worker]) -> None:
    """Wait until the program has carried everything on, stop it, and look at what is there."""
    deadline = time.monotonic() + _PATIENCE_S
    while (len(_everything(rig, name)) < count or _behind(rig, name)) and time.monotonic() < deadline:
        time.sleep(1)
        _revive([workers])
    for number, one in enumerate(workers):
        code = one.stop()
        if code != 0:
            rig.failed.append(f"{name}: program {number} ended with {code}")
    found = _everything(rig, name)
    faults = _COPIERS[name].judge(found, count) + _behind(rig, name)
    told = {event: sum(one.told[event] for one in workers) for event in _EVENTS}
    print(
        f"{name}: {len(found):,} of {count:,} numbers, {len(faults)} faults; transactions as told: {told}", flush=True
    )
    rig.failed += [f"{name}: {fault}" for fault in faults]


def _everything(rig: TransactionRig, name: str) -> list[str]:
    """Return the committed values of a topic now, each partition's in order."""
    return [one.value for one in committed_records(rig.cluster.bootstrap, _target(name), PARTITIONS)]


def _behind(rig: TransactionRig, name: str) -> list[str]:
    """Return where the nodes have an offset of the group before the end of its input."""
    if not _COPIERS[name].commits:
        return []
    reader = Consumer({**reading(rig.bootstrap), "group.id": _group(name)})
    try:
        found = reader.committed([TopicPartition(TOPIC, at) for at in range(PARTITIONS)], timeout=20)
    finally:
        reader.close()
    records = committed_records(rig.cluster.bootstrap, TOPIC, PARTITIONS)
    return of_offsets({one.partition: one.offset for one in found}, records)
