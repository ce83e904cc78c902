"""The run: groups that commit, what goes wrong, and how long nobody could commit."""

import asyncio
import math
import random
import threading
import time
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import NamedTuple

from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from bench.balanced_members import KafkaAsking
from interop.cluster_nodes import NODES_GROUP, SHARDS, Node, node
from interop.kafka_cluster import kafka_cluster
from interop.nodes.cuttable_proxy import CuttableProxy
from interop.nodes.faults import Fault, Scene, drawn
from interop.nodes.judge import Clerk, quantile
from interop.nodes.office import Office
from interop.nodes.preload import LOADED_TOPIC, preload
from interop.nodes.preload import PARTITIONS as LOADED_PARTITIONS
from interop.shared_log import gaps_of
from protocol.messages.node import FindCoordinator, FindCoordinatorReply

TOPIC, PARTITIONS, BROKERS = "orders", 4, 3
NODES = (1, 2, 3)
COORDINATORS = 1_000_000_000
"""Ids of nodes as coordinators follow it."""
_PATIENCE_S, _BEGIN_S = 180.0, 120.0
_AGAIN = 2
"""Commits of each clerk after which its group counts as served again."""
_LOOK_S, _ASKED_WITHIN_S = 0.25, 30.0
_OF_MEMBERS = {"leader rejoined", "member metadata changed", "member left"}
"""Causes that are the members' own: they asked for it."""


class Plan(NamedTuple):
    """Extent of a run."""

    libraries: tuple[str, ...]
    groups: int
    """Number of groups of each library."""
    pause_ms: int
    faults: int
    kinds: tuple[str, ...]
    seed: int
    minutes: float
    """Time after which no further fault is drawn."""
    offsets: int
    """Committed offsets of other groups in each shard."""
    ease_s: float
    """Time between one fault and the next."""
    within_s: float | None
    stopped_within_s: float | None
    waits_for_ready: bool
    """True if each fault waits until all nodes are ready, as each step of a rolling restart does."""


class Story:
    """Lets faults happen, and keeps what each group saw of them."""

    def __init__(self, scene: Scene, offices: Sequence[Office], ease_s: float) -> None:
        self.failed: list[str] = []
        self.gaps_s: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
        """Longest time without a commit by kind of fault and client, of each group that the faulty node had, or of all;
        also of the time before a node that was away was started again, since shards move once more when it joins."""
        self._scene = scene
        self._offices = offices
        self._ease_s = ease_s
        self._looked_s = time.time()
        """Wall time at which causes were last asked for: a rebalance may begin before a fault and end after it."""

    @property
    def clerks(self) -> list[Clerk]:
        return [clerk for office in self._offices for clerk in office.clerks.values()]

    def begin(self) -> bool:
        """Wait until everybody commits."""
        return self._until_all_commit("a beginning", time.time(), _BEGIN_S)

    def tell(self, fault: Fault) -> bool:
        """Let it happen, and wait until everybody commits again; false if somebody does not."""
        owners = owners_of(self._scene, [clerk.group for clerk in self.clerks])
        moves = {clerk.group: clerk.moves for clerk in self.clerks}
        refused = self._refused()
        from_s = time.time()
        again_s = fault.happen()
        goes_on = self._until_all_commit(fault.what, time.time(), _PATIENCE_S)
        of_node: list[float] = []
        for office in self._offices:
            gaps = self._gaps(office, fault, owners, from_s)
            of_node += gaps
            self.gaps_s[fault.kind][office.library] += gaps
            if again_s is not None:
                before = self._gaps(office, fault, owners, from_s, again_s)
                self.gaps_s[f"{fault.kind}, until it is back"][office.library] += before
        moved = {
            clerk.group: self._causes(clerk.group, self._looked_s)
            for clerk in self.clerks
            if clerk.moves > moves[clerk.group]
        }
        self._looked_s = time.time()
        print(
            f"{fault.what}: no commit of {len(of_node)} groups for {quantile(of_node, 1):.2f} s at most, "
            f"{quantile(of_node, 0.5):.2f} s in the middle; refused: {dict(self._refused() - refused) or 'none'}; "
            f"rebalanced: {moved or 'none'}",
            flush=True,
        )
        self.failed += [
            f"{fault.what}: {group} was rebalanced: {causes or 'for no cause that is noted'}"
            for group, causes in moved.items()
            if not is_of_members(causes)
        ]
        self.failed += [f"{fault.what}: {office.library} has ended" for office in self._offices if office.has_ended]
        time.sleep(self._ease_s)
        return goes_on

    @staticmethod
    def _gaps(
        office: Office, fault: Fault, owners: Mapping[str, int | None], from_s: float, until_s: float = math.inf
    ) -> list[float]:
        """Return the longest time without a commit of each of the client's groups that the faulty node had, or of all.
        The time may begin until then, and end later."""
        found = []
        for clerk in office.clerks.values():
            if fault.node in (None, owners[clerk.group]):
                times = clerk.acknowledged_s
                found += gaps_of([times[: bisect_right(times, until_s) + 1]], from_s)
        return found

    def _causes(self, group: str, since_s: float) -> list[str]:
        """Return what nodes have noted as the causes of the group's rebalances. A node that starts answers 503."""
        deadline = time.monotonic() + _ASKED_WITHIN_S
        while True:
            try:
                notes = self._scene.nodes[0].ask(f"/v1/groups/{group}/notes")["notes"]
            except OSError as error:
                if time.monotonic() > deadline:
                    return [f"nobody can be asked: {error}"]
                time.sleep(_LOOK_S)
            else:
                since_ms = since_s * 1_000
                return [note["cause"] for note in notes if note["kind"] == "rebalance" and note["wall_ms"] >= since_ms]

    def _refused(self) -> Counter[str]:
        return sum((clerk.refused for clerk in self.clerks), Counter())

    def _until_all_commit(self, what: str, since_s: float, within_s: float) -> bool:
        deadline = time.monotonic() + within_s
        while missing := [clerk.group for clerk in self.clerks if not _commits(clerk, since_s)]:
            if time.monotonic() > deadline:
                self.failed.append(f"{what}: {len(missing)} groups do not commit: {', '.join(missing[:5])}")
                return False
            time.sleep(_LOOK_S)
        return True


