"""Our own clients over TLS and through a login, at real sockets."""

import pickle
import socket
import ssl
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

import muster.aio
from muster import (
    AuthenticationFailed,
    CannotConnect,
    ClientBalancedConsumer,
    Consumer,
    ConsumerRecord,
    GroupMember,
    Producer,
    RangeReader,
    Security,
    TopicPartition,
)
from muster.blocking.cluster import ClusterClient
from muster.streams import StreamsConnector
from protocol.messages.topics import CreatableTopic, CreateTopics, Metadata, MetadataReply
from tests.edges.certificates import Folder
from tests.edges.musterd import Daemon, running, within
from tests.edges.sasl_proxy import SaslProxy, opened

ZERO = TopicPartition("orders", 0)
WAIT_S = 60.0
ME = {"sasl.mechanism": "PLAIN", "sasl.username": "me", "sasl.password": "secret"}
NOTHING = Metadata(())
LOGIN = {"security.protocol": "SASL_PLAINTEXT", **ME}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Folder:
    return Folder(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="module")
def stranger(tmp_path_factory: pytest.TempPathFactory) -> Folder:
    return Folder(tmp_path_factory.mktemp("strangers"))


@pytest.fixture(scope="module")
def daemon(folder: Folder, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    path = tmp_path_factory.mktemp("daemon") / "data"
    with running(path, *folder.listening(), "group.initial.rebalance.delay.ms=0", with_kafka=True) as one:
        both = [f"{name}-{place}" for name in ("orders", "later", "told") for place in (0, 1)]
        make(one.bootstrap, tls(folder), *both, "shared", "ranges")
        yield one


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    path = tmp_path_factory.mktemp("plain") / "data"
    with running(path, "group.initial.rebalance.delay.ms=0", with_kafka=True) as one:
        yield one


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SaslProxy]:
    """A SASL proxy in front of a musterd that names only the proxy as its address."""
    with opened(SaslProxy()) as proxy:
        path = tmp_path_factory.mktemp("guarded") / "data"
        settings = (f"advertised.kafka=127.0.0.1:{proxy.port}", "group.initial.rebalance.delay.ms=0")
        with running(path, *settings, with_kafka=True) as daemon:
            proxy.before = daemon.kafka_port
            make(daemon.bootstrap, None, "orders", "late", "renewed")
            yield proxy


@pytest.fixture
def proxy(guarded: SaslProxy) -> SaslProxy:
    guarded.users, guarded.lifetime_ms = {"me": "secret"}, 0
    guarded.logins.clear()
    guarded.refused = guarded.killed = 0
    return guarded


def make(where: str, security: Any, *names: str) -> None:
    """Topics of one partition."""
    with ClusterClient(where, security=security) as connection:
        for name in names:
            connection.ask(CreateTopics((CreatableTopic(name, 1),)))


def tls(folder: Folder, **more: str) -> dict[str, str]:
    return {"security.protocol": "SSL", "ssl.ca.location": str(folder.ca), **more}


def places(daemon: Daemon) -> list[str]:
    return [daemon.bootstrap, f"kafka://127.0.0.1:{daemon.kafka_port}"]


# ------------------------------------------------------------------------------------------------------------------ TLS


@pytest.mark.parametrize("place", [0, 1], ids=["native", "kafka"])
def test_records_are_written_and_read_by_a_group_over_tls(daemon: Daemon, folder: Folder, place: int) -> None:
    where, topic = places(daemon)[place], f"orders-{place}"
    values = [bytes([number]) * 200_000 for number in range(20)]
    with Producer(where, security=tls(folder)) as producer:
        for value in values:
            producer.send(topic, value, partition=0)
        producer.flush(WAIT_S)
    with Consumer(where, f"g-{place}", auto_offset_reset="earliest", security=tls(folder)) as consumer:
        consumer.subscribe([topic])
        got: list[bytes | None] = []
        deadline = time.monotonic() + WAIT_S
        while len(got) < len(values) and time.monotonic() < deadline:
            got += [record.value for record in consumer.poll(0.5)]
        assert got == values
        consumer.commit()
        assert consumer.committed([TopicPartition(topic, 0)]) == {TopicPartition(topic, 0): 20}
        assert consumer.end_offsets([TopicPartition(topic, 0)]) == {TopicPartition(topic, 0): 20}


