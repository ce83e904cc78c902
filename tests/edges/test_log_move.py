"""`musterd log move`: from a daemon's folder to a cluster's log and back to a folder that a daemon serves."""

import asyncio
import shutil
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pytest

from coordinator.cluster_log.log_move import Records
from coordinator.cluster_log.settings import OFFSETS_LOG_TOPIC
from coordinator.config.config import Config, load_config
from coordinator.gateway.io.broker_client import RequestFailed
from coordinator.gateway.io.cluster.member import boot_ms
from coordinator.gateway.io.cluster_identity import ClusterIdentity
from coordinator.gateway.io.move import cluster_side, move_command
from coordinator.gateway.io.move.data_folder import MoveRefused, read_folder, write_folder
from coordinator.records.codec import encode_marker
from coordinator.records.records import TransactionEnded
from muster.blocking import ClusterClient
from partition_log.disk.disk import OsDisk
from partition_log.errors import FolderInUse
from partition_log.store.log_store import Appended, LogStore, StoreLimits
from protocol.messages.data import Produce
from protocol.messages.offsets import (
    OffsetCommit,
    OffsetCommitPartition,
    OffsetCommitTopic,
    OffsetFetch,
    OffsetFetchGroup,
    OffsetFetchReply,
)
from protocol.messages.topics import CreatableTopic, CreateTopics
from protocol.record_batch import encode_batch
from tests.edges.fake_kafka import FakeKafka, fake_kafka
from tests.edges.musterd import running
from tests.edges.test_cluster_edge import nodes

