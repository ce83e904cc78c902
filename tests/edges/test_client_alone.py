"""The blocking client where there is nobody, or nobody who answers."""

import pickle
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any, NoReturn

import pytest

import muster.aio
from muster import (
    CannotConnect,
    ClientClosed,
    ConcurrentUse,
    Consumer,
    GroupMember,
    Producer,
    RangeReader,
    RequestTimedOut,
    TopicPartition,
)
from muster.blocking import ClusterClient
from protocol.messages.node import DescribeNode
from tests.edges.musterd import free_port, within


@pytest.fixture
def nobody() -> str:
    return f"127.0.0.1:{free_port()}"


@pytest.fixture
def silent() -> Iterator[str]:
    """Somebody who takes connections and says nothing."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        yield f"127.0.0.1:{listener.getsockname()[1]}"


@pytest.fixture
def other() -> Iterator[str]:
    """Somebody of another protocol, who hangs up."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()

        def hang_up() -> None:
            with suppress(OSError):
                while True:
                    listener.accept()[0].close()

        threading.Thread(target=hang_up, daemon=True).start()
        yield f"127.0.0.1:{listener.getsockname()[1]}"
        with suppress(OSError):
            listener.shutdown(socket.SHUT_RDWR)


def _until_it_complains(poll: Callable[[float], object]) -> None:
    """A connection may be open in the very moment, and another try begin."""
    for _ in range(20):
        poll(0.3)


@pytest.mark.parametrize(("scheme", "advice"), [("", "it is kafka://HOST:PORT"), ("kafka://", "without kafka://")])
def test_the_port_of_another_protocol_is_nobody_at_all(other: str, scheme: str, advice: str) -> None:
    with Consumer(scheme + other, "g") as consumer, GroupMember(scheme + other, "g", ["t"]) as member:
        consumer.subscribe(["t"])
        for poll in (consumer.poll, member.poll):
            with pytest.raises(CannotConnect, match=f"cannot connect to {other}: .*{advice}"):
                _until_it_complains(poll)


def test_one_who_asks_is_told_of_the_other_protocol_too(other: str) -> None:
    with (
        ClusterClient(other) as connection,
        pytest.raises(CannotConnect, match=f"cannot connect to {other}: .* Is musterd running"),
    ):
        connection.ask(DescribeNode())


@pytest.mark.parametrize("made", [Consumer, muster.aio.Consumer])
@pytest.mark.parametrize(
    ("wrong", "meant"),
    [
        ("auto_ofset_reset", "; did you mean auto_offset_reset?"),
        ("bootstrap_servers", "; did you mean bootstrap?"),
        ("sesion_timeout_ms", "; did you mean session_timeout_ms?"),
        ("colour", ""),
    ],
)
def test_a_setting_that_does_not_exist_is_named_with_the_one_that_was_meant(made: Any, wrong: str, meant: str) -> None:
    for group_id in ("g", None):
        with pytest.raises(TypeError) as raised:
            made("one:1", group_id, **{wrong: 1})
        assert str(raised.value) == f"a consumer has no setting '{wrong}'{meant}"


@pytest.mark.parametrize("made", [Consumer, muster.aio.Consumer])
def test_a_deserializer_is_a_function_and_not_its_name(made: Any) -> None:
    with pytest.raises(ValueError, match="value_deserializer is 'json', it must be a function"):
        made("one:1", "g", value_deserializer="json")


def test_the_name_of_one_assignor_is_as_good_as_a_list_of_it(nobody: str) -> None:
    assert Consumer(nobody, "g", assignors="sticky").assignment == ()
    assert muster.aio.Consumer(nobody, "g", assignors="sticky").assignment == ()
    with pytest.raises(ValueError, match="no assignor named 'rnage'"):
        Consumer(nobody, "g", assignors="rnage")


def test_making_a_client_connects_to_nothing(nobody: str) -> None:
    threads = threading.active_count()
    members = [GroupMember(nobody, "g", ["t"]), Consumer(nobody, "g"), Producer(nobody), ClusterClient(nobody)]
    assert len(members) == 4
    assert threading.active_count() == threads


def test_a_member_says_whom_it_could_not_reach(nobody: str) -> None:
    member = GroupMember(nobody, "g", ["t"])
    with pytest.raises(CannotConnect, match=f"cannot connect to {nobody}: Connection refused. Is musterd running"):
        member.poll(0.5)
    with pytest.raises(CannotConnect, match=f"cannot connect to {nobody}"):
        member.committed([TopicPartition("t", 0)], timeout_s=0.3)
    member.close(timeout_s=1)


