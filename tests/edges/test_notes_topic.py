"""The notes topic at brokers: what one node tells, others hear, also those that start later."""

import asyncio
import contextlib
from collections.abc import AsyncIterator

import pytest
from structlog.testing import capture_logs

from coordinator.cluster_log.settings import NOTES_TOPIC
from coordinator.cluster_node.effects import PublishNews
from coordinator.cluster_node.events import NewsReceived
from coordinator.cluster_node.nodes import LetGo, News
from coordinator.gateway.io.cluster.notes_topic import NotesTopic
from coordinator.node.events import Event
from coordinator.records.records import Note
from protocol.messages import Message
from protocol.messages.data import Fetch, FetchReply, FetchTopicReply, Produce, ProduceReply, ProduceTopicReply
from tests.edges.fake_kafka import FakeKafka, fake_kafka, until
from tests.edges.test_cluster_log_requests import link_to

LET_GO = LetGo(3, 17, 1_000)
_PATIENCE_S = 60


def note(detail: str) -> Note:
    return Note("g", "rebalance", "member joined", "m", detail, 3, 2, "Stable", 17, 4)


class Teller:
    """A node's part, and what it heard."""

    def __init__(self, kafka: FakeKafka, name: str) -> None:
        self.heard: list[News] = []
        self._link = link_to(kafka)
        self.topic = NotesTopic(self._link, name, self._happen)

    def _happen(self, event: Event) -> None:
        assert isinstance(event, NewsReceived)
        self.heard.extend(event.news)

    def tell(self, *news: News) -> None:
        self.topic.publish(PublishNews(news))

    async def stop(self) -> None:
        await self.topic.stop()
        await self._link.stop()


@contextlib.asynccontextmanager
async def tellers(kafka: FakeKafka, *names: str, within_s: float = _PATIENCE_S) -> AsyncIterator[list[Teller]]:
    made = [Teller(kafka, name) for name in names]
    try:
        async with asyncio.timeout(_PATIENCE_S):
            for one in made:
                await one.topic.start(within_s)
            yield made
    finally:
        for one in made:
            await one.stop()


async def test_a_node_hears_what_others_tell_and_nothing_of_its_own() -> None:
    async with fake_kafka(1) as kafka:
        kafka.make_topic(NOTES_TOPIC, 1)
        async with tellers(kafka, "one", "two") as (one, two):
            one.tell(note("a"), LET_GO)
            await until(lambda: len(two.heard) == 2)
            two.tell(note("b"))
            await until(lambda: bool(one.heard))
            assert two.heard == [note("a"), LET_GO] and one.heard == [note("b")]


async def test_a_node_that_starts_knows_all_that_was_told_before_it_takes_part() -> None:
    async with fake_kafka(1) as kafka:
        kafka.make_topic(NOTES_TOPIC, 1)
        async with tellers(kafka, "one") as (one,):
            one.tell(*[note(str(number)) for number in range(1_200)])
            await one.topic.drain(_PATIENCE_S)
            async with tellers(kafka, "two") as (two,):
                assert two.heard == [note(str(number)) for number in range(1_200)]


async def test_what_is_told_while_brokers_do_not_answer_is_written_when_they_do() -> None:
    async with fake_kafka(1) as kafka:
        kafka.make_topic(NOTES_TOPIC, 1)
        async with tellers(kafka, "one", "two") as (one, two):
            kafka.silent.add(1)
            one.tell(note("a"))
            await one.topic.drain(0.2)
            one.tell(note("b"))
            assert not two.heard
            kafka.silent.clear()
            await until(lambda: {news.detail for news in two.heard if isinstance(news, Note)} >= {"a", "b"})


async def test_a_node_starts_without_a_topic_and_says_so() -> None:
    async with fake_kafka(1) as kafka:
        with capture_logs() as logs:
            async with tellers(kafka, "one", within_s=0.3) as (one,):
                assert not one.heard
        assert [line["topic"] for line in logs] == [NOTES_TOPIC]


@pytest.mark.parametrize(
    ("kind", "odd"),
    [
        (Produce, ProduceReply(())),
        (Produce, ProduceReply((ProduceTopicReply(NOTES_TOPIC, ()),))),
        (Fetch, FetchReply()),
        (Fetch, FetchReply(responses=(FetchTopicReply(NOTES_TOPIC, ()),))),
    ],
)
async def test_a_reply_that_leaves_the_topic_out_is_none(
    kind: type[Message], odd: Message, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("coordinator.gateway.io.cluster.notes_topic._RETRY_S", 0.01)
    async with fake_kafka(1) as kafka:
        kafka.make_topic(NOTES_TOPIC, 1)
        async with tellers(kafka, "one", "two") as (one, two):
            kafka.replies[kind] = odd
            asked = len(kafka.all_asked(kind))
            one.tell(note("a"))
            await until(lambda: len(kafka.all_asked(kind)) > asked + 3)
            kafka.replies.clear()
            await until(lambda: bool(two.heard))
