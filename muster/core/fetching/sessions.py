"""The client's half of incremental fetch sessions, one for each node (docs/spec/consumer-client.md#C, KIP-227).

A node remembers the partitions of a session, so that a request has only changes, and a reply only partitions with news.
The epoch counts the requests of a session, so that both sides notice a lost or repeated one.
"""

from collections.abc import Collection, Mapping

import msgspec

from membership.topic_partition import TopicPartition
from protocol.errors import ErrorCode
from protocol.messages.data import FetchPartition

NO_SESSION = 0
FULL = 0
FINAL = -1
_MAX_EPOCH = 2**31 - 1


class SessionRequest(msgspec.Struct, frozen=True):
    """The contents of the next request to a node, with `partitions` in the order to fetch."""

    session_id: int
    epoch: int
    partitions: Mapping[TopicPartition, FetchPartition]
    forgotten: tuple[TopicPartition, ...] = ()


class FetchSession:
    """One node's fetch session of this client, if there is one. Without `is_wanted` every request is a full one that
    declines a session. `failures` counts unusable replies since the last good one.
    """

    def __init__(self, *, is_wanted: bool = True) -> None:
        self._is_wanted = is_wanted
        self._id = NO_SESSION
        self._epoch = FULL
        self._partitions: dict[TopicPartition, FetchPartition] = {}
        self.failures = 0

    @property
    def partitions(self) -> Mapping[TopicPartition, FetchPartition]:
        """All partitions of the last request, sent or implied by the session."""
        return self._partitions

    def request(self, wanted: Mapping[TopicPartition, FetchPartition]) -> SessionRequest:
        """Return the request for exactly the partitions in `wanted`."""
        if not self._is_wanted:
            self._partitions = dict(wanted)
            return SessionRequest(NO_SESSION, FINAL, wanted)
        if self._epoch == FULL:
            self._partitions = dict(wanted)
            return SessionRequest(self._id, FULL, wanted)
        changed = {one: asked for one, asked in wanted.items() if self._partitions.get(one) != asked}
        forgotten = tuple(one for one in self._partitions if one not in wanted)
        for one in (*forgotten, *changed):
            self._partitions.pop(one, None)
        self._partitions.update(changed)
        return SessionRequest(self._id, self._epoch, changed, forgotten)

    def on_reply(
        self, error_code: ErrorCode, session_id: int, answered: Collection[TopicPartition], throttle_time_ms: int = 0
    ) -> bool:
        """Handle the reply to the last request; return false if its partitions must not be used."""
        is_sound = self._take_in(error_code, session_id, answered, throttle_time_ms)
        self.failures = 0 if is_sound else self.failures + 1
        return is_sound

    def failed(self) -> None:
        """Note that no reply will come."""
        self._epoch = FULL
        self.failures += 1

    def final_request(self) -> SessionRequest | None:
        """Return the request that ends the session at the node; None if it has none. The session counts as ended."""
        session_id, self._id, self._epoch, self._partitions = self._id, NO_SESSION, FULL, {}
        return SessionRequest(session_id, FINAL, {}) if session_id != NO_SESSION else None

    def _take_in(
        self, error_code: ErrorCode, session_id: int, answered: Collection[TopicPartition], throttle_time_ms: int
    ) -> bool:
        is_full = self._epoch == FULL or not self._is_wanted
        if error_code != ErrorCode.NONE:
            if error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND:
                self._id = NO_SESSION
            self._epoch = FULL
            return False
        has_extra = any(one not in self._partitions for one in answered)
        if is_full and (has_extra or len(answered) != len(self._partitions)):
            self._id, self._epoch = NO_SESSION, FULL
            return bool(not answered and throttle_time_ms > 0)
        if has_extra:
            self._epoch = FULL
            return False
        if session_id == NO_SESSION or not self._is_wanted:
            self._id, self._epoch = NO_SESSION, FULL
        else:
            self._id = session_id
            self._epoch = 1 if is_full or self._epoch == _MAX_EPOCH else self._epoch + 1
        return True
