"""In front of an Apache Kafka that wants TLS, certificates and logins. Skipped where its jars have not been fetched
(`python -m bench kafka` does) or there is no Java."""

import base64
import subprocess
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaException
from confluent_kafka import TopicPartition as GroupPlace
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from cryptography.hazmat.primitives import serialization as forms

from bench import builds
from bench.processes import free_ports
from tests.edges.certificates import Folder
from tests.edges.musterd import Daemon, free_port, running
from tests.edges.test_tls_beside import Settings, readiness, reason, write_and_read

pytestmark = [pytest.mark.xdist_group("kafka with tls"), pytest.mark.long]  # one broker for all
_START_S = 60.0
_PROPERTIES = """
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller}
listeners=INTERNAL://127.0.0.1:{internal},SSL://127.0.0.1:{ssl},SASL_SSL://127.0.0.1:{sasl},CONTROLLER://127.0.0.1:{controller}
controller.listener.names=CONTROLLER
inter.broker.listener.name=INTERNAL
listener.security.protocol.map=CONTROLLER:PLAINTEXT,INTERNAL:PLAINTEXT,SSL:SSL,SASL_SSL:SASL_SSL
ssl.keystore.type=PEM
ssl.keystore.location={folder}/keystore.pem
ssl.truststore.type=PEM
ssl.truststore.location={ca}
listener.name.ssl.ssl.client.auth=required
sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-256,SCRAM-SHA-512
listener.name.sasl_ssl.plain.sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required \
    user_muster="geheim" user_alice="wunder";
listener.name.sasl_ssl.scram-sha-256.sasl.jaas.config=\
    org.apache.kafka.common.security.scram.ScramLoginModule required;
listener.name.sasl_ssl.scram-sha-512.sasl.jaas.config=\
    org.apache.kafka.common.security.scram.ScramLoginModule required;
connections.max.reauth.ms=4000
log.dirs={folder}/data
offsets.topic.replication.factor=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
group.initial.rebalance.delay.ms=0
"""
_SCRAM = [
    f"{mechanism}=[name={name},password={password}]"
    for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512")
    for name, password in (("muster", "geheim"), ("alice", "wunder"))
]
NAME = ("upstream.sasl.username=muster", "upstream.sasl.password=geheim")


class Kafka:
    """One broker: at `ssl_port` whoever shows a certificate is let in, at `sasl_port` whoever knows a password."""

    def __init__(self, folder: Folder, ssl_port: int, sasl_port: int) -> None:
        self.folder = folder
        self.ssl_port = ssl_port
        self.sasl_port = sasl_port


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kafka]:
    try:
        java, jars = builds.java(), builds.kafka_jars(may_fetch=False)
    except builds.NotHere as missing:
        pytest.skip(str(missing))
    home = tmp_path_factory.mktemp("kafka")
    folder = Folder(home / "files")
    write_keystore(folder, home / "keystore.pem")
    names = ("internal", "ssl", "sasl", "controller")
    ports = dict(zip(names, free_ports(len(names)), strict=True))
    (home / "server.properties").write_text(_PROPERTIES.format(folder=home, ca=folder.ca, **ports))
    run = [java, f"-Dlog4j2.configurationFile={builds.KAFKA_FILES / 'log4j2.xml'}", "-cp", f"{jars}/*"]
    cluster_id = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=").replace("-", "_")
    scram = [part for one in _SCRAM for part in ("--add-scram", one)]
    format_it = ["kafka.tools.StorageTool", "format", "-t", cluster_id, "-c", "server.properties", *scram]
    formatted = subprocess.run([*run, *format_it], cwd=home, capture_output=True, timeout=_START_S, check=False)
    assert formatted.returncode == 0, formatted.stdout + formatted.stderr
    with (home / "log").open("wb") as log:
        process = subprocess.Popen(
            [*run, "-Xms512m", "-Xmx512m", "kafka.Kafka", "server.properties"], cwd=home, stdout=log, stderr=log
        )
    try:
        until_there(ports["internal"])
        yield Kafka(folder, ports["ssl"], ports["sasl"])
    finally:
        process.kill()
        process.wait()


