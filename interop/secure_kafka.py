"""One Apache Kafka broker on loopback with logins by PLAIN and SCRAM, and with ACLs (StandardAuthorizer)."""

import base64
import contextlib
import os
import subprocess
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._acl import AclBinding, AclBindingFilter, AclOperation, AclPermissionType
from confluent_kafka.admin._resource import ResourcePatternType, ResourceType

from bench import builds
from bench.processes import free_ports

_START_S = 90.0
_PROPERTIES = """
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller}
listeners=INTERNAL://127.0.0.1:{internal},SASL_PLAINTEXT://127.0.0.1:{sasl},CONTROLLER://127.0.0.1:{controller}
controller.listener.names=CONTROLLER
inter.broker.listener.name=INTERNAL
listener.security.protocol.map=CONTROLLER:PLAINTEXT,INTERNAL:PLAINTEXT,SASL_PLAINTEXT:SASL_PLAINTEXT
sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-256
listener.name.sasl_plaintext.plain.sasl.jaas.config=\
    org.apache.kafka.common.security.plain.PlainLoginModule required {users};
listener.name.sasl_plaintext.scram-sha-256.sasl.jaas.config=\
    org.apache.kafka.common.security.scram.ScramLoginModule required;
authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer
super.users=User:ANONYMOUS
log.dirs={folder}/data
offsets.topic.replication.factor=1
offsets.topic.num.partitions=3
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
"""


class SecureKafka:
    """The broker. Its internal listener, at `admin_port`, asks for no login and permits everything; `port` asks for a
    login. `log` is what it has printed, with its audit log of refusals."""

    def __init__(self, admin_port: int, port: int, log: Path) -> None:
        self.admin_port = admin_port
        self.port = port
        self.log = log
        self.admin = AdminClient({"bootstrap.servers": f"127.0.0.1:{admin_port}", "log_level": 0})

    def grant(self, who: str, kind: ResourceType, name: str, *operations: AclOperation, prefix: bool = False) -> None:
        """Permit a user the operations on the resource of this name, or on all whose names begin with it."""
        pattern = ResourcePatternType.PREFIXED if prefix else ResourcePatternType.LITERAL
        allow = AclPermissionType.ALLOW
        acls = [AclBinding(kind, name, pattern, f"User:{who}", "*", one, allow) for one in operations]
        for done in self.admin.create_acls(acls).values():
            done.result(10)

    def revoke(self, who: str, kind: ResourceType, name: str, operation: AclOperation) -> None:
        """Take back what was granted."""
        rule = AclBindingFilter(
            kind, name, ResourcePatternType.LITERAL, f"User:{who}", "*", operation, AclPermissionType.ALLOW
        )
        for done in self.admin.delete_acls([rule]).values():
            assert done.result(10)


@contextlib.contextmanager
def secure_kafka(
    home: Path,
    users: Mapping[str, str],
    *,
    scram: str | Sequence[str] = (),
    settings: str = "",
    may_fetch: bool = False,
    audits: bool = False,
    jvm: Sequence[str] = (),
) -> Iterator[SecureKafka]:
    """The broker, with its files in `home`. `users`: passwords of PLAIN; `scram`: credentials as StorageTool
    takes them; `settings`: further lines of its configuration; `jvm`: arguments of java. Its log has each decision of
    the authorizer, and logins, if it `audits`. Raises `bench.builds.NotHere` without Java or its jars."""
    java, jars = builds.java(), builds.kafka_jars(may_fetch=may_fetch)
    home.mkdir(parents=True, exist_ok=True)
    names = ("internal", "sasl", "controller")
    ports = dict(zip(names, free_ports(len(names)), strict=True))
    known = " ".join(f'user_{name}="{password}"' for name, password in users.items())
    properties = _PROPERTIES.format(folder=home, users=known, **ports) + settings
    (home / "server.properties").write_text(properties)
    logging = "audit.xml" if audits else "log4j2.xml"
    run = [java, f"-Dlog4j2.configurationFile={builds.KAFKA_FILES / logging}", "-cp", f"{jars}{os.sep}*"]
    cluster_id = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=").replace("-", "_")
    format_it = [*run, "kafka.tools.StorageTool", "format", "-t", cluster_id, "-c", "server.properties"]
    for credential in [scram] if isinstance(scram, str) else scram:
        format_it += ["--add-scram", credential]
    done = subprocess.run(format_it, cwd=home, capture_output=True, timeout=_START_S, check=False)
    if done.returncode:
        raise RuntimeError(f"Kafka's folder was not made: {(done.stderr or done.stdout).decode()[-400:]}")
    log = home / "log"
    with log.open("wb") as output:
        start = [run[0], *jvm, *run[1:], "-Xms512m", "-Xmx512m", "kafka.Kafka", "server.properties"]
        process = subprocess.Popen(start, cwd=home, stdout=output, stderr=output)
    try:
        _until_there(ports["internal"], log)
        yield SecureKafka(ports["internal"], ports["sasl"], log)
    finally:
        process.kill()
        process.wait()


def _until_there(port: int, log: Path) -> None:
    ends = time.monotonic() + _START_S
    while time.monotonic() < ends:
        with contextlib.suppress(KafkaException):
            if AdminClient({"bootstrap.servers": f"127.0.0.1:{port}", "log_level": 0}).list_topics(timeout=2).brokers:
                return
    raise TimeoutError(f"Kafka did not serve within {_START_S:g} s: {log.read_text()[-400:]}")
