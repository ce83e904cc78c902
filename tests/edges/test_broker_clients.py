"""Clients of brokers that callers share, with pretended connections."""

import asyncio
from typing import cast

import pytest

from coordinator.gateway.io.broker_client import BrokerClient, HostPort, RequestFailed
from coordinator.gateway.io.broker_clients import BrokerClients

HERE, THERE = ("one.example", 9_092), ("two.example", 9_092)


class Pretended:
    def __init__(self) -> None:
        self.is_open = True
        self.is_retired = False

    def retire(self) -> None:
        self.is_retired = True

    def close(self) -> None:
        self.is_open = False


class Opening:
    """Opens pretended clients while `go` is set, and lists them in `made`. `fails`: no broker answers."""

    def __init__(self) -> None:
        self.made: list[Pretended] = []
        self.tried = 0
        self.fails = False
        self.go = asyncio.Event()
        self.go.set()

    async def __call__(self, place: HostPort) -> BrokerClient:
        self.tried += 1
        await self.go.wait()
        if self.fails:
            raise RequestFailed(f"{place[0]}: nobody")
        self.made.append(Pretended())
        return cast(BrokerClient, self.made[-1])


async def test_all_who_want_a_link_while_it_is_opened_have_the_same() -> None:
    opening = Opening()
    links = BrokerClients(opening)
    one, other = await asyncio.gather(links.get(HERE), links.get(HERE))
    assert one is other is await links.get(HERE)
    assert await links.get(THERE) is not one
    assert opening.tried == 2


async def test_all_who_wait_for_a_link_hear_that_nothing_came_of_it_and_the_next_tries_again() -> None:
    opening = Opening()
    links = BrokerClients(opening)
    opening.fails = True
    told = await asyncio.gather(links.get(HERE), links.get(HERE), return_exceptions=True)
    assert [str(one) for one in told] == ["one.example: nobody"] * 2
    assert opening.tried == 1
    assert not links.has(HERE)
    opening.fails = False
    assert (await links.get(HERE)).is_open


async def test_who_goes_away_takes_no_link_from_others_who_wait_for_it() -> None:
    opening = Opening()
    opening.go.clear()
    links = BrokerClients(opening)
    gone, stays = (asyncio.ensure_future(links.get(HERE)) for _ in range(2))
    await asyncio.sleep(0)
    gone.cancel()
    opening.go.set()
    assert (await stays).is_open


async def test_one_that_is_over_is_let_finish_when_there_is_another() -> None:
    opening = Opening()
    links = BrokerClients(opening)
    await links.get(HERE)
    opening.made[0].is_open = False
    assert links.has(HERE)
    assert not links.is_open(HERE)
    await links.get(HERE)
    assert links.is_open(HERE)
    assert [one.is_retired for one in opening.made] == [True, False]


async def test_clients_to_brokers_that_are_gone_are_closed_and_at_the_end_all() -> None:
    opening = Opening()
    links = BrokerClients(opening)
    await links.get(HERE)
    await links.get(THERE)
    links.retain({THERE})
    assert [one.is_open for one in opening.made] == [False, True]
    opening.go.clear()
    waits = asyncio.ensure_future(links.get(HERE))
    await asyncio.sleep(0)
    await links.stop()
    with pytest.raises(asyncio.CancelledError):
        await waits
    assert [one.is_open for one in opening.made] == [False, False]