def write_keystore(folder: Folder, path: Path) -> None:
    """Java reads keys in the form of PKCS #8 alone."""
    key = forms.load_pem_private_key(folder.key.read_bytes(), None)
    form = forms.Encoding.PEM, forms.PrivateFormat.PKCS8, forms.NoEncryption()
    path.write_bytes(key.private_bytes(*form) + folder.chain.read_bytes())


def until_there(port: int) -> None:
    deadline = time.monotonic() + _START_S
    while True:
        try:
            AdminClient({"bootstrap.servers": f"127.0.0.1:{port}", "log_level": 0}).list_topics(timeout=2)
        except KafkaException:
            assert time.monotonic() < deadline, "no broker"
        else:
            return


@contextmanager
def in_front(kafka: Kafka, path: Path, port: int, *settings: str, listening: bool = True) -> Iterator[Daemon]:
    mine = (*kafka.folder.listening(), "tls.listeners=kafka") if listening else ()
    plan = (f"upstream.servers=127.0.0.1:{port}", f"upstream.listener.ports={free_port()}", "upstream.refresh.ms=200")
    path.mkdir(exist_ok=True)
    with running(path / "front", *mine, *plan, *settings, with_http=True, with_kafka=True) as front:
        yield front


def why_not(front: Daemon) -> str:
    return reason(front)


def alice(front: Daemon, folder: Folder, mechanism: str) -> Settings:
    return {
        "bootstrap.servers": f"127.0.0.1:{front.kafka_port}",
        "security.protocol": "SASL_SSL",
        "ssl.ca.location": str(folder.ca),
        "sasl.mechanism": mechanism,
        "sasl.username": "alice",
        "sasl.password": "wunder",
    }


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_both_muster_and_its_clients_log_in_over_tls(kafka: Kafka, tmp_path: Path, mechanism: str) -> None:
    towards = (
        "upstream.security.protocol=SASL_SSL",
        f"upstream.ssl.ca.location={kafka.folder.ca}",
        f"upstream.sasl.mechanism={mechanism}",
    )
    with in_front(kafka, tmp_path, kafka.sasl_port, *towards, *NAME) as front:
        assert readiness(front)["reachable"] is True
        write_and_read(alice(front, kafka.folder, mechanism), count=20, topic=f"orders-{mechanism}")
        if mechanism == "SCRAM-SHA-512":  # the broker wants another login every four seconds
            deadline = time.monotonic() + 10
            while time.monotonic() < deadline:
                assert readiness(front)["reachable"] is True
                time.sleep(0.1)
        wrong = alice(front, kafka.folder, mechanism) | {"sasl.password": "guessed", "log_level": 0}
        with pytest.raises(KafkaException):
            AdminClient(wrong).list_topics(timeout=3)
    log = (tmp_path / "front.log").read_text()
    assert "cannot be reached" not in log
    assert "geheim" not in log
    assert "Traceback" not in log


def test_a_wrong_password_and_a_wrong_protocol_are_told(kafka: Kafka, tmp_path: Path) -> None:
    trusting = f"upstream.ssl.ca.location={kafka.folder.ca}"
    guessed = ("upstream.sasl.username=muster", "upstream.sasl.password=guessed")
    secured = ("upstream.security.protocol=SASL_SSL", trusting)
    for mechanism in ("PLAIN", "SCRAM-SHA-512"):
        settings = (*secured, *guessed, f"upstream.sasl.mechanism={mechanism}")
        with in_front(kafka, tmp_path / mechanism, kafka.sasl_port, *settings) as front:
            assert f"'muster' is not let in by {mechanism}: " in why_not(front)
    with in_front(kafka, tmp_path / "plain", kafka.sasl_port) as front:
        assert "upstream.security.protocol" in why_not(front)
    with in_front(kafka, tmp_path / "nobody", kafka.sasl_port, "upstream.security.protocol=SSL", trusting) as front:
        assert "does it want a login (upstream.security.protocol, upstream.sasl.username)?" in why_not(front)
    with in_front(kafka, tmp_path / "clear", kafka.sasl_port, *NAME) as front:
        assert "upstream.security.protocol" in why_not(front)


