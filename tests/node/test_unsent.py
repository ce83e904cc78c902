"""Slow readers that are closed when all clients together leave too much unread."""

from coordinator.handlers.fetch_completion import WokenFetches
from coordinator.io.send_backlog import CAUGHT_UP, SendBacklog
from coordinator.node.receive_backlog import largest_backlogs
from tests.node.node_rig import NodeRig

LIMIT = 1_000


class Client:
    def __init__(self, name: str, unsent: int = 0) -> None:
        self.name = name
        self.handed_bytes = self.unsent = unsent
        self.taken_ms = 0
        self.taken_bytes = CAUGHT_UP

    def unsent_bytes(self) -> int:
        return self.unsent

    def take(self, size: int) -> None:
        self.unsent -= size


def closed(unsent: SendBacklog, clients: list[Client], now_ms: int) -> list[str]:
    return [client.name for client in unsent.check(clients, now_ms)]


def test_nobody_goes_while_there_is_room() -> None:
    unsent = SendBacklog(LIMIT)
    assert closed(unsent, [Client("a", 400), Client("b", 100)], 0) == []
    assert (unsent.bytes, unsent.is_crowded) == (500, True)
    assert closed(unsent, [Client("a", 10)], 60_000) == []
    assert not unsent.is_crowded


def test_beyond_the_limit_those_with_most_go_until_there_is_room() -> None:
    unsent = SendBacklog(LIMIT)
    assert closed(unsent, [Client("a", 300), Client("b", 700), Client("c", 500)], 0) == ["b"]
    assert unsent.bytes == 800


def test_who_stands_still_goes_before_who_has_more_and_reads() -> None:
    unsent = SendBacklog(LIMIT)
    still, reading = Client("still", 200), Client("reading", 600)
    assert closed(unsent, [still, reading], 1) == []
    reading.take(100)
    assert closed(unsent, [still, reading, Client("new", 500)], 3_000) == ["still"]


def test_while_half_is_taken_who_takes_nothing_for_long_goes() -> None:
    unsent = SendBacklog(LIMIT)
    still, reading = Client("still", 200), Client("reading", 600)
    closed(unsent, [still, reading], 0)
    for second in range(1, 10):
        reading.take(1)
        assert closed(unsent, [still, reading], second * 1_000) == []
    reading.take(1)
    assert closed(unsent, [still, reading], 10_000) == ["still"]


def test_who_stands_still_below_the_limit_stays() -> None:
    unsent = SendBacklog(LIMIT)
    still = Client("still", 300)
    for second in range(100):
        assert closed(unsent, [still], second * 1_000) == []


def test_a_pause_between_two_looks_is_not_standing_still() -> None:
    unsent = SendBacklog(LIMIT)
    reader = Client("reader", 700)
    assert closed(unsent, [reader], 0) == []
    reader.take(700)
    assert closed(unsent, [reader], 1_000) == []
    reader.handed_bytes += 700
    reader.unsent = 700
    assert closed(unsent, [reader], 60_000) == []


def test_nothing_woken_is_nothing_to_do() -> None:
    rig = NodeRig()
    woken = WokenFetches()
    woken.add([("fetch", 1, 1)])
    woken.continue_checks(rig.node.core)
    assert not woken.keys
    assert largest_backlogs(rig.node.core) == []
