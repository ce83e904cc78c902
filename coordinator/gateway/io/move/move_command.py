"""EDGE: `musterd log move cluster|local`, between a data folder and the cluster's log, while every node is stopped."""

import asyncio
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from coordinator.cluster_log.log_move import refusal
from coordinator.cluster_log.settings import OFFSETS_LOG_TOPIC, ClusterLogSettings
from coordinator.config.config import Config, ConfigError, load_config
from coordinator.gateway.io.broker_client import BrokerClient, RequestFailed
from coordinator.gateway.io.cluster.link import ClusterLink
from coordinator.gateway.io.cluster.preparation import Preparation
from coordinator.gateway.io.cluster_identity import ClusterIdentity
from coordinator.gateway.io.move.cluster_side import ClusterSide
from coordinator.gateway.io.move.data_folder import MoveRefused, finish, read_folder, write_folder
from coordinator.gateway.io.security import upstream_login, upstream_tls
from coordinator.records.codec import decode
from coordinator.records.records import CommittedOffset, LogCorrupt
from partition_log.disk.disk import OsDisk
from partition_log.errors import FolderInUse, LogDamaged
from partition_log.store.recovery import LOCK_FILE
from protocol.messages.topics import MetadataReply
from protocol.record_batch import CorruptBatch
from protocol.words import counted

MOVED, REFUSED, MISUSED = 0, 1, 2
TO_CLUSTER, TO_LOCAL = "cluster", "local"
_EXECUTE, _HELP = "--execute", ("--help", "-h")
USAGE = f"""\
usage: musterd log move cluster|local [--execute] --data-dir DIR --upstream HOST:PORT[,...] [OPTIONS OF musterd]

Moves groups and offsets, while every node is stopped: `cluster` from the data folder to the topic
{OFFSETS_LOG_TOPIC} of the Kafka cluster, `local` from that topic to a new data folder.
Shows the plan, shard by shard; with --execute moves the shards, reads them back and compares.
"""
_SESSION_MS = 60_000
"""Suspension of the process after which a claim is given up; long, since no client waits for a move."""
Say = Callable[[str], None]


def main(arguments: Sequence[str]) -> int:
    """Return the exit code: 0 if everything was moved or, without `--execute`, can be; 1 if not; 2 for wrong
    arguments."""
    if set(arguments) & set(_HELP) or not arguments:
        print(USAGE, end="")
        return MOVED if arguments else MISUSED
    if arguments[0] not in {TO_CLUSTER, TO_LOCAL}:
        return _complain(f"{arguments[0]} is neither {TO_CLUSTER} nor {TO_LOCAL} (--help says more)", MISUSED)
    rest = [one for one in arguments[1:] if one != _EXECUTE]
    try:
        config = load_config(rest, os.environ, lambda path: Path(path).read_bytes())
        if config.upstream_servers is None:
            raise ConfigError("upstream.servers is not set: name the Kafka cluster by --upstream")
        asyncio.run(_move(config, arguments[0], executes=_EXECUTE in arguments))
    except ConfigError as error:
        return _complain(str(error), MISUSED)
    except FolderInUse as error:
        return _complain(f"a daemon holds {error.filename}: stop it first", REFUSED)
    except (MoveRefused, RequestFailed, LogDamaged, LogCorrupt, CorruptBatch, OSError) as error:
        return _complain(str(error), REFUSED)
    return MOVED


async def _move(config: Config, target: str, *, executes: bool) -> None:
    move = to_cluster if target == TO_CLUSTER else to_local
    await move(config, link_to(config, checks_id=target == TO_CLUSTER), print, executes=executes)


def _complain(sentence: str, code: int) -> int:
    sys.stdout.flush()
    print(f"musterd log move: {sentence}", file=sys.stderr)
    return code


def link_to(config: Config, *, checks_id: bool) -> ClusterLink:
    """Return a link to the cluster like a node's. `checks_id`: require the cluster of the data folder. Raises
    ConfigError."""
    assert config.upstream_servers is not None
    identity = ClusterIdentity(Path(config.data_dir))
    login, tls, timeout_s = upstream_login(config), upstream_tls(config), config.upstream_ask_timeout_ms / 1_000

    def mismatch(reply: MetadataReply) -> str:
        # A folder without a recorded cluster is refused before any request, and nothing is recorded here.
        return identity.mismatch(reply.cluster_id) if checks_id and identity.recorded_cluster_id else ""

    servers = config.upstream_servers.host_ports
    return ClusterLink(servers, lambda address: BrokerClient.open(*address, timeout_s, login, tls), mismatch)


