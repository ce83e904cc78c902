"""A record on its way, as an event loop sees it."""

import asyncio

import pytest

from muster import BufferFull, MusterError, RequestTimedOut, TopicPartition, Written
from muster.aio.sent import Sent


@pytest.fixture
def sent() -> Sent:
    sent = Sent("t", 7)
    sent.partition = 2
    return sent


async def test_everybody_who_waits_hears_of_it(sent: Sent) -> None:
    waiting = [asyncio.create_task(sent.result()) for _ in range(3)]
    await asyncio.sleep(0)
    waiting[0].cancel()
    await asyncio.sleep(0)
    assert not sent.is_done
    sent.deliver(11, -1)
    assert await asyncio.gather(*waiting[1:]) == [Written("t", 2, 11, 7)] * 2
    assert await sent == Written("t", 2, 11, 7)
    assert (await sent.exception(), sent.topic_partition) == (None, TopicPartition("t", 2))


async def test_the_log_may_give_it_another_time(sent: Sent) -> None:
    sent.deliver(0, 99)
    assert (await sent).timestamp_ms == 99


async def test_why_it_was_given_up_is_raised_or_returned_and_then_it_is_told(sent: Sent) -> None:
    error: MusterError = BufferFull("no room")
    with pytest.raises(RequestTimedOut, match="t-2 is not acknowledged after 0 s"):
        await sent.result(0)
    was_told = sent.is_told
    sent.fail(error)
    assert await sent.exception() is error
    assert (was_told, sent.is_told) == (False, True)
    with pytest.raises(BufferFull):
        await sent


async def test_callbacks_are_called_soon_and_once(sent: Sent) -> None:
    heard = list[Sent]()
    sent.add_done_callback(heard.append)
    sent.deliver(0, -1)
    assert heard == []
    await asyncio.sleep(0)
    assert heard == [sent]
    sent.add_done_callback(heard.append)
    await asyncio.sleep(0)
    assert heard == [sent, sent]
