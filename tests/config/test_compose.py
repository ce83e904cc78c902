"""The compose file of three nodes, as far as it can be read without docker: its settings are those of a start."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from coordinator.config.cluster import OffsetsLog
from coordinator.config.config import Config, load_config
from coordinator.config.keys import ConfigError

DEPLOY = Path(__file__).parents[2] / "deploy"
NODES, BROKERS = ("muster-1", "muster-2", "muster-3"), ("kafka-1", "kafka-2", "kafka-3")
COMPOSE: dict[str, Any] = yaml.safe_load((DEPLOY / "compose-three-nodes.yaml").read_text())
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]


def image_flags() -> list[str]:
    """Return the flags of the image's entry point."""
    text = (DEPLOY / "Dockerfile").read_text().replace("\\\n", "")
    (words,) = re.findall(r"^ENTRYPOINT (\[.*\])$", text, re.MULTILINE)
    flags: list[str] = json.loads(words)[1:]
    return flags


def config_of(name: str) -> Config:
    """Return the configuration with which the container starts. Raises ConfigError, as `musterd --check` does."""
    service = SERVICES[name]
    return load_config([*image_flags(), *service["command"]], service["environment"], lambda path: b"")


def published(name: str) -> dict[int, int]:
    """Return the ports of this machine, each with that of the container."""
    found: dict[int, int] = {}
    for line in SERVICES[name]["ports"]:
        host, outside, inside = line.split(":")
        assert host == "127.0.0.1", "nobody else's machine may connect without a login"
        pairs = [[int(end) for end in (side.split("-") * 2)[:2]] for side in (outside, inside)]
        (first, last), (first_inside, last_inside) = pairs
        found |= dict(zip(range(first, last + 1), range(first_inside, last_inside + 1), strict=True))
    return found


def test_the_image_is_closed_unless_it_is_told() -> None:
    with pytest.raises(ConfigError, match="--open-to-network"):
        load_config(image_flags(), {}, lambda path: b"")
    logins = b'sasl.enabled.mechanisms = "SCRAM-SHA-512"'
    closed = load_config([*image_flags(), "--http", "127.0.0.1:9391", "--config", "file"], {}, lambda path: logins)
    assert closed.open_to_network is False


def test_there_are_three_brokers_and_three_nodes_with_a_volume_each() -> None:
    assert SERVICES.keys() == {*NODES, *BROKERS} == COMPOSE["volumes"].keys()
    for name, service in SERVICES.items():
        assert [volume.partition(":")[0] for volume in service["volumes"]] == [name]


@pytest.mark.parametrize("name", NODES)
def test_a_node_starts_with_the_log_of_the_three_brokers(name: str) -> None:
    config = config_of(name)
    assert config.offsets_log is OffsetsLog.CLUSTER
    assert config.upstream_servers is not None
    assert [f"{one.host}:{one.port}" for one in config.upstream_servers.all] == [f"{one}:9092" for one in BROKERS]
    assert SERVICES[name]["depends_on"] == [*BROKERS]
    assert SERVICES[name]["volumes"] == [f"{name}:{config.data_dir}"]


@pytest.mark.parametrize("name", NODES)
def test_clients_are_told_ports_that_are_published(name: str) -> None:
    config, ports = config_of(name), published(name)
    assert config.kafka is not None and config.native is not None and config.http is not None
    assert config.advertised_kafka is not None and config.advertised_native is not None
    assert config.advertised_kafka.host == config.advertised_native.host == "localhost"
    assert ports[config.advertised_kafka.port] == config.kafka.port
    assert ports[config.advertised_native.port] == config.native.port
    assert config.http.port in ports.values()
    listeners = range(config.upstream_listener_ports.first, config.upstream_listener_ports.last + 1)
    assert len(listeners) >= len(BROKERS)
    assert all(ports[port] == port for port in listeners), "clients are told the port that a listener has bound"


def test_no_two_containers_want_one_port_or_one_id() -> None:
    ports = [port for name in NODES for port in published(name)]
    assert len(ports) == len(set(ports))
    assert [config_of(name).node_id for name in NODES] == [1, 2, 3]


def test_the_brokers_are_one_cluster_that_keeps_what_it_acknowledged() -> None:
    environments = [SERVICES[name]["environment"] for name in BROKERS]
    assert [one.pop("KAFKA_NODE_ID") for one in environments] == ["1", "2", "3"]
    advertised = [one.pop("KAFKA_ADVERTISED_LISTENERS") for one in environments]
    assert advertised == [f"PLAINTEXT://{name}:9092" for name in BROKERS]
    assert all(one == environments[0] for one in environments)
    (common, *_) = environments
    voters = common["KAFKA_CONTROLLER_QUORUM_VOTERS"].split(",")
    assert voters == [f"{number}@{name}:9093" for number, name in enumerate(BROKERS, 1)]
    assert (common["KAFKA_DEFAULT_REPLICATION_FACTOR"], common["KAFKA_MIN_INSYNC_REPLICAS"]) == ("3", "2")