def test_polls_that_do_not_wait_say_so_only_after_a_while(nobody: str) -> None:
    member = GroupMember(nobody, "g", ["t"], request_timeout_ms=300)
    assert not member.poll(0)
    time.sleep(0.35)
    with pytest.raises(CannotConnect):
        member.poll(0)
    member.close(timeout_s=1)


def test_everybody_else_says_it_too(nobody: str) -> None:
    with (
        Producer(nobody, max_block_ms=300) as producer,
        pytest.raises(CannotConnect, match=f"cannot connect to {nobody}"),
    ):
        producer.send("t", b"value")
    with RangeReader(nobody, "t", 0, 0, 5, timeout_s=0.3) as reader, pytest.raises(CannotConnect):
        next(reader.records())
    with ClusterClient(nobody) as connection, pytest.raises(CannotConnect):
        connection.ask(DescribeNode())
    with Consumer(nobody, "g") as consumer:
        consumer.subscribe(["t"])
        with pytest.raises(CannotConnect):
            consumer.poll(0.3)


def test_of_several_addresses_each_is_tried(nobody: str) -> None:
    with (
        ClusterClient(f"{nobody},{nobody.replace('127.0.0.1', 'localhost')}") as connection,
        pytest.raises(CannotConnect) as raised,
    ):
        connection.ask(DescribeNode())
    assert str(raised.value).count("Connection refused") == 2
    assert str(raised.value).count("Is musterd running") == 1


def test_a_server_that_says_nothing_is_not_waited_for_for_ever(silent: str) -> None:
    started = time.monotonic()
    with (
        ClusterClient(silent) as connection,
        pytest.raises(RequestTimedOut, match=r"did not answer DescribeNode within 0.3 s"),
    ):
        connection.ask(DescribeNode(), timeout_s=0.3)
    member = GroupMember(silent, "g", ["t"])
    assert not member.poll(0.3)
    member.close(timeout_s=0.5)
    assert time.monotonic() - started < 15


def test_asking_needs_no_thread_and_leaves_nothing_open_after_an_interrupt(
    silent: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads = threading.active_count()
    with ClusterClient(silent) as client:
        with pytest.raises(RequestTimedOut):
            client.ask(DescribeNode(), timeout_s=0.1)
        assert threading.active_count() == threads

        def interrupt(_timeout_s: float | None) -> NoReturn:
            raise KeyboardInterrupt

        with monkeypatch.context() as patch:
            patch.setattr(client._driver._sockets, "select", interrupt)
            with pytest.raises(KeyboardInterrupt):
                client.ask(DescribeNode(), timeout_s=5)
        assert client._driver._connections == {}
        with pytest.raises(RequestTimedOut):
            client.ask(DescribeNode(), timeout_s=0.1)
    with pytest.raises(ClientClosed, match="this client was closed"):
        client.ask(DescribeNode())


def test_closing_twice_is_fine_and_using_after_it_is_not(nobody: str) -> None:
    member = GroupMember(nobody, "g", ["t"])
    member.close()
    member.close()
    with pytest.raises(ClientClosed):
        member.poll(0)


def test_a_second_thread_is_turned_away(silent: str) -> None:
    member = GroupMember(silent, "g", ["t"])
    inside = threading.Thread(target=lambda: member.poll(1.0))
    inside.start()
    assert within(5, lambda: member._runner.guard._user == inside.ident)
    with pytest.raises(ConcurrentUse, match="in use by another thread"):
        member.poll(0)
    inside.join()
    member.close(timeout_s=0.2)


def test_a_range_reader_travels_to_another_process(nobody: str) -> None:
    reader = pickle.loads(pickle.dumps(RangeReader(nobody, "t", 3, 5, 9, timeout_s=0.2)))
    with pytest.raises(CannotConnect, match=nobody):
        next(reader.records())


def test_an_empty_range_asks_nobody(nobody: str) -> None:
    assert list(RangeReader(nobody, "t", 0, 7, 7).records()) == []


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: Consumer("x:1", "g", auto_offset_reset="begin"), "one of 'earliest', 'latest', 'none'"),
        (lambda: Consumer("x:1", "g", max_poll_records=0), "max_poll_records is 0"),
        (
            lambda: Consumer(
                "x:1",
                "",
            ),
            "group_id is empty",
        ),
        (lambda: GroupMember("x:1", "g", "topic"), "a list of names"),
        (lambda: Producer("x:1", acks=2), "acks is 2"),
        (lambda: RangeReader("x:1", "t", 0, 5, 4), "no range"),
        (lambda: GroupMember("nonsense:port", "g", ["t"]), "no address"),
    ],
)
def test_what_cannot_work_is_refused_when_it_is_made(make: object, sentence: str) -> None:
    assert callable(make)
    with pytest.raises(ValueError, match=sentence):
        make()
