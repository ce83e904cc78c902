"""EDGE: the node's membership in the nodes' group: its requests, its timer, and the clock that counts while the machine
is suspended."""

import asyncio
import time
from collections.abc import Callable

from coordinator.gateway.cluster.nodes_group import GroupStep, NodesGroup
from coordinator.gateway.io.broker_client import HostPort, RequestFailed
from coordinator.gateway.io.broker_clients import BrokerClients
from coordinator.gateway.io.cluster.link import TIMEOUT_S, ClusterLink
from coordinator.gateway.io.tasks import Tasks
from coordinator.node.events import Event
from membership.events import CallFailed, HangUp, MemberEvent, Replied, SendRequest, TimePassed
from protocol.messages import Message

_LONGEST_S = 120.0
"""Timeout of requests that the coordinator may delay; the member itself gives up earlier."""


def boot_ms() -> int:
    """Return the time of CLOCK_BOOTTIME, which counts while the machine is suspended."""
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME) // 1_000_000


class NodesMember:
    """Runs the group. `happen` is called with its events, `named` with each member id that it is given; `changed` is
    set after each step."""

    def __init__(
        self, group: NodesGroup, link: ClusterLink, happen: Callable[[Event], None], named: Callable[[str], None]
    ) -> None:
        self.group = group
        self.changed = asyncio.Event()
        self._link = link
        self._happen = happen
        self._named = named
        self._member_id = ""
        self._loop = asyncio.get_running_loop()
        self._tasks = Tasks("NodesMember")
        self._clients = BrokerClients(link.open_client)
        """Connections to coordinators, on which a JoinGroup may wait for long."""
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """Join."""
        self._feed(TimePassed())

    def handed_over(self, shard: int) -> None:
        """Note that another node may claim the shard; may be called in a step of the node."""
        self._loop.call_soon(lambda: self._take(self.group.handed_over(shard, boot_ms())))

    def caught_up(self, shard: int) -> None:
        """Note that the node has the state of the shard's log; may be called in a step of the node."""
        self._loop.call_soon(lambda: self._take(self.group.caught_up(shard, boot_ms())))

    async def leave(self, within_s: float) -> None:
        """Hand all shards over and leave; give up after that time."""
        self._take(self.group.leave(boot_ms()))
        try:
            async with asyncio.timeout(within_s):
                while not self.group.is_closed:
                    self.changed.clear()
                    await self.changed.wait()
        except TimeoutError:
            return

    async def stop(self) -> None:
        """Stop without leaving the group."""
        if self._timer is not None:
            self._timer.cancel()
        await self._tasks.stop()
        await self._clients.stop()

    def _feed(self, event: MemberEvent) -> None:
        self._take(self.group.step(event, boot_ms()))

    def _take(self, step: GroupStep) -> None:
        if self.group.member_id != self._member_id:
            self._member_id = self.group.member_id
            if self._member_id:
                self._named(self._member_id)
        for request in step.requests:
            if isinstance(request, HangUp):
                if request.node is not None:
                    self._clients.close((request.node.host, request.node.port))
            else:
                self._tasks.start(self._ask(request))
        for event in step.events:
            self._happen(event)
        self._arm()
        self.changed.set()

    def _arm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        due_ms = self.group.next_deadline_ms
        if due_ms is not None:
            self._timer = self._loop.call_later(max(due_ms - boot_ms(), 0) / 1_000 + 0.0005, self._feed, TimePassed())

    async def _ask(self, request: SendRequest) -> None:
        node = request.node
        try:
            if node is None:
                reply = await self._link.ask(request.message, Message, TIMEOUT_S)
            else:
                reply = await self._ask_at((node.host, node.port), request)
        except RequestFailed:
            self._feed(CallFailed(request.call))
        else:
            self._feed(Replied(request.call, reply, getattr(reply, "error_message", None) or ""))

    async def _ask_at(self, address: HostPort, request: SendRequest) -> Message:
        return await (await self._clients.get(address)).ask(request.message, _LONGEST_S)
