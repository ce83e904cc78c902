"""A data folder belongs to one cluster."""

import json
import os
import subprocess
import sys
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest

from coordinator.gateway.io.cluster_identity import ClusterIdentity
from muster.blocking.cluster import ClusterClient, expect
from protocol.messages.groups import JoinGroup, JoinGroupReply, JoinProtocol
from protocol.messages.topics import (
    CreatableTopic,
    CreateTopics,
    CreateTopicsReply,
    DeletableTopic,
    DeleteTopics,
    DeleteTopicsReply,
)
from tests.edges.musterd import free_port, running

ROOT = Path(__file__).parents[2]


def refused(folder: Path, *arguments: str) -> str:
    """Return the last line of a musterd that refuses to start over the folder."""
    command = [sys.executable, "-m", "coordinator", "--data-dir", str(folder), "--native", "127.0.0.1:0", *arguments]
    path = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
    environment = {**os.environ, "PYTHONPATH": path}
    ended = subprocess.run(command, capture_output=True, text=True, timeout=100, env=environment, check=False)
    assert (ended.returncode, ended.stdout) == (2, "")
    return ended.stderr.splitlines()[-1]


def test_the_first_cluster_is_noted_and_another_is_doubted_also_after_a_restart(tmp_path: Path) -> None:
    identity = ClusterIdentity(tmp_path)
    assert identity.mismatch("first") == ""
    for one in (identity, ClusterIdentity(tmp_path)):
        assert one.mismatch("first") == ""
        assert "cluster second is not first" in one.mismatch("second")
        assert "upstream-cluster-id" in one.mismatch("second")
        assert one.mismatch("first") == ""


def test_who_removes_the_file_has_decided(tmp_path: Path) -> None:
    assert ClusterIdentity(tmp_path).mismatch("first") == ""
    (tmp_path / "upstream-cluster-id").unlink()
    assert ClusterIdentity(tmp_path).mismatch("second") == ""
    assert ClusterIdentity(tmp_path).mismatch("first") != ""


def test_brokers_that_tell_no_id_are_believed(tmp_path: Path) -> None:
    assert ClusterIdentity(tmp_path).mismatch(None) == ""
    assert ClusterIdentity(tmp_path).mismatch("") == ""
    assert list(tmp_path.iterdir()) == []


def test_beside_another_cluster_nobody_is_served_with_the_offsets_of_the_first(tmp_path: Path) -> None:
    port, listener = free_port(), free_port()
    settings = (f"upstream.servers=127.0.0.1:{port}", f"upstream.listener.ports={listener}", "upstream.refresh.ms=100")
    for cluster in ("first", "second"):
        with (
            running(tmp_path / cluster, with_kafka=True, kafka_port=port),
            running(tmp_path / "front", *settings, with_kafka=True, with_http=True) as front,
        ):
            page = f"http://127.0.0.1:{front.http_port}/readyz"
            if cluster == "first":
                with urlopen(page, timeout=5) as answer:
                    assert json.load(answer)["upstream"]["reachable"]
            else:
                with pytest.raises(HTTPError, match="503") as refused:
                    urlopen(page, timeout=5)
                with refused.value as answer:
                    assert "offsets of this data folder" in json.load(answer)["upstream"]["why"]


def test_what_stood_beside_a_cluster_is_not_served_with_topics_of_its_own(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    folder.mkdir()
    noted = folder / "upstream-cluster-id"
    noted.write_text("abc\n")
    said = refused(folder, "--kafka", "off", "--http", "off")
    assert said == (
        f"musterd: {folder} holds offsets of the Kafka cluster abc (upstream-cluster-id): say --upstream, or remove "
        "that file to use the folder without it"
    )
    assert list(folder.iterdir()) == [noted]  # nothing was begun
    noted.unlink()
    with running(folder) as daemon:
        assert daemon.port


def test_a_folder_with_topics_of_its_own_stands_beside_no_cluster(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    with running(folder) as daemon:
        shell = ClusterClient(daemon.bootstrap)
        made = tuple(CreatableTopic(name, 1) for name in ("d", "c", "b", "a", "gone"))
        assert expect(CreateTopicsReply, shell.ask(CreateTopics(made))).topics[0].error_code == 0
        assert not expect(DeleteTopicsReply, shell.ask(DeleteTopics((DeletableTopic("gone"),)))).responses[0].error_code
        shell.close()
    beside = ("--kafka", "127.0.0.1:0", "--http", "off", "--upstream", f"127.0.0.1:{free_port()}")
    said = refused(folder, *beside)
    assert f"{folder} has embedded topics of its own (a, b, c, ...)" in said
    assert "--upstream" in said
    (folder / "upstream-cluster-id").write_text("abc\n")  # as folders of before have it
    with running(folder, f"upstream.servers=127.0.0.1:{free_port()}", with_kafka=True) as daemon:
        assert daemon.port


def test_a_folder_with_groups_alone_may_come_to_stand_beside_a_cluster(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    with running(folder, "auto.create.topics.enable=false") as daemon:
        shell = ClusterClient(daemon.bootstrap)
        joining = JoinGroup(
            "g", 30_000, protocol_type="consumer", protocols=(JoinProtocol("range"),), wants_member_id_first=False
        )
        assert expect(JoinGroupReply, shell.ask(joining, node=shell.coordinator("g"))).error_code == 0
        shell.close()
    with running(folder, f"upstream.servers=127.0.0.1:{free_port()}", with_kafka=True) as daemon:
        assert daemon.port


def test_without_a_listener_for_kafkas_clients_there_is_no_standing_beside_brokers(tmp_path: Path) -> None:
    with running(tmp_path / "first", with_kafka=True) as first:
        taken = f"127.0.0.1:{first.kafka_port}"
        command = [sys.executable, "-m", "coordinator", "--data-dir", str(tmp_path / "second"), "--native", "off"]
        command += ["--http", "off", "--kafka", taken, "--upstream", f"127.0.0.1:{free_port()}"]
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        ended = subprocess.run(command, capture_output=True, text=True, timeout=100, env=environment, check=False)
    assert ended.returncode == 1
    assert "(--kafka HOST:PORT chooses another address)" in ended.stderr
