"""EDGE: the topic through which nodes share their notes. Each node appends to it, and reads all of it.

Nothing waits for it: a note that cannot be written now is written later, or dropped if too many wait.
"""

import asyncio
import contextlib
import time
from collections.abc import Callable
from typing import Final

import structlog

from coordinator.cluster_log.answers import WriteVerdict, verdict_on
from coordinator.cluster_log.settings import NOTES_TOPIC
from coordinator.cluster_node.effects import PublishNews
from coordinator.cluster_node.events import NewsReceived
from coordinator.gateway.cluster.news import NewsQueue, decode_news
from coordinator.gateway.io.broker_client import HostPort, RequestFailed
from coordinator.gateway.io.broker_clients import BrokerClients
from coordinator.gateway.io.cluster.leaders import MOVED, PartitionLeaders
from coordinator.gateway.io.cluster.link import TIMEOUT_S, ClusterLink, only
from coordinator.gateway.io.tasks import Tasks
from protocol.errors import ErrorCode
from protocol.messages.data import (
    Fetch,
    FetchPartition,
    FetchPartitionReply,
    FetchReply,
    FetchTopic,
    Produce,
    ProducePartition,
    ProduceReply,
    ProduceTopic,
)

log = structlog.get_logger()

_READ_BYTES: Final = 1 << 20
_POLL_MS: Final = 500
_RETRY_S: Final = 0.5
_PAUSE_S: Final = 0.05


class NotesTopic:
    """One node's part. `by` names this process; `happen` is called with the records of others."""

    def __init__(self, link: ClusterLink, by: str, happen: Callable[[NewsReceived], None]) -> None:
        self._by = by
        self._happen = happen
        self._tasks = Tasks("NotesTopic")
        self._leaders = PartitionLeaders(link, NOTES_TOPIC, self._tasks)
        self._writing, self._reading = BrokerClients(link.open_client), BrokerClients(link.open_client)
        self._waiting = NewsQueue(by)
        self._is_written = asyncio.Event()
        self._is_written.set()
        self._refused: ErrorCode | None = ErrorCode.NONE
        """Error of the last write; NONE after a success."""
        self._offset = 0
        self._has_caught_up = asyncio.Event()

    def publish(self, effect: PublishNews) -> None:
        """Append this note or move as soon as possible."""
        self._waiting.add(effect.news)
        if self._is_written.is_set():
            self._is_written.clear()
            self._tasks.start(self._write())

    async def start(self, within_s: float, log_id: str = "") -> None:
        """Read the whole topic, so that a node knows the notes of the groups that it will serve, and continue reading
        in the background. Give up waiting after that time. `log_id`: id of the topic of offsets, if it is known."""
        self._waiting.log = log_id
        self._tasks.start(self._follow())
        try:
            await asyncio.wait_for(self._has_caught_up.wait(), within_s)
        except TimeoutError:
            log.warning("the notes of other nodes cannot be read yet: explanations lack them", topic=NOTES_TOPIC)

    async def drain(self, within_s: float) -> None:
        """Wait until all notes are written, for this time at most."""
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._is_written.wait(), within_s)

    async def stop(self) -> None:
        """Cancel all requests, and close the connections."""
        await self._tasks.stop()
        await self._writing.stop()
        await self._reading.stop()

    # --- writes ---

    async def _write(self) -> None:
        while self._waiting:
            batch = self._waiting.next_batch(time.time_ns() // 1_000_000)
            error = await self._produce(batch)
            while verdict_on(error) is WriteVerdict.AGAIN:
                await asyncio.sleep(_RETRY_S)
                error = await self._produce(batch)
            if verdict_on(error) is not WriteVerdict.TAKEN and error is not self._refused:
                why = "no answer" if error is None else error.name
                log.warning("notes are known to this node alone: the brokers do not take them", why=why)
            self._refused = error
        self._is_written.set()

    async def _produce(self, batch: bytes) -> ErrorCode | None:
        leader = self._leaders.of(0)
        if leader is None:
            return ErrorCode.LEADER_NOT_AVAILABLE
        message = Produce((ProduceTopic(NOTES_TOPIC, (ProducePartition(0, batch),)),), -1, int(TIMEOUT_S * 1_000))
        error: ErrorCode | None = None
        try:
            reply = await (await self._writing.get(leader)).ask(message, 2 * TIMEOUT_S)
            assert isinstance(reply, ProduceReply)
            error = only(only(reply.responses).partition_responses).error_code
        except RequestFailed:
            pass
        self._doubt_leader_after(error)
        return error

    def _doubt_leader_after(self, error: ErrorCode | None) -> None:
        if error in MOVED:
            self._leaders.doubt()

    # --- reads ---

    async def _follow(self) -> None:
        while True:
            leader = self._leaders.of(0)
            part = None if leader is None else await self._fetch(leader)
            if part is None or part.error_code is not ErrorCode.NONE:
                if part is not None and part.error_code is ErrorCode.OFFSET_OUT_OF_RANGE:
                    # Retention has deleted the offset, or the topic was created again.
                    self._offset = part.log_start_offset if part.log_start_offset > self._offset else 0
                elif leader is not None:
                    self._doubt_leader_after(None if part is None else part.error_code)
                await asyncio.sleep(_RETRY_S)
                continue
            before = self._offset
            self._offset, news = decode_news(part.records, before, self._by, self._waiting.log)
            if news:
                self._happen(NewsReceived(tuple(news)))
            if self._offset >= part.high_watermark:
                self._has_caught_up.set()
            if self._offset == before:
                await asyncio.sleep(_PAUSE_S)  # for brokers that do not delay the reply

    async def _fetch(self, leader: HostPort) -> FetchPartitionReply | None:
        message = Fetch(
            (FetchTopic(NOTES_TOPIC, (FetchPartition(0, self._offset, _READ_BYTES),)),), _POLL_MS, 1, _READ_BYTES
        )
        try:
            reply = await (await self._reading.get(leader)).ask(message, TIMEOUT_S)
            assert isinstance(reply, FetchReply)
            return only(only(reply.responses).partitions)
        except RequestFailed:
            return None
