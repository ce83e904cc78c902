"""Requests of any type to nodes of a cluster, without membership and without a thread."""

import time
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from random import random
from types import TracebackType
from typing import Any, Self, TypeVar

from membership.channel import CoordinatorChannel
from membership.events import MemberEffect, NodeAddress, TimePassed
from membership.topic_partition import TopicPartition
from muster.blocking.runner import ThreadRunner
from muster.client.steps import Procedure, WaitUntil
from muster.client.topics import TopicProcedures, ignore
from muster.core.fetching.settings import FetchSettings, isolation
from muster.core.lookups import LookedUp, Lookups
from muster.core.requests import Requests
from muster.errors import CannotConnect, MusterError, Refused, RequestTimedOut
from muster.net.bootstrap import cannot_connect, parse_bootstrap
from muster.net.caller import CallerDriver
from muster.net.cores import Driven
from muster.net.dialects import ClientDialect, dialect_of
from muster.net.security import SecurityLike
from protocol.errors import ErrorCode
from protocol.messages import Message
from protocol.messages.node import ErrorReply as WhollyRefused
from protocol.messages.node import FindCoordinatorReply

RETRY_S = 0.1
EARLIEST, LATEST = -2, -1
M = TypeVar("M", bound=Message)
T = TypeVar("T")