def test_a_broker_that_wants_a_certificate_is_shown_ours(kafka: Kafka, tmp_path: Path) -> None:
    towards = ("upstream.security.protocol=SSL", f"upstream.ssl.ca.location={kafka.folder.ca}")
    with in_front(kafka, tmp_path / "none", kafka.ssl_port, *towards) as front:
        assert "(upstream.ssl.certificate.location)" in why_not(front)
    ours = f"upstream.ssl.certificate.location={kafka.folder.client}"
    with in_front(kafka, tmp_path / "ours", kafka.ssl_port, *towards, ours, listening=False) as front:
        assert readiness(front)["reachable"] is True
        write_and_read({"bootstrap.servers": f"127.0.0.1:{front.kafka_port}"}, count=20, topic="orders-ssl")


@pytest.mark.parametrize("way", ["a login", "a certificate"])
def test_shards_in_the_log_of_such_brokers_are_taken_over(kafka: Kafka, tmp_path: Path, way: str) -> None:
    """Every connection of the log, its proof and the nodes' group is secured as the gateway's are."""
    towards = ["upstream.security.protocol=SSL", f"upstream.ssl.ca.location={kafka.folder.ca}", "offsets.log=cluster"]
    port = kafka.ssl_port
    if way == "a login":
        towards[0], port = "upstream.security.protocol=SASL_SSL", kafka.sasl_port
        towards += [*NAME, "upstream.sasl.mechanism=SCRAM-SHA-512"]
    else:
        towards.append(f"upstream.ssl.certificate.location={kafka.folder.client}")
    towards += ["offsets.topic.num.partitions=3", "upstream.nodes.session.timeout.ms=6000"]
    group = {"group.id": f"taken-over-{port}", "enable.auto.commit": False}
    place = GroupPlace(f"taken-over-{port}", 0, 7)
    with in_front(kafka, tmp_path / "one", port, *towards, "node.id=1", listening=False) as one:
        clients = client_of(one, way)
        make_topic(clients, place.topic)
        consumer = Consumer({**clients, **group})
        assert consumer.commit(offsets=[place], asynchronous=False)[0].error is None
        if way == "a login":  # the broker wants another login every four seconds: leases and shards outlive it
            time.sleep(9)
        assert consumer.committed([place], timeout=30)[0].offset == 7
        consumer.close()
        one.kill()
    with in_front(kafka, tmp_path / "two", port, *towards, "node.id=2", listening=False) as two:
        consumer = Consumer({**client_of(two, way), **group})
        assert consumer.committed([place], timeout=60)[0].offset == 7
        assert consumer.commit(offsets=[GroupPlace(place.topic, 0, 8)], asynchronous=False)[0].error is None
        consumer.close()
    for name in ("one", "two"):
        log = (tmp_path / name / "front.log").read_text()
        assert "geheim" not in log and "Traceback" not in log and "shard was lost" not in log


def client_of(front: Daemon, way: str) -> Settings:
    """Settings of a client without TLS, which logs in where the brokers want that."""
    where: Settings = {"bootstrap.servers": f"127.0.0.1:{front.kafka_port}"}
    if way == "a certificate":
        return where
    login = {"sasl.mechanism": "SCRAM-SHA-512", "sasl.username": "alice", "sasl.password": "wunder"}
    return {**where, "security.protocol": "SASL_PLAINTEXT", **login}


def make_topic(clients: Settings, name: str) -> None:
    admin = AdminClient(clients)
    (made,) = admin.create_topics([NewTopic(name, 1, 1)]).values()
    made.result(30)
