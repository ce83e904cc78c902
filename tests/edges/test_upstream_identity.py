"""A data folder belongs to one cluster."""

import json
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest

from coordinator.upstream.identity import Identity
from tests.edges.musterd import free_port, running


def test_the_first_cluster_is_noted_and_another_is_doubted_also_after_a_restart(tmp_path: Path) -> None:
    identity = Identity(tmp_path)
    assert identity.doubt("first") == ""
    for one in (identity, Identity(tmp_path)):
        assert one.doubt("first") == ""
        assert "cluster second is not first" in one.doubt("second")
        assert "upstream-cluster-id" in one.doubt("second")
        assert one.doubt("first") == ""


def test_who_removes_the_file_has_decided(tmp_path: Path) -> None:
    assert Identity(tmp_path).doubt("first") == ""
    (tmp_path / "upstream-cluster-id").unlink()
    assert Identity(tmp_path).doubt("second") == ""
    assert Identity(tmp_path).doubt("first") != ""


def test_brokers_that_tell_no_id_are_believed(tmp_path: Path) -> None:
    assert Identity(tmp_path).doubt(None) == ""
    assert Identity(tmp_path).doubt("") == ""
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