class ClusterClient(TopicProcedures):
    """Sends requests to nodes, beginning with `bootstrap`. Connections are opened when needed, and again after they are
    lost. Usable from several threads, which wait for each other. `dialect` is "native" or "kafka"; by default the
    bootstrap decides.
    """

    def __init__(
        self,
        bootstrap: str,
        *,
        dialect: str | None = None,
        client_id: str = "muster",
        security: SecurityLike | None = None,
        broker_security: SecurityLike | None = None,
        isolation_level: str = "read_uncommitted",
        connect_timeout_s: float = 5.0,
    ) -> None:
        """`isolation_level` "read_committed": logs end before the oldest open transaction."""
        where = parse_bootstrap(bootstrap, dialect, security, broker_security)
        driver = CallerDriver(where, client_id, int(connect_timeout_s * 1000))
        super().__init__(ThreadRunner(where, client_id, "client", driver), _lookups(isolation_level))
        self._where, self._connect_timeout_s = where, connect_timeout_s
        self._await_tokens()
        self._dialect = where.dialect
        self._requests = Requests()
        self._asking = Driven(self._requests, ignore)
        self._driver.add(self._asking)
        self._leaders: dict[TopicPartition, NodeAddress] = {}

    def ask(self, message: Message, timeout_s: float = 30.0, *, node: NodeAddress | None = None) -> Message:
        """Return the reply of `node`, or of any node, even with an error code. Raises `Refused` if the request was
        refused as a whole and its reply has no field for that, `CannotConnect` (also for a lost connection),
        `RequestTimedOut`, `AuthenticationFailed`.
        """
        reply: Message = self._runner.run_open(self._request(message, node, timeout_s))
        if isinstance(reply, WhollyRefused):
            said = reply.error_message or reply.error_code.name
            raise Refused(reply.error_code, f"{type(message).__name__} was refused: {said}")
        return reply

    def ask_each(
        self, message: Message, nodes: Iterable[NodeAddress], timeout_s: float = 30.0
    ) -> dict[NodeAddress, Message | MusterError]:
        """Send a request to several nodes at once. Return the reply of each, even with an error code, or the error.
        Raises `AuthenticationFailed`.
        """
        answers: dict[NodeAddress, Message | MusterError]
        answers = self._runner.run_open(self._request_each(message, tuple(nodes), timeout_s))
        return answers

    @property
    def is_native(self) -> bool:
        """True if the bootstrap speaks the native protocol."""
        return self._dialect is ClientDialect.NATIVE

    def ask_coordinator(self, kind: type[M], group_id: str, message: Message) -> M:
        """Return the reply of the group's coordinator, which must be of type `kind`. Raises as `ask`, `coordinator` and
        `expect` do."""
        return expect(kind, self.ask(message, node=self.coordinator(group_id)))

    def coordinator(self, group_id: str, timeout_s: float = 30.0) -> NodeAddress:
        """Return the group's coordinator; waits while there is none, but not for nodes that do not answer. Raises
        `Refused`, `CannotConnect`, `RequestTimedOut`.
        """
        channel: CoordinatorChannel[Any] = CoordinatorChannel(group_id, lambda _failures: 0)

        def find() -> NodeAddress | None:
            reply = expect(FindCoordinatorReply, self.ask(channel.lookup(), timeout_s))
            code, sentence = channel.on_lookup_reply(reply)
            if code != ErrorCode.NONE and not code.retriable:
                raise Refused(code, sentence or _unfound(group_id, code))
            return channel.coordinator

        return until(find, timeout_s, f"no node coordinates group {group_id}", also_if_lost=False)

    def partition_count(self, topic: str, timeout_s: float = 30.0) -> int:
        """Return the topic's number of partitions; waits for a topic that is being created. Raises `Refused` for a
        topic that does not exist, `CannotConnect`, `RequestTimedOut`.
        """
        return len(self._runner.run_open(self._partitions_for(topic, timeout_s)))

    def leader(self, partition: TopicPartition, timeout_s: float = 30.0) -> NodeAddress:
        """Return the partition's leader; waits while there is none. Raises `Refused`, `CannotConnect`,
        `RequestTimedOut`; `AuthenticationFailed`.
        """
        node = self._leaders.get(partition)
        if node is None:
            found = self._runner.run_open(self._look_up((), {}, timeout_s, (partition,)))
            node = self._leaders[partition] = found.leaders[partition]
        return node

    def forget_leader(self, partition: TopicPartition) -> None:
        """Forget the partition's leader, which has moved."""
        self._leaders.pop(partition, None)

    def offsets(
        self,
        partitions: Iterable[TopicPartition],
        timestamp: int,
        timeout_s: float = 30.0,
        *,
        isolation_level: str | None = None,
    ) -> Mapping[TopicPartition, int]:
        """Return the start (`EARLIEST`) or end (`LATEST`) of each partition. `isolation_level`: another than this
        client's. Raises `Refused`, `CannotConnect`, `RequestTimedOut`, ValueError.
        """
        times = dict.fromkeys(sorted(set(partitions)), timestamp)
        level = None if isolation_level is None else isolation(isolation_level)
        found: LookedUp = self._runner.run_open(self._look_up((), times, timeout_s, (), level))
        return found.offsets

    def close(self) -> None:
        """Disconnect. Closing twice is fine."""
        self._runner.guard.is_closed = True
        self._driver.stop()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _await_tokens(self) -> None:
        """Wait for the tokens of logins, since a request is not retried."""
        for security in {self._where.security, self._where.broker_security}:
            security.await_token(self._connect_timeout_s)

    def _request(self, message: Message, node: NodeAddress | None, timeout_s: float) -> Procedure[Message]:
        """Try every address that may stand for the node, or all of the bootstrap, until one answers."""
        self._await_tokens()
        driver = self._driver
        deadline = driver.time() + timeout_s
        tried: dict[NodeAddress, Exception] = {}
        while True:
            address = node or driver.bootstrap_address
            reply = yield from self._request_once(message, node, deadline - driver.time(), timeout_s)
            if reply is not None:
                return reply
            if driver.is_last_address(address):
                tried[address] = driver.failures.get(address, ConnectionResetError("the connection was lost"))
                if node is not None or driver.bootstrap_address in tried:
                    break
        if len(tried) == 1:
            raise driver.refusals.error(driver.last_failure)
        why = {one: error if isinstance(error, OSError) else str(error) for one, error in tried.items()}
        raise CannotConnect(cannot_connect(why, dialect_of(address, self._dialect)))

    def _request_each(
        self, message: Message, nodes: tuple[NodeAddress, ...], timeout_s: float
    ) -> Procedure[dict[NodeAddress, Message | MusterError]]:
        """Try every address that may stand for each node."""
        driver = self._driver
        deadline = driver.time() + timeout_s
        found: dict[NodeAddress, Message | MusterError] = {}
        while left := [node for node in nodes if node not in found]:
            replies = yield from self._request_all_once(message, left, deadline - driver.time())
            for node in left:
                reply = replies.get(node)
                if reply is not None:
                    found[node] = reply
                elif node not in replies:
                    found[node] = RequestTimedOut(self._late(node, message, timeout_s))
                elif driver.is_last_address(node) or driver.time() >= deadline:
                    why = driver.failures.get(node, ConnectionResetError("the connection was lost"))
                    failed = {node: why if isinstance(why, OSError) else str(why)}
                    found[node] = CannotConnect(cannot_connect(failed, dialect_of(node, self._dialect)))
        return found

    def _request_all_once(
        self, message: Message, nodes: list[NodeAddress], left_s: float
    ) -> Procedure[dict[NodeAddress, Message | None]]:
        """Return the replies, None for nodes that cannot be reached; late replies are omitted."""
        requests, refusals = self._requests, self._driver.refusals
        numbers = {node: requests.ask(message, node) for node in nodes}
        try:
            self._driver.feed(self._asking, TimePassed())
            yield WaitUntil(lambda: all(map(requests.is_over, numbers.values())) or not refusals.is_clear, left_s)
            refusals.raise_last()
            over = [node for node, number in numbers.items() if requests.is_over(number)]
            return {node: requests.take(numbers.pop(node)) for node in over}
        finally:
            for number in numbers.values():  # their replies are no longer needed
                self._driver.carry_out(self._asking, partial(self._forget, number))

    def _forget(self, number: int, _now_ms: int) -> list[MemberEffect]:
        return self._requests.forget(number)

    @staticmethod
    def _late(node: NodeAddress, message: Message, timeout_s: float) -> str:
        return f"{node} did not answer {type(message).__name__} within {timeout_s:g} s"

    def _request_once(
        self, message: Message, node: NodeAddress | None, left_s: float, timeout_s: float
    ) -> Procedure[Message | None]:
        requests, refusals = self._requests, self._driver.refusals
        address = node or self._driver.bootstrap_address
        number = requests.ask(message, node)
        try:
            self._driver.feed(self._asking, TimePassed())
            yield WaitUntil(lambda: requests.is_over(number) or not refusals.is_clear, left_s)
            if not requests.is_over(number):
                refusals.raise_last()
                raise RequestTimedOut(self._late(address, message, timeout_s))
        except BaseException:
            self._driver.carry_out(self._asking, lambda _: requests.forget(number))
            raise
        return requests.take(number)


