"""A client that was used before its process forked raises in the child, whatever its locks were doing."""

import os
import signal
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Final

import pytest

from muster import Consumer, GroupMember, MusterError, Producer, TopicPartition
from muster.balanced import ClientBalancedConsumer
from muster.blocking import ClusterClient
from protocol.messages.node import DescribeNode
from tests.edges.musterd import free_port

pytestmark = pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")

RAISED, RETURNED, RAISED_ANOTHER = 0, 3, 4
_GIVE_UP_S: Final = 5


def in_child(call: Callable[[], object]) -> int:
    """Fork; how the call ended in the child. One that hangs is killed by a signal, and its number is negative."""
    child = os.fork()
    if child == 0:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(_GIVE_UP_S)
        try:
            call()
            os._exit(RETURNED)
        except MusterError as error:
            os._exit(RAISED if "made before the process forked" in str(error) else RAISED_ANOTHER)
        except BaseException:  # noqa: BLE001
            os._exit(RAISED_ANOTHER)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def while_held(lock: AbstractContextManager[object], act: Callable[[], int]) -> int:
    """Act while another thread holds the lock: a fork then copies it held, by a thread that the child does not have."""
    is_held, is_over = threading.Event(), threading.Event()

    def hold() -> None:
        with lock:
            is_held.set()
            is_over.wait()

    holder = threading.Thread(target=hold)
    holder.start()
    is_held.wait()
    try:
        return act()
    finally:
        is_over.set()
        holder.join()


@pytest.fixture
def nobody() -> str:
    return f"127.0.0.1:{free_port()}"


def test_a_consumer_raises_in_the_child_though_its_thread_held_the_lock(nobody: str) -> None:
    with Consumer(nobody, "g") as consumer:
        consumer.subscribe(["t"])
        changed = consumer._driver.changed
        assert while_held(changed.lock, lambda: in_child(lambda: consumer.poll(0))) == RAISED
        assert while_held(changed.lock, lambda: in_child(consumer.close)) == RAISED
        assert while_held(consumer._runner.guard._lock, lambda: in_child(lambda: consumer.poll(0))) == RAISED


def test_a_member_raises_in_the_child(nobody: str) -> None:
    with GroupMember(nobody, "g", ["t"]) as member:
        member.poll()
        changed = member._driver.changed
        assert while_held(changed.lock, lambda: in_child(lambda: member.commit({TopicPartition("t", 0): 1}))) == RAISED


def test_a_producer_raises_in_the_child(nobody: str) -> None:
    producer = Producer(nobody, max_block_ms=1)
    with pytest.raises(MusterError):
        producer.send("t", b"x")
    assert while_held(producer._driver.changed.lock, lambda: in_child(lambda: producer.send("t", b"x"))) == RAISED
    producer.close()


def test_a_client_balanced_consumer_raises_in_the_child(nobody: str) -> None:
    with ClientBalancedConsumer(nobody, "g") as consumer:
        assert not consumer.describe_group().ok
        assert while_held(consumer._changed.lock, lambda: in_child(consumer.describe_group)) == RAISED


def test_connections_are_not_shared_with_the_child(nobody: str) -> None:
    cluster = ClusterClient(nobody)
    with pytest.raises(MusterError):
        cluster.ask(DescribeNode())
    assert in_child(lambda: cluster.ask(DescribeNode())) == RAISED
    assert while_held(cluster._driver.changed.lock, lambda: in_child(lambda: cluster.ask(DescribeNode()))) == RAISED
    cluster.close()


def test_a_client_that_was_only_made_works_in_the_child(nobody: str) -> None:
    """Servers that fork their workers make clients before."""
    producer = Producer(nobody, max_block_ms=1)

    def use() -> None:
        with pytest.raises(MusterError, match=r"cannot connect|nothing is known"):
            producer.send("t", b"x")

    assert in_child(use) == RETURNED
    producer.close()
