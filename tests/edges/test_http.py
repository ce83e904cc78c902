"""The HTTP pages of a real `musterd` whose group has a real member."""

import asyncio
import json
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest

from coordinator.http.app import yield_to_loop
from muster import Consumer, Producer
from muster.blocking import ClusterClient
from protocol.messages.topics import CreatableTopic, CreateTopics
from tests.edges.musterd import Daemon, running, within


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    folder: Path = tmp_path_factory.mktemp("musterd") / "data"
    with running(folder, "group.initial.rebalance.delay.ms=0", with_http=True) as daemon:
        with ClusterClient(daemon.bootstrap) as connection:
            connection.ask(CreateTopics((CreatableTopic("flights", 2),)))
        with Producer(daemon.bootstrap) as producer:
            for number in range(10):
                producer.send("flights", str(number), partition=number % 2)
        yield daemon


def get(daemon: Daemon, path: str) -> str:
    address = path if path.startswith("http") else f"http://127.0.0.1:{daemon.http_port}{path}"
    with urlopen(address, timeout=10) as answer:
        text: str = answer.read().decode()
    return text


def page(daemon: Daemon, path: str) -> Any:
    return json.loads(get(daemon, path))


def test_it_is_ready_when_it_says_so(daemon: Daemon) -> None:
    assert within(10, lambda: page(daemon, "/readyz")["ready"])
    assert page(daemon, "/healthz") == {"healthy": True}


def test_a_member_is_seen_from_every_side(daemon: Daemon) -> None:
    with Consumer(
        daemon.bootstrap, "de/lays", auto_offset_reset="earliest", enable_auto_commit=False, client_id="app"
    ) as consumer:
        consumer.subscribe(["flights"])
        seen = 0
        while seen < 10:
            seen += len(consumer.poll(5))
        (one, two) = consumer.assignment
        consumer.commit({one: 5, two: 2})
        cluster = page(daemon, "/v3/clusters")["data"][0]
        group = page(daemon, cluster["consumer_groups"]["related"])["data"][0]
        member = page(daemon, group["consumer"]["related"])["data"][0]
        assignments = page(daemon, member["assignments"]["related"])["data"]
        lag = page(daemon, assignments[1]["lag"]["related"])
        summary = page(daemon, group["lag_summary"]["related"])
        metrics = get(daemon, "/metrics")

    assert (group["consumer_group_id"], group["state"], group["partition_assignor"]) == ("de/lays", "STABLE", "range")
    assert member["client_id"] == "app"
    assert [line["partition_id"] for line in assignments] == [0, 1]
    assert (lag["current_offset"], lag["log_end_offset"], lag["lag"]) == (2, 5, 3)
    assert (summary["max_lag"], summary["total_lag"], summary["max_lag_client_id"]) == (3, 3, "app")
    assert 'kafka_consumergroup_lag{consumergroup="de/lays",partition="1",topic="flights"} 3.0' in metrics
    assert 'muster_rebalances_total{cause="member joined"} 1.0' in metrics
    notes = page(daemon, "/v1/groups/de%2Flays/notes")["notes"]
    assert [note["cause"] for note in notes][:2] == ["member joined", "rebalance completed"]


def test_waits_in_the_purgatory_are_told_by_kind(daemon: Daemon) -> None:
    def waits(kind: str) -> float:
        start = f'muster_purgatory_operations{{kind="{kind}"}} '
        return sum(
            [float(line[len(start) :]) for line in get(daemon, "/metrics").splitlines() if line.startswith(start)]
        )

    with (
        Consumer(daemon.bootstrap, "waits-classic") as classic,
        Consumer(daemon.bootstrap, "waits-server-driven", group_protocol="consumer") as driven,
    ):
        for consumer in (classic, driven):
            consumer.subscribe(["flights"])
            assert within(10, lambda one=consumer: one.poll(0.1) or one.assignment)
        assert (waits("heartbeat"), waits("consumer session")) == (1, 1)
    assert within(10, lambda: not waits("heartbeat") and not waits("consumer session"))


def test_a_group_nobody_knows_is_a_404(daemon: Daemon) -> None:
    cluster = page(daemon, "/v3/clusters")["data"][0]["metadata"]["self"]

    with pytest.raises(HTTPError) as refused:
        get(daemon, f"{cluster}/consumer-groups/nobody/lags")

    with refused.value as answer:
        assert answer.status == 404
        assert json.load(answer)["error_code"] == 40403


class _Answering(asyncio.Protocol):
    """Answers as the node's edge does: in the turn of the loop after that in which the bytes were read."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        asyncio.get_running_loop().call_soon(self._transport.write, data)


def test_what_arrives_during_a_piece_of_a_page_is_answered_before_the_next_piece() -> None:
    uvloop = pytest.importorskip("uvloop")

    async def pieces() -> list[bytes]:
        server = await asyncio.get_running_loop().create_server(_Answering, "127.0.0.1", 0)
        client = socket.create_connection(server.sockets[0].getsockname())
        await asyncio.sleep(0.1)  # until the connection is accepted
        answers = []
        for _ in range(20):
            client.send(b"heartbeat")
            await yield_to_loop()
            answers.append(client.recv(100, socket.MSG_DONTWAIT))
        client.close()
        server.close()
        return answers

    assert uvloop.run(pieces()) == [b"heartbeat"] * 20