def is_of_members(causes: Sequence[str]) -> bool:
    """Return whether members themselves asked for these rebalances: one that left may join again."""
    return bool(causes) and ("member left" in causes or _OF_MEMBERS.issuperset(causes))


def _commits(clerk: Clerk, since_s: float) -> bool:
    return len(clerk.acknowledged_s) >= _AGAIN and clerk.acknowledged_s[-_AGAIN] > since_s


def owners_of(scene: Scene, groups: Sequence[str]) -> Mapping[str, int | None]:
    """Return the place of the node that has each group; None for one that none has."""

    async def ask() -> FindCoordinatorReply:
        connection = await KafkaAsking.open(_port(scene.nodes[0]))
        try:
            found = await connection.ask(FindCoordinator(tuple(groups)), 4)
            assert isinstance(found, FindCoordinatorReply)
            return found
        finally:
            connection.close()

    ids = {one.key: one.node_id for one in asyncio.run(ask()).coordinators if not one.error_code}
    places = {COORDINATORS + number: place for place, number in enumerate(NODES)}
    return {group: places.get(ids.get(group, -1)) for group in groups}


def run(work: Path, plan: Plan, is_ended: threading.Event) -> list[str]:
    """Prints as it goes; what failed. Once it is ended, no further fault is drawn."""
    with ExitStack() as stack:
        cluster = stack.enter_context(kafka_cluster(work, BROKERS, ways=len(NODES)))
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap, "log_level": 0})
        admin.create_topics([NewTopic(TOPIC, PARTITIONS, BROKERS)])[TOPIC].result(30)
        scene = Scene([], [CuttableProxy(way.advertised, way.ports) for way in cluster.ways], cluster)
        for number, proxy in zip(NODES, scene.proxies, strict=True):
            stack.callback(proxy.close)
            scene.nodes.append(node(number, proxy.bootstrap, work))
            stack.callback(scene.nodes[-1].end)
        bootstrap = ",".join(one.bootstrap for one in scene.nodes)
        if plan.offsets:
            admin.create_topics([NewTopic(LOADED_TOPIC, LOADED_PARTITIONS, 1)])[LOADED_TOPIC].result(30)
            _until_all_ready(scene)
            preload([_port(one) for one in scene.nodes], plan.offsets * SHARDS)
            print(f"{plan.offsets * SHARDS:,} offsets of other groups", flush=True)
        offices = []
        for library in plan.libraries:
            offices.append(Office(library, plan.groups, TOPIC, bootstrap, plan.pause_ms, work))
            stack.callback(offices[-1].kill)
        story = Story(scene, offices, plan.ease_s)
        if story.begin():
            story.failed += _second_of_one_id(cluster.bootstrap, work)
            _let_happen(story, scene, plan, is_ended)
        story.failed += [fault for office in offices if (fault := office.stop())]
        for clerk in story.clerks:
            clerk.found(_committed(bootstrap, clerk.group))
        story.failed += _summary(story, plan)
        heard = cluster.groups() - {NODES_GROUP}
        return story.failed + [f"Kafka's own coordinator has heard of the group {one}" for one in heard]