@pytest.mark.parametrize("place", [0, 1], ids=["native", "kafka"])
async def test_so_they_are_in_an_event_loop(daemon: Daemon, folder: Folder, place: int) -> None:
    where, topic = places(daemon)[place], f"later-{place}"
    values = [bytes([number]) * 200_000 for number in range(20)]
    async with muster.aio.Producer(where, security=tls(folder)) as producer:
        for value in values:
            await producer.send(topic, value, partition=0)
        await producer.flush(WAIT_S)
    reading = muster.aio.Consumer(where, f"l-{place}", auto_offset_reset="earliest", security=tls(folder))
    async with reading as consumer:
        consumer.subscribe([topic])
        got: list[bytes | None] = []
        deadline = time.monotonic() + WAIT_S
        while len(got) < len(values) and time.monotonic() < deadline:
            got += [record.value for record in await consumer.poll(0.5)]
        assert got == values
        await consumer.commit()


@pytest.mark.parametrize("place", [0, 1], ids=["native", "kafka"])
def test_what_nobody_acknowledges_leaves_before_the_end(daemon: Daemon, folder: Folder, place: int) -> None:
    where, topic = places(daemon)[place], f"told-{place}"
    with Producer(where, security=tls(folder)) as producer:
        producer.send(topic, b"the topic is made", partition=0).result(WAIT_S)
    with Producer(where, security=tls(folder), acks=0) as producer:
        for _ in range(50):
            producer.send(topic, b"x" * 50_000, partition=0)
    with Consumer(where, security=tls(folder)) as consumer:
        one = TopicPartition(topic, 0)
        assert within(WAIT_S, lambda: consumer.end_offsets([one])[one] == 51)


def test_other_clients_of_the_native_protocol_have_it_too(daemon: Daemon, folder: Folder) -> None:
    security = Security.from_config(tls(folder))
    with Producer(daemon.bootstrap, security=security) as producer:
        producer.send("shared", b"one", partition=0).result(WAIT_S)
    with StreamsConnector(daemon.bootstrap, "s", security=security, auto_offset_reset="smallest") as connector:
        (stream,) = connector.create_message_streams({"shared": 1})["shared"]
        assert next(iter(stream)).value == b"one"
    with ClientBalancedConsumer(daemon.bootstrap, "b", security=security) as consumer:
        assert consumer.start({"shared": None}).ok
        assert consumer.partition_meta().ok
    cluster = ClusterClient(daemon.bootstrap, security=security)
    assert cluster.partition_count("shared") >= 1
    cluster.close()


def test_a_range_is_read_over_tls_by_whoever_it_is_sent_to(daemon: Daemon, folder: Folder) -> None:
    with Producer(daemon.bootstrap, security=tls(folder)) as producer:
        for number in range(10):
            producer.send("ranges", str(number), partition=0)
    reader = RangeReader(daemon.bootstrap, "ranges", 0, 2, 5, security=tls(folder))
    with pickle.loads(pickle.dumps(reader)) as sent:
        assert [record.value for record in sent.records()] == [b"2", b"3", b"4"]


def test_a_connection_is_made_anew_when_the_server_has_closed_it(folder: Folder, tmp_path: Path) -> None:
    with running(tmp_path / "data", *folder.listening()) as daemon:
        connection = ClusterClient(daemon.bootstrap, security=tls(folder))
        assert isinstance(connection.ask(NOTHING), MetadataReply)
        assert isinstance(connection.ask(NOTHING), MetadataReply)
        daemon.stop()
        daemon.start()
        assert isinstance(connection.ask(NOTHING), MetadataReply)
        connection.close()


