"""A core whose requests are timed."""

from typing import Protocol

from membership.events import CallFailed, Departed, MemberEffect, MemberEvent, Replied, SendRequest
from muster.net.cores import DrivenCore
from protocol.messages import Message


class Observer(Protocol):
    """Observer of a core's requests."""

    @property
    def kinds(self) -> frozenset[type[Message]]:
        """The types of requests to observe."""

    def on_request(self, message: Message, now_ms: int) -> None:
        """Called when a request of one of the types is sent."""

    def on_reply(self, kind: type[Message], reply: Message | None, took_ms: int, now_ms: int) -> None:
        """Called with the reply; None if there will be none."""

    def on_effect(self, effect: MemberEffect) -> None:
        """Called with any other effect."""


class MeasuredCore:
    """Steps a core, and reports requests and replies to an observer, unknown to the core."""

    def __init__(self, core: DrivenCore, observer: Observer) -> None:
        self._core = core
        self._observer = observer
        self._pending: dict[int, tuple[type[Message], int]] = {}

    def step(self, event: MemberEvent, now_ms: int) -> list[MemberEffect]:
        if isinstance(event, Replied | CallFailed | Departed):
            pending = self._pending.pop(event.call, None)
            if pending is not None:
                kind, sent_ms = pending
                reply = event.reply if isinstance(event, Replied) else None
                self._observer.on_reply(kind, reply, max(now_ms - sent_ms, 0), now_ms)
        effects = self._core.step(event, now_ms)
        for effect in effects:
            if not isinstance(effect, SendRequest):
                self._observer.on_effect(effect)
            elif (kind := type(effect.message)) in self._observer.kinds:
                self._pending[effect.call] = (kind, now_ms)
                self._observer.on_request(effect.message, now_ms)
        return effects

    @property
    def next_deadline_ms(self) -> int | None:
        return self._core.next_deadline_ms
