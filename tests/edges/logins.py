"""Settings of clients that log in at a daemon, and what stock ones hear when they are refused."""

from typing import Any

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from tests.edges.musterd import Daemon, within

ROOT = "root"
PASSWORD = "first secret"
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
WAIT_S = 60.0


def security(mechanism: str, user: str = ROOT, password: str = PASSWORD) -> dict[str, str]:
    """Settings of our clients, by librdkafka's names."""
    return {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": mechanism,
        "sasl.username": user,
        "sasl.password": password,
    }


def librdkafka(daemon: Daemon, mechanism: str, user: str = ROOT, password: str = PASSWORD) -> dict[str, Any]:
    return {"bootstrap.servers": f"127.0.0.1:{daemon.kafka_port}", **security(mechanism, user, password)}


def python(daemon: Daemon, mechanism: str, password: str = PASSWORD) -> dict[str, Any]:
    """Settings of aiokafka and kafka-python."""
    return {
        "bootstrap_servers": f"127.0.0.1:{daemon.kafka_port}",
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": mechanism,
        "sasl_plain_username": ROOT,
        "sasl_plain_password": password,
    }


def environment(mechanism: str) -> dict[str, str]:
    """The same as `security`, for a command."""
    return {f"MUSTER_{name.upper().replace('.', '_')}": value for name, value in security(mechanism).items()}


def hears(settings: dict[str, Any], words: str) -> bool:
    """Return whether librdkafka, which must get no answer with these settings, is told an error with the words."""
    errors: list[str] = []
    admin = AdminClient(settings | {"error_cb": lambda error: errors.append(str(error))})

    def is_told() -> bool:
        with pytest.raises(KafkaException):
            admin.list_topics(timeout=1)
        admin.poll(0)
        return any(words in one for one in errors)

    return within(WAIT_S, is_told)
