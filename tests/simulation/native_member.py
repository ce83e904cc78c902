"""A simulated member that has one request in flight at a time, in the native protocol unless it is given another one;
requests and answers of its kind of group are in subclasses.
"""

from collections.abc import Callable
from random import Random
from typing import Any, Generic, Protocol, TypeVar

from protocol.messages import Message
from protocol.native.client import NativeAnswer
from tests.simulation.faults import Seen
from tests.simulation.network import Clock, Link
from tests.simulation.wires import NATIVE, Dialect

SESSION_MS, ACT_MS = 6_000, 150


class Watcher(Protocol):
    """Takes every request."""

    def sent(self, message: Any, link: Link, now_ms: int) -> None: ...


WatcherT = TypeVar("WatcherT", bound=Watcher)


class NativeMember(Generic[WatcherT]):
    """Acts every 30 to 270 ms: reads, gives up on a late answer, sends the next request.

    `session_from_ms` is when the last heartbeat that was answered was sent: from then the member's session runs by its
    own clock.
    """

    give_up_ms = 3_000
    """Wait for an answer that long, then close the connection."""

    def __init__(
        self,
        name: str,
        instance_id: str | None,
        clock: Clock,
        random: Random,
        open_link: Callable[..., Link | None],
        watcher: WatcherT,
        seen: Seen,
        dialect: Dialect = NATIVE,
    ) -> None:
        self.name, self.instance_id, self.dialect = name, instance_id, dialect
        self.running, self.stalled_until_ms = True, -1
        self.syncs_after_ms, self.tamper, self.dies_as_leader = -1, None, False  # what other members have
        self.link: Link | None = None
        self.last_request: Message | None = None
        self.session_from_ms = -SESSION_MS
        self._clock, self._random, self._open_link = clock, random, open_link
        self._watcher, self._seen = watcher, seen
        self._client = dialect.connect(name)
        self._asked: tuple[int, Message, int] | None = None
        self._leaving = False
        self._unread: list[bytes] = []

    @property
    def is_alive(self) -> bool:
        """Return true if the member's session holds by its own clock."""
        return self.running and self._clock.now_ms - self.session_from_ms < SESSION_MS

    @property
    def is_staying(self) -> bool:
        """Return true if it runs and was not told to leave."""
        return self.running and not self._leaving

    def start(self) -> None:
        self._later()

    def leave(self) -> None:
        self._leaving = True

    def kill(self) -> None:
        self.running = False
        if self.link is not None and self._random.random() < 0.5:
            self.link.cut(self._clock, self._random)

    # --- what a kind of member is ---

    def _next(self) -> Message | None:
        """Return the next request, if one is due."""
        raise NotImplementedError

    def _drop_if_over(self) -> None:
        """Drop what is owned if the session is over by the member's clock."""
        raise NotImplementedError

    def _heard(self, message: Message, reply: Any, asked_ms: int) -> None:
        raise NotImplementedError

    def _lost(self, message: Message | None) -> None:
        """Forget a request whose connection is gone; it may have been carried out."""

    def _pushed(self) -> None:
        """Take the daemon's push that there is news."""

    # --- acting ---

    def _later(self) -> None:
        self._clock.after(int(ACT_MS * (0.2 + 1.6 * self._random.random())), self._act)

    def _act(self) -> None:
        if not self.running:
            return
        if self._clock.now_ms >= self.stalled_until_ms:
            self._read_on()
            self._drop_if_over()
            late = self._asked is not None and self._clock.now_ms - self._asked[2] > self.give_up_ms
            if late and self.link is not None:
                self.link.close_by_client()
                self._lost_link()
            if self._asked is None and self.running:
                message = self._next()
                if message is not None:
                    self._ask(message)
        self._later()

    # --- the wire ---

    def _ask(self, message: Message) -> None:
        if self.link is None:
            self.link = self._open_link(self, self._received, self._lost_link)
            if self.link is None:
                return
        self.last_request = message
        number, data = self._client.encode_request(message)
        self._asked = number, message, self._clock.now_ms
        self.link.to_daemon.send(data)
        self._watcher.sent(message, self.link, self._clock.now_ms)

    def _lost_link(self) -> None:
        self.link, self._unread = None, []
        self._client = self.dialect.connect(self.name)
        asked, self._asked = self._asked, None
        self._lost(None if asked is None else asked[1])

    def _received(self, data: bytes) -> None:
        if not self.running:
            return
        if self._clock.now_ms < self.stalled_until_ms:
            self._unread.append(data)
        else:
            self._read_on()
            self._hear(data)

    def _read_on(self) -> None:
        unread, self._unread = self._unread, []
        for data in unread:
            if self.running:
                self._hear(data)

    def _hear(self, data: bytes) -> None:
        for said in self._client.receive_data(data):
            if not isinstance(said, NativeAnswer):
                self._seen.add(f"pushes: {type(said.message).__name__}")
                self._pushed()
            elif self._asked is not None and said.number == self._asked[0]:
                _number, message, asked_ms = self._asked
                self._asked = None
                self._heard(message, said.reply, asked_ms)