def _lookups(isolation_level: str) -> Lookups:
    return Lookups(FetchSettings(isolation=isolation(isolation_level)), random)


def _unfound(group_id: str, code: ErrorCode) -> str:
    if code is ErrorCode.GROUP_AUTHORIZATION_FAILED:
        return f"no access rule permits DESCRIBE on group {group_id!r} ({code.name})"
    return f"group {group_id!r} has no coordinator: {code.name}"


def expect(kind: type[M], reply: Message) -> M:
    """Return the reply, which must be of type `kind`. Raises `Refused` with its code and message if the request failed
    as a whole."""
    code = getattr(reply, "error_code", ErrorCode.NONE)
    if code != ErrorCode.NONE and isinstance(reply, kind | WhollyRefused):
        said = getattr(reply, "error_message", None) or code.name
        raise Refused(code, f"{kind.__name__.removesuffix('Reply')} was refused: {said}")
    if not isinstance(reply, kind):
        raise MusterError(f"a {type(reply).__name__} came where a {kind.__name__} was due")
    return reply


def until(attempt: Callable[[], T | None], timeout_s: float, sentence: str, *, also_if_lost: bool = True) -> T:
    """Repeat `attempt` until it returns something or the time is over. It is also repeated after a lost connection,
    unless `also_if_lost` is false."""
    deadline = time.monotonic() + timeout_s
    while True:
        failure: MusterError
        try:
            result = attempt()
        except CannotConnect as lost:
            if not also_if_lost:
                raise
            failure = lost
        else:
            if result is not None:
                return result
            failure = RequestTimedOut(f"{sentence} (waited {timeout_s:g} s)")
        if time.monotonic() + RETRY_S >= deadline:
            raise failure
        time.sleep(RETRY_S)