SHARDS = 4
SETTINGS = (f"offsets.topic.num.partitions={SHARDS}", "group.initial.rebalance.delay.ms=0")
GROUPS = [f"group-{number}" for number in range(12)]
_PATIENCE_S = 90
_LOOKED_WITHIN_S = 5
"""Time within which a move looks at the clock, which it does each second."""


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the data folder of a daemon that was stopped, as one in front of the cluster `fake` leaves it."""
    data = tmp_path_factory.mktemp("served") / "data"
    with running(data, *SETTINGS) as daemon:
        with ClusterClient(daemon.bootstrap) as connection:
            connection.ask(CreateTopics((CreatableTopic("orders", 2),)), 30)
            for number, group in enumerate(GROUPS):
                parts = tuple(OffsetCommitPartition(at, 100 * number + at, committed_metadata="é") for at in (0, 1))
                connection.ask(OffsetCommit(group, (OffsetCommitTopic("orders", parts),)), 30)
        assert daemon.stop() == 0
    assert not ClusterIdentity(data).mismatch("fake")
    return data


@pytest.fixture
def folder(served: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(served, tmp_path / "data"))


@pytest.fixture
async def kafka() -> AsyncIterator[FakeKafka]:
    async with fake_kafka(brokers=2) as made:
        yield made


def config_of(folder: Path, kafka: FakeKafka) -> Config:
    servers = ",".join(f"{host}:{port}" for host, port in kafka.bootstrap)
    return load_config(["--data-dir", str(folder), "--upstream", servers], {}, lambda path: b"")


async def move(target: str, folder: Path, kafka: FakeKafka, *, executes: bool = True) -> list[str]:
    config, said = config_of(folder, kafka), list[str]()
    link = move_command.link_to(config, checks_id=target == move_command.TO_CLUSTER)
    run = move_command.to_cluster if target == move_command.TO_CLUSTER else move_command.to_local
    async with asyncio.timeout(_PATIENCE_S):
        await run(config, link, said.append, executes=executes)
    return said


async def test_a_folder_is_moved_to_the_cluster_and_back_and_a_daemon_serves_it(
    folder: Path, kafka: FakeKafka, tmp_path: Path
) -> None:
    before = read_folder(folder).shards
    assert sum(map(len, before)) >= 2 * len(GROUPS)
    assert "all read back and the same" in (await move("cluster", folder, kafka))[-1]
    target = tmp_path / "back"
    said = await move("local", target, kafka)
    assert f"{2 * len(GROUPS)} offsets, {len(GROUPS)} groups" in said[-2]
    assert [list(one.items()) for one in read_folder(target).shards] == [list(one.items()) for one in before]
    (target / "upstream-cluster-id").unlink()
    assert await asyncio.to_thread(_offsets_served_from, target) == {
        group: [100 * number, 100 * number + 1] for number, group in enumerate(GROUPS)
    }


def _offsets_served_from(folder: Path) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    with running(folder, *SETTINGS) as daemon, ClusterClient(daemon.bootstrap) as connection:
        for group in GROUPS:
            reply = connection.ask(OffsetFetch((OffsetFetchGroup(group),)), 30)
            assert isinstance(reply, OffsetFetchReply)
            (topic,) = reply.groups[0].topics
            found[group] = sorted(one.committed_offset for one in topic.partitions)
            assert {one.metadata for one in topic.partitions} == {"é"}
    return found


async def test_a_dry_run_tells_each_shard_and_writes_nothing(folder: Path, kafka: FakeKafka) -> None:
    said = await move("cluster", folder, kafka, executes=False)
    full = sum(bool(one) for one in read_folder(folder).shards)
    assert len([line for line in said if line.startswith("shard ")]) == full
    assert said[-1] == "Nothing was written. --execute moves it."
    assert not kafka.partitions and not kafka.all_asked(Produce)


async def test_a_dry_run_of_the_way_back_claims_nothing(folder: Path, kafka: FakeKafka, tmp_path: Path) -> None:
    await move("cluster", folder, kafka)
    kafka.asked.clear()
    said = await move("local", tmp_path / "back", kafka, executes=False)
    assert f"{len(GROUPS)} groups" in said[-2]
    assert not kafka.all_asked(Produce) and not (tmp_path / "back").exists()


async def test_a_move_that_was_done_is_done_again_without_a_write(folder: Path, kafka: FakeKafka) -> None:
    await move("cluster", folder, kafka)
    assert (await move("cluster", folder, kafka))[-1].startswith("0 records written")


async def test_a_folder_may_take_longer_than_a_session_to_write(
    folder: Path, kafka: FakeKafka, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await move("cluster", folder, kafka)
    skipped_ms, looked = 0, threading.Event()

    def skipping_boot_ms() -> int:
        looked.set()
        return boot_ms() + skipped_ms

    def write_slowly(target: Path, shards: Sequence[Records], cluster_id: str, node_id: int) -> Path:
        nonlocal skipped_ms
        for _ in range(2):
            skipped_ms += 40_000
            looked.clear()
            looked.wait(_LOOKED_WITHIN_S)
        return write_folder(target, shards, cluster_id, node_id)

    monkeypatch.setattr(cluster_side, "boot_ms", skipping_boot_ms)
    monkeypatch.setattr(move_command, "write_folder", write_slowly)
    await move("local", tmp_path / "back", kafka)
    assert read_folder(tmp_path / "back").shards == read_folder(folder).shards


async def test_a_half_written_folder_is_made_anew(folder: Path, kafka: FakeKafka, tmp_path: Path) -> None:
    await move("cluster", folder, kafka)
    half = tmp_path / "back.unfinished"
    half.mkdir()
    (half / "node.toml").write_text("half")
    await move("local", tmp_path / "back", kafka)
    assert not half.exists()
    assert read_folder(tmp_path / "back").shards == read_folder(folder).shards


async def test_a_log_that_is_not_empty_is_refused_in_both_directions(
    folder: Path, kafka: FakeKafka, tmp_path: Path
) -> None:
    await move("cluster", folder, kafka)
    other = tmp_path / "other"
    write_folder(other, [{b"\0\1another": b"1"} for _ in range(SHARDS)], "fake", 1).rename(other)
    with pytest.raises(MoveRefused, match=r"not empty.*delete the topic first"):
        await move("cluster", other, kafka)
    with pytest.raises(MoveRefused, match="name a folder to make"):
        await move("local", folder, kafka)


@pytest.mark.parametrize("target", ["cluster", "local"])
async def test_nodes_that_live_are_refused(folder: Path, kafka: FakeKafka, tmp_path: Path, target: str) -> None:
    async with nodes(kafka, 1):
        before = len(kafka.all_asked(Produce))
        with pytest.raises(MoveRefused, match=r"has 1 member: stop every node first"):
            await move(target, folder if target == "cluster" else tmp_path / "back", kafka)
        assert before > 0


async def test_a_folder_in_use_is_refused(folder: Path, kafka: FakeKafka) -> None:
    held = OsDisk().lock(f"{folder}/LOCK")
    with pytest.raises(FolderInUse):
        await move("cluster", folder, kafka)
    assert (await move("cluster", folder, kafka, executes=False))[0].startswith("note: a daemon serves")
    OsDisk().close(held)


async def test_topics_and_clusters_that_do_not_fit_are_refused(folder: Path, kafka: FakeKafka, tmp_path: Path) -> None:
    with pytest.raises(MoveRefused, match="there is nothing to move"):
        await move("local", tmp_path / "back", kafka)
    kafka.make_topic(OFFSETS_LOG_TOPIC, SHARDS + 1)
    with pytest.raises(MoveRefused, match="has 5 partitions"):
        await move("cluster", folder, kafka)
    (folder / "upstream-cluster-id").write_text("another\n")
    with pytest.raises(RequestFailed, match="cluster fake is not another"):
        await move("cluster", folder, kafka)
    (folder / "upstream-cluster-id").unlink()
    with pytest.raises(MoveRefused, match="offsets belong to topics of its own"):
        await move("cluster", folder, kafka)
    with pytest.raises(MoveRefused, match="no data folder"):
        await move("cluster", tmp_path, kafka)


def test_transactions_that_ended_are_moved_and_open_ones_are_refused(tmp_path: Path) -> None:
    folder = tmp_path / "data"

    def put(*batches: tuple[int, bytes, bytes], control: bool = False) -> None:
        store = LogStore(OsDisk(), str(folder), StoreLimits(), made_with={"offsets.topic.num.partitions": 1})
        store.open()
        for producer, key, value in batches:
            written = encode_batch(
                [(key, value)],
                timestamp_ms=1,
                producer_id=producer,
                producer_epoch=0,
                base_sequence=-1 if control else 0,
                transactional=True,
                control=control,
            )
            assert isinstance(store.append(store.log("__consumer_offsets-0"), written), Appended)
        assert store.close()

    put((5, b"committed", b"1"), (6, b"aborted", b"1"), (7, b"open", b"1"))
    ended = [(5, True), (6, False), (7, False)]
    markers = [(one, *encode_marker(TransactionEnded(one, 0, is_committed, 0))) for one, is_committed in ended]
    put(*markers[:2], control=True)
    assert not ClusterIdentity(folder).mismatch("fake")
    with pytest.raises(MoveRefused, match="a transaction that has not ended, of producer 7"):
        read_folder(folder)
    put(markers[2], control=True)
    assert read_folder(folder).shards == [{b"committed": b"1"}]


def test_the_command_says_what_is_wrong(tmp_path: Path) -> None:
    def run(*arguments: str) -> tuple[int, str]:
        command = [sys.executable, "-m", "coordinator", "log", "move", *arguments]
        done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=_PATIENCE_S)
        return done.returncode, done.stdout + done.stderr

    assert run("--help")[0] == 0
    assert run("elsewhere")[0] == 2
    code, told = run("cluster", "--data-dir", str(tmp_path))
    assert code == 2 and "upstream.servers is not set" in told
    code, told = run("cluster", "--data-dir", str(tmp_path), "--upstream", "127.0.0.1:1")
    assert code == 1 and "is no data folder" in told
