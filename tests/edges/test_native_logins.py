"""Logins of our own clients at a real daemon, over its native listener: threads, asyncio, member, command."""

import asyncio
import os
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest

import muster.aio
from muster import AuthenticationFailed, Consumer, GroupMember, Producer
from muster.blocking.cluster import ClusterClient
from protocol.errors import ErrorCode
from protocol.messages.topics import CreatableTopic, CreateTopics, CreateTopicsReply
from tests.edges.logins import MECHANISMS, PASSWORD, WAIT_S, environment, security
from tests.edges.musterd import Daemon, running


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    with running(
        tmp_path_factory.mktemp("logins") / "data",
        f"sasl.enabled.mechanisms={','.join(MECHANISMS)}",
        f"initial.admin=root:{PASSWORD}",
        "connections.max.reauth.ms=1500",
        "group.initial.rebalance.delay.ms=0",
    ) as one:
        with ClusterClient(one.bootstrap, security=security("PLAIN")) as connection:
            made = connection.ask(CreateTopics((CreatableTopic("orders", 1),)))
            assert isinstance(made, CreateTopicsReply) and made.topics[0].error_code is ErrorCode.NONE
        yield one


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_a_consumer_and_a_producer_go_on_beyond_the_life_of_their_login(daemon: Daemon, mechanism: str) -> None:
    mine = security(mechanism)
    with (
        Producer(daemon.bootstrap, security=mine) as producer,
        Consumer(daemon.bootstrap, f"threads-{mechanism}", security=mine, auto_offset_reset="earliest") as consumer,
    ):
        consumer.subscribe(["orders"])
        ends_at = time.monotonic() + 3  # two logins of 1.5 seconds
        seen = 0
        while time.monotonic() < ends_at or not seen:
            assert time.monotonic() < ends_at + WAIT_S
            producer.send("orders", mechanism.encode()).result(WAIT_S)
            seen += len(consumer.poll(0.3))
        consumer.commit()
        offset = consumer.committed([next(iter(consumer.assignment))])
        assert offset and all(one is not None for one in offset.values())


async def test_the_face_of_asyncio_logs_in_too(daemon: Daemon) -> None:
    mine = security("SCRAM-SHA-256")
    async with asyncio.timeout(WAIT_S), muster.aio.Producer(daemon.bootstrap, security=mine) as producer:
        await (await producer.send("orders", b"x"))
        consumer = muster.aio.Consumer(daemon.bootstrap, "loops", security=mine, auto_offset_reset="earliest")
        async with consumer:
            consumer.subscribe(["orders"])
            while not await consumer.poll(0.3):
                pass
            await consumer.commit()


def test_a_member_without_records_logs_in(daemon: Daemon) -> None:
    with GroupMember(daemon.bootstrap, "members", ["orders"], security=security("SCRAM-SHA-512")) as member:
        ends_at = time.monotonic() + WAIT_S
        while not member.assignment:
            assert time.monotonic() < ends_at
            member.poll(0.1)


@pytest.mark.parametrize("mechanism", [None, "PLAIN", "SCRAM-SHA-256"])
def test_who_has_no_login_or_a_wrong_one_hears_why(daemon: Daemon, mechanism: str | None) -> None:
    wrong = None if mechanism is None else security(mechanism, password="second secret")
    with pytest.raises(AuthenticationFailed) as failed, ClusterClient(daemon.bootstrap, security=wrong) as one:
        one.ask(CreateTopics((CreatableTopic("stolen", 1),)))
    assert ("wants a login" if wrong is None else "'root' is not let in") in str(failed.value)
    assert "second secret" not in str(failed.value)


def command(daemon: Daemon, *words: str, said: str = "", **names: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "muster.cli", "--bootstrap", daemon.bootstrap, *words],
        env={**os.environ, **names},
        input=said,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_the_command_logs_in_with_what_the_environment_says(daemon: Daemon) -> None:
    names = environment("SCRAM-SHA-512")
    made = command(daemon, "users", "create", "billing", said="another secret\n", **names)
    assert made.returncode == 0, made.stderr
    listed = command(daemon, "users", "list", **names)
    assert "billing" in listed.stdout and listed.returncode == 0, listed.stderr
    refused = command(daemon, "groups", "list")
    assert refused.returncode != 0 and "wants a login" in " ".join(refused.stderr.split())