def test_who_must_show_a_certificate_shows_it(folder: Folder, stranger: Folder, tmp_path: Path) -> None:
    with running(tmp_path / "data", *folder.listening(clients_show=True)) as daemon:
        shown = tls(folder, **folder.shown())
        with ClusterClient(daemon.bootstrap, security=shown) as connection:
            assert isinstance(connection.ask(NOTHING), MetadataReply)
        make(daemon.bootstrap, shown, "t")
        with Producer(daemon.bootstrap, security=shown) as producer:
            producer.send("t", b"x").result(WAIT_S)
        for security in (tls(folder), tls(folder, **stranger.shown())):
            with (
                ClusterClient(daemon.bootstrap, security=security) as connection,
                pytest.raises((AuthenticationFailed, CannotConnect), match=r"a client certificate|our certificate"),
            ):
                connection.ask(NOTHING)
            member = GroupMember(daemon.bootstrap, "g", ["t"], security=security)
            with pytest.raises((AuthenticationFailed, CannotConnect), match=r"a client certificate|our certificate"):
                member.poll(2)
            member.close(0)


# --------------------------------------------------------------------------------------------------- not to be believed


def test_a_server_that_is_not_believed_is_told_of_at_once_and_each_time(
    daemon: Daemon, folder: Folder, stranger: Folder
) -> None:
    what = rf"127.0.0.1:{daemon.port}: its certificate is not believed: .*local issuer certificate"
    with (
        ClusterClient(daemon.bootstrap, security=tls(stranger)) as connection,
        pytest.raises(AuthenticationFailed, match=what),
    ):
        connection.ask(NOTHING)
    consumer = Consumer(daemon.bootstrap, "g", security=tls(stranger))
    consumer.subscribe(["orders-0"])
    begun = time.monotonic()
    for _ in range(2):
        with pytest.raises(AuthenticationFailed, match=what):
            consumer.poll(WAIT_S)
    assert 0.5 < time.monotonic() - begun < WAIT_S, "the second time comes after a pause"
    with pytest.raises(AuthenticationFailed, match=what):
        consumer.committed([ZERO], WAIT_S)
    with pytest.raises(AuthenticationFailed, match=what):
        consumer.partitions_for("orders-0", WAIT_S)
    consumer.close(0)
    with (
        pytest.raises(AuthenticationFailed, match=what),
        Producer(daemon.bootstrap, security=tls(stranger)) as producer,
    ):
        producer.send("orders-0", b"x")
    with pytest.raises(AuthenticationFailed, match=what):
        list(RangeReader(daemon.bootstrap, "orders-0", 0, 0, 1, security=tls(stranger)).records())
    with (
        StreamsConnector(daemon.bootstrap, "s2", security=tls(stranger)) as connector,
        pytest.raises(AuthenticationFailed, match=what),
    ):
        connector.create_message_streams({"orders-0": 1})
    balanced = ClientBalancedConsumer(daemon.bootstrap, "b2", security=tls(stranger))
    answer = balanced.start({"orders-0": None})
    assert (answer.ok, answer.code) == (False, 415)
    assert "its certificate is not believed" in answer.msg
    balanced.shutdown()


async def test_so_it_is_in_an_event_loop(daemon: Daemon, stranger: Folder) -> None:
    what = "its certificate is not believed"
    security: Any = tls(stranger)
    consumer = muster.aio.Consumer(daemon.bootstrap, "g", security=security)
    consumer.subscribe(["orders-0"])
    with pytest.raises(AuthenticationFailed, match=what):
        await consumer.poll(WAIT_S)
    with pytest.raises(AuthenticationFailed, match=what):
        await consumer.committed([ZERO], WAIT_S)
    with pytest.raises(AuthenticationFailed, match=what):
        await consumer.partitions_for("orders-0", WAIT_S)
    await consumer.close(0)
    producer = muster.aio.Producer(daemon.bootstrap, security=security)
    with pytest.raises(AuthenticationFailed, match=what):
        await producer.send("orders-0", b"x")
    await producer.close(1)
    member = muster.aio.GroupMember(daemon.bootstrap, "g", ["orders-0"], security=security)
    with pytest.raises(AuthenticationFailed, match=what):
        await member.poll(WAIT_S)
    await member.close(0)