def _port(node: Node) -> int:
    return int(node.bootstrap.rpartition(":")[2])


def _until_all_ready(scene: Scene) -> None:
    """Until each node serves shards, and all are served. Raises TimeoutError."""
    deadline = time.monotonic() + _BEGIN_S
    while time.monotonic() < deadline:
        with suppress(OSError):  # 503 until it is ready
            served = [one.ask("/readyz")["shards_loaded"] for one in scene.nodes]
            if all(served) and sum(served) == SHARDS:
                return
        time.sleep(_LOOK_S)
    raise TimeoutError(f"not all nodes are ready after {_BEGIN_S:g} s")


def _let_happen(story: Story, scene: Scene, plan: Plan, is_ended: threading.Event) -> None:
    chance = random.Random(plan.seed)
    ends_s = time.monotonic() + 60 * plan.minutes
    for number in range(1, plan.faults + 1):
        if is_ended.is_set() or time.monotonic() > ends_s:
            return
        if plan.waits_for_ready:
            _until_all_ready(scene)
        print(f"{number}. ", end="", flush=True)
        if not story.tell(drawn(scene, chance, plan.kinds)):
            return


def _committed(bootstrap: str, group: str) -> int:
    reader = Consumer({"bootstrap.servers": bootstrap, "group.id": group, "log_level": 0})
    try:
        return reader.committed([TopicPartition(TOPIC, 0)], timeout=60)[0].offset
    finally:
        reader.close()


def _summary(story: Story, plan: Plan) -> list[str]:
    """Print what groups saw of each kind of fault; what is beyond the limits, and what clerks found wrong."""
    print("| what happens | groups that saw it | p50 | p99 | longest time without a commit |\n|---|---|---|---|---|")
    every = {kind: [gap for gaps in by_client.values() for gap in gaps] for kind, by_client in story.gaps_s.items()}
    for kind, gaps in sorted(every.items()):
        told = " | ".join(f"{quantile(gaps, share):.2f} s" for share in (0.5, 0.99, 1))
        print(f"| {kind} | {len(gaps)} | {told} |")
    for kind, by_client in sorted(story.gaps_s.items()):
        for library, gaps in by_client.items():
            print(f"{kind}, {library}: " + " / ".join(f"{quantile(gaps, share):.2f}" for share in (0.5, 0.99)) + " s")
    commits = sum(len(clerk.acknowledged_s) for clerk in story.clerks)
    print(f"{commits:,} commits of {len(story.clerks)} groups acknowledged", flush=True)
    limits = (("kill -9", plan.within_s), ("planned stop", plan.stopped_within_s))
    late = [
        f"{kind}: {longest:.2f} s at p99, {limit:g} s are allowed"
        for kind, limit in limits
        if limit is not None and (longest := quantile(every.get(kind, []), 0.99)) > limit
    ]
    return late + _faults(story.clerks)


def _faults(clerks: Iterable[Clerk]) -> list[str]:
    return [fault for clerk in clerks for fault in clerk.faults]


def _second_of_one_id(brokers: str, work: Path) -> list[str]:
    """Start a second node 1 while the first lives: it must end with a sentence. Return what failed."""
    folder = work / "again"
    try:
        node(1, brokers, folder).end()
    except RuntimeError:
        said = (folder / "musterd-1" / "musterd.log").read_text()
        if "node.id 1 is that of a musterd which lives" in said:
            print("a second node 1: refused, and told why", flush=True)
            return []
    return ["a second node 1 was not refused with its sentence"]
