"""`python -m interop.log_node --node 1 --bootstrap HOST:PORT,...`: a node whose shards are one number each, in the log
of a Kafka cluster. It counts each shard that it owns upwards, as fast as it is acknowledged, and says so line by line:

    own SHARD TAG NUMBER TIME      the shard is served under the claim TAG, and was read up to NUMBER
    ack SHARD TAG NUMBER TIME      NUMBER is acknowledged
    problem SENTENCE

SIGTERM ends it as planned. `interop.shared_log` runs several and judges what they said.
"""

import argparse
import asyncio
import signal
import sys
import time
from collections.abc import Callable
from functools import partial
from typing import Any

from coordinator.cluster_log.cluster_shard import ClusterShard
from coordinator.cluster_log.effects import (
    AskProducerId,
    KeysToRepair,
    LogReplayed,
    ReadLog,
    ShardEffect,
    ShardHandedOver,
    ShardLost,
    ShardOwned,
    StateDropped,
    WriteBatch,
    WritesDurable,
)
from coordinator.cluster_log.lease import Lease
from coordinator.cluster_log.settings import BootMoment, ClusterLogSettings
from coordinator.cluster_log.turns import ReadTurns
from coordinator.cluster_node.effects import HandedOver, PublishNews, ShardRequest
from coordinator.cluster_node.events import LeaseEnded, LeaseRenewed, LogProblems, ShardChanged
from coordinator.cluster_node.nodes import NOBODY, NodeView, Taken
from coordinator.config.config import ConfigError
from coordinator.gateway.cluster.nodes_group import FollowedShards
from coordinator.gateway.io.broker_client import BrokerClient
from coordinator.gateway.io.cluster.cluster_edge import ClusterEdge, ClusterPlan
from coordinator.gateway.io.cluster.link import ClusterLink
from coordinator.gateway.io.cluster.member import boot_ms
from coordinator.node.effects import Effect
from coordinator.node.events import Event

GROUP, HEARTBEAT_MS, COPIES = "__muster_nodes", 300, 3
_KEY = b"number"
_PAUSE_S = 0.01
"""Between an acknowledgement and the next number."""


class Counter:
    """A shard: its number, as appended, and the position of the append under way."""

    def __init__(self, core: ClusterShard) -> None:
        self.core = core
        self.number = 0
        self.tag = -1
        self.position = 0


class LogNode:
    """In a server's place and in a node's: carries shards on the loop's clock."""

    def __init__(self, shards: int, settings: ClusterLogSettings, say: Callable[[str], None]) -> None:
        self._say = say
        self._lease = Lease(settings)
        self._loop = asyncio.get_running_loop()
        self._edge: dict[type[Effect], Callable[[Any], None]] = {}
        self._timer: asyncio.TimerHandle | None = None
        turns = ReadTurns()
        self.shards = [Counter(ClusterShard(index, settings, self._lease, turns, _now())) for index in range(shards)]

    def carry_out(self, kind: type[Effect], how: Callable[[Any], None]) -> None:
        self._edge[kind] = how

    def happen(self, event: Event) -> None:
        match event:
            case ShardChanged(shard=shard, event=change):
                self.shards[shard].core.happen(change, _now())
            case LeaseRenewed(sent_boot_ms=sent_ms):
                self._lease.heartbeat_succeeded(sent_ms, _now().boot_ms)
            case LeaseEnded():
                self._lease.end()
            case LogProblems(problems=problems):
                for problem in problems:
                    self._say(f"problem {problem}")
        self.run()

    def stop(self) -> None:
        """Stand still."""
        if self._timer is not None:
            self._timer.cancel()

    def run(self) -> None:
        """Do what is due."""
        for shard in self.shards:
            for effect in shard.core.take_effects(_now()):
                self._apply(shard, effect)
        self.stop()
        due_ms = min(shard.core.next_deadline_ms for shard in self.shards)
        self._timer = self._loop.call_later(max(due_ms - boot_ms(), 1) / 1_000, self.run)

    def _apply(self, shard: Counter, effect: ShardEffect) -> None:
        match effect:
            case AskProducerId() | WriteBatch() | ReadLog():
                self._edge[ShardRequest](ShardRequest(effect))
            case ShardHandedOver():
                self._edge[HandedOver](HandedOver(effect.shard))
            case StateDropped():
                shard.number = 0
            case LogReplayed(records=records):
                for _, value in records:
                    shard.number = int(value or b"0")
            case KeysToRepair():
                shard.core.append([(_KEY, b"%d" % shard.number)], _now())
            case ShardOwned(tag=tag):
                shard.tag = tag
                self._edge[PublishNews](PublishNews((Taken(effect.shard, tag, NOBODY),)))
                self._tell("own", shard)
                self._count(shard, tag)
            case WritesDurable(position=position) if position >= shard.position:
                self._tell("ack", shard)
                self._loop.call_later(_PAUSE_S, partial(self._count, shard, shard.tag))
            case ShardLost(reason=reason):
                self._say(f"lost {effect.shard} {reason}")
                shard.tag = -1

    def _count(self, shard: Counter, tag: int) -> None:
        if shard.tag != tag:
            return
        position = shard.core.append([(_KEY, b"%d" % (shard.number + 1))], _now())
        if position is not None:
            shard.number, shard.position = shard.number + 1, position
            self._loop.call_soon(self.run)

    def _tell(self, what: str, shard: Counter) -> None:
        self._say(f"{what} {shard.core.index} {shard.tag} {shard.number} {time.monotonic():.3f}")


def _now() -> BootMoment:
    return BootMoment(boot_ms(), time.time_ns() // 1_000_000)


async def run(options: argparse.Namespace) -> None:
    """Run the node until a signal ends it. Raises ConfigError."""
    settings = ClusterLogSettings()
    node = LogNode(options.shards, settings, partial(print, flush=True))
    link = ClusterLink(
        [(host, int(port)) for host, _, port in (one.partition(":") for one in options.bootstrap.split(","))],
        lambda address: BrokerClient.open(*address, 2.0),
        lambda _reply: "",
    )
    plan = ClusterPlan(
        options.node, options.shards, COPIES, GROUP, HEARTBEAT_MS, FollowedShards(options.follows), settings
    )
    edge = ClusterEdge(node, plan, link)
    ended = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, ended.set)
    await edge.start(NodeView(options.node, {"kafka": ("127.0.0.1", 9_000 + options.node)}))
    await ended.wait()
    await edge.stop()
    node.stop()


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m interop.log_node")
    parser.add_argument("--node", type=int, required=True)
    parser.add_argument("--bootstrap", required=True)
    parser.add_argument("--shards", type=int, default=12)
    parser.add_argument("--follows", default=FollowedShards.INHERITED.value)
    try:
        asyncio.run(run(parser.parse_args()))
    except ConfigError as refused:
        sys.exit(f"log_node: {refused}")


if __name__ == "__main__":
    main()