def test_a_name_that_is_not_the_servers_is_not_believed_unless_names_do_not_matter(
    daemon: Daemon, folder: Folder
) -> None:
    elsewhere = f"localhost:{daemon.port}"
    with (
        ClusterClient(elsewhere, security=tls(folder)) as connection,
        pytest.raises(AuthenticationFailed, match="Hostname mismatch"),
    ):
        connection.ask(NOTHING)
    loose = tls(folder, **{"ssl.endpoint.identification.algorithm": "none"})
    with ClusterClient(elsewhere, security=loose) as connection:
        assert isinstance(connection.ask(NOTHING), MetadataReply)


def test_who_speaks_tls_where_there_is_none_is_told(plain: Daemon, folder: Folder) -> None:
    for where in places(plain):
        with (
            ClusterClient(where, security=tls(folder), connect_timeout_s=2) as connection,
            pytest.raises((AuthenticationFailed, CannotConnect), match="speak TLS there"),
        ):
            connection.ask(NOTHING, 3)
        consumer = Consumer(where, "g", security=tls(folder))
        consumer.subscribe(["t"])
        with pytest.raises((AuthenticationFailed, CannotConnect), match="speak TLS there"):
            consumer.poll(3)
        consumer.close(0)


def test_who_speaks_none_where_there_is_tls_is_told(daemon: Daemon) -> None:
    for where in places(daemon):
        with (
            ClusterClient(where) as connection,
            pytest.raises(CannotConnect, match=r"speaks? TLS"),
        ):
            connection.ask(NOTHING, 5)


def test_a_server_that_shakes_no_hands_is_given_up_in_time(folder: Folder) -> None:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        silent = f"127.0.0.1:{listener.getsockname()[1]}"
        with ClusterClient(silent, security=tls(folder), connect_timeout_s=0.3) as connection:
            begun = time.monotonic()
            with pytest.raises(CannotConnect):
                connection.ask(NOTHING)
            assert time.monotonic() - begun < 9
        with Producer(silent, security=tls(folder), max_block_ms=300) as producer, suppress(Exception):
            producer.send("t", b"x")
            pytest.fail("nobody is there")


# --------------------------------------------------------------------------------------------------------------- logins


def test_whoever_has_the_password_is_let_in_to_write_and_to_read(proxy: SaslProxy) -> None:
    with Producer(proxy.bootstrap, security=LOGIN) as producer:
        producer.send("orders", b"x", partition=0).result(WAIT_S)
    with Consumer(proxy.bootstrap, "g", auto_offset_reset="earliest", security=LOGIN) as consumer:
        consumer.subscribe(["orders"])
        assert within(WAIT_S, lambda: bool(consumer.poll(0.5)))
    assert set(proxy.logins) == {"me"}
    assert proxy.refused == 0


def test_over_tls_too(proxy: SaslProxy, folder: Folder) -> None:
    security = {**tls(folder), **ME, "security.protocol": "SASL_SSL"}
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    folder.own().load_into(context)
    with (
        opened(SaslProxy({"me": "secret"}, before=proxy.before), context) as secured,
        ClusterClient(secured.bootstrap, security=security) as connection,
    ):
        assert isinstance(connection.ask(NOTHING), MetadataReply)
        assert secured.logins == ["me"]