async def to_cluster(config: Config, link: ClusterLink, say: Say, *, executes: bool) -> None:
    """Move the data folder's records to the cluster's log. Raises MoveRefused, RequestFailed and what reading the
    folder raises."""
    folder, settings = Path(config.data_dir), ClusterLogSettings(session_ms=_SESSION_MS)
    held = _lock(folder) if executes else None
    side = ClusterSide(link, settings)
    try:
        found = await asyncio.to_thread(read_folder, folder)
        if found.in_use and not executes:
            say(f"note: a daemon serves {folder}: it must be stopped before a move")
        wanted = found.shards
        _check_sizes(wanted, settings)
        await side.check_unused(config.upstream_nodes_group)
        partitions = await side.partitions()
        if partitions not in {0, len(wanted)}:
            raise MoveRefused(
                f"topic {OFFSETS_LOG_TOPIC} has {counted(partitions, 'partition')} and {folder} has "
                f"{counted(len(wanted), 'shard')}: groups would not be found where they are"
            )
        present = await side.survey(partitions) if partitions else [{} for _ in wanted]
        for index, (records, there) in enumerate(zip(wanted, present, strict=True)):
            if why := refusal(there, records):
                raise MoveRefused(f"the cluster's log is not empty: shard {index}: {why}; delete the topic first")
            if records:
                say(f"shard {index}: {_summary(records)}, {len(there)} of them there already")
        say(f"all {len(wanted)} shards: {_summary(_together(wanted))}; from {folder} to {OFFSETS_LOG_TOPIC}")
        if not executes:
            say(f"Nothing was written. {_EXECUTE} moves it.")
            return
        copies = config.upstream_log_replication_factor
        for problem in await Preparation(link, len(wanted), copies, config.node_id, settings).run():
            say(f"unsafe: {problem}")
        written = await side.write(wanted)
        await side.check_unused(config.upstream_nodes_group)
        say(
            f"{written} records written, all read back and the same. Start the nodes with offsets.log=cluster and data "
            f"folders of their own; {folder} is as it was: do not serve it any more"
        )
    finally:
        await side.stop()
        if held is not None:
            OsDisk().close(held)


async def to_local(config: Config, link: ClusterLink, say: Say, *, executes: bool) -> None:
    """Move the cluster's log to a new data folder. Raises MoveRefused, RequestFailed, OSError."""
    folder, settings = Path(config.data_dir), ClusterLogSettings(session_ms=_SESSION_MS)
    _check_empty(folder)
    side = ClusterSide(link, settings)
    try:
        await side.check_unused(config.upstream_nodes_group)
        partitions = await side.partitions()
        if not partitions:
            raise MoveRefused(f"the cluster has no topic {OFFSETS_LOG_TOPIC}: there is nothing to move")
        if not executes:
            _report(await side.survey(partitions), folder, say)
            say(f"Nothing was written. {_EXECUTE} moves it.")
            return
        moves = await side.take(partitions)
        shards = [one.records for one in moves]

        async def write() -> Path:
            await asyncio.to_thread(_report, shards, folder, say)
            cluster_id = (await link.metadata()).cluster_id
            if not cluster_id:
                raise MoveRefused("the cluster does not report its id")
            return await asyncio.to_thread(write_folder, folder, shards, cluster_id, config.node_id)

        unfinished = await side.hold(moves, write())
        await side.confirm(moves)
        await side.check_unused(config.upstream_nodes_group)
        finish(unfinished, folder)
        say(
            f"{sum(map(len, shards))} records written, all read back and the same. Serve {folder} with "
            f"offsets.log=local by one node; {OFFSETS_LOG_TOPIC} is as it was: delete it before a move to the cluster"
        )
    finally:
        await side.stop()


def _lock(folder: Path) -> int | None:
    """Keep daemons away from a data folder. Raises FolderInUse."""
    return OsDisk().lock(f"{folder}/{LOCK_FILE}") if (folder / "node.toml").exists() else None


def _check_empty(folder: Path) -> None:
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise MoveRefused(f"{folder} is not empty: name a folder to make by --data-dir")


def _report(shards: Sequence[Mapping[bytes, bytes]], folder: Path, say: Say) -> None:
    for index, records in enumerate(shards):
        if records:
            say(f"shard {index}: {_summary(records)}")
    say(f"all {len(shards)} shards: {_summary(_together(shards))}; from {OFFSETS_LOG_TOPIC} to {folder}")


def _together(shards: Sequence[Mapping[bytes, bytes]]) -> dict[bytes, bytes]:
    return {key: value for records in shards for key, value in records.items()}


def _summary(records: Mapping[bytes, bytes]) -> str:
    """Summarize records. Raises LogCorrupt, since records that cannot be decoded must not be moved."""
    found = [decode(key, value) for key, value in records.items()]
    groups = {one.group_id for one in found if one is not None and hasattr(one, "group_id")}
    offsets = sum(isinstance(one, CommittedOffset) for one in found)
    size = sum(len(key) + len(value) for key, value in records.items())
    return f"{len(records):,} records, {offsets:,} offsets, {len(groups):,} groups, {size:,} bytes"


def _check_sizes(shards: Sequence[Mapping[bytes, bytes]], settings: ClusterLogSettings) -> None:
    for index, records in enumerate(shards):
        largest = max((len(key) + len(value) for key, value in records.items()), default=0)
        if largest > settings.max_batch_bytes:
            raise MoveRefused(
                f"shard {index} has a record of {largest:,} bytes, and the cluster's log takes "
                f"{settings.max_batch_bytes:,}"
            )