def test_a_wrong_password_is_told_in_the_servers_words_and_not_tried_out(proxy: SaslProxy) -> None:
    wrong = {**LOGIN, "sasl.password": "guess"}
    what = f"127.0.0.1:{proxy.port}: 'me' is not let in by PLAIN: Authentication failed: Invalid username or password"
    with ClusterClient(proxy.bootstrap, security=wrong) as connection, pytest.raises(AuthenticationFailed, match=what):
        connection.ask(NOTHING)
    before = proxy.refused
    consumer = Consumer(proxy.bootstrap, "g", security=wrong)
    consumer.subscribe(["t"])
    begun, told = time.monotonic(), 0
    while time.monotonic() - begun < 2.5:
        with pytest.raises(AuthenticationFailed, match=what):
            consumer.poll(WAIT_S)
        told += 1
    consumer.close(0)
    assert 2 <= told <= 4, "about once a second"
    assert proxy.refused - before <= 4


def test_who_is_let_in_later_goes_on_as_if_nothing_had_been(proxy: SaslProxy) -> None:
    with Producer(proxy.bootstrap, security=LOGIN) as producer:
        producer.send("late", b"x", partition=0).result(WAIT_S)
    proxy.users["me"] = "another"
    with Consumer(proxy.bootstrap, security=LOGIN, auto_offset_reset="earliest") as consumer:
        consumer.assign([TopicPartition("late", 0)])
        with pytest.raises(AuthenticationFailed):
            consumer.poll(WAIT_S)
        proxy.users["me"] = "secret"
        got: list[ConsumerRecord] = []

        def has_read() -> bool:
            with suppress(AuthenticationFailed):
                got.extend(consumer.poll(0.5))
            return bool(got)

        assert within(WAIT_S, has_read)
        assert [record.value for record in got] == [b"x"]


async def test_a_login_that_ends_is_renewed_while_a_group_reads(proxy: SaslProxy) -> None:
    proxy.lifetime_ms = 400
    async with (
        muster.aio.Producer(proxy.bootstrap, security=LOGIN) as producer,
        muster.aio.Consumer(proxy.bootstrap, "r", security=LOGIN, auto_offset_reset="earliest") as consumer,
    ):
        consumer.subscribe(["renewed"])
        got: list[bytes | None] = []
        sent, deadline = 0, time.monotonic() + 3.0
        while time.monotonic() < deadline:
            await producer.send("renewed", str(sent), partition=0)
            await producer.flush(WAIT_S)
            sent += 1
            got += [record.value for record in await consumer.poll(0.02)]
        deadline = time.monotonic() + WAIT_S
        while len(got) < sent and time.monotonic() < deadline:
            got += [record.value for record in await consumer.poll(0.5)]
        await consumer.commit()
    assert got == [str(number).encode() for number in range(sent)]
    assert len(proxy.logins) >= 10
    assert proxy.refused == 0
    assert 3 * proxy.killed <= len(proxy.logins), "only a process that was not scheduled for 80 ms comes too late"


def test_a_login_that_ended_long_ago_is_renewed_when_something_is_asked_again(proxy: SaslProxy) -> None:
    proxy.lifetime_ms = 1000
    with ClusterClient(proxy.bootstrap, security=LOGIN) as connection:
        for pause_s in (0.0, 0.3, 0.3, 0.3, 0.3, 1.5, 0.0):
            time.sleep(pause_s)
            connection.ask(NOTHING)
    assert len(proxy.logins) >= 3
    assert proxy.killed == 0


def test_who_comes_without_a_login_where_one_is_wanted_is_sent_away(proxy: SaslProxy) -> None:
    with (
        ClusterClient(proxy.bootstrap) as connection,
        pytest.raises(CannotConnect, match="after its greeting: maybe it wants a login"),
    ):
        connection.ask(NOTHING)
    assert proxy.logins == []


def test_a_listener_that_knows_no_logins_says_so(plain: Daemon) -> None:
    with (
        ClusterClient(f"kafka://127.0.0.1:{plain.kafka_port}", security=LOGIN) as connection,
        pytest.raises(AuthenticationFailed, match="ILLEGAL_SASL_STATE"),
    ):
        connection.ask(NOTHING)
