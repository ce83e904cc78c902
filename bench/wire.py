"""The plainest client of the native protocol: a blocking socket and msgpack. For what is not timed, and for tests."""

import socket
import time
from collections import deque
from types import TracebackType
from typing import Any, Self

import msgpack

from bench.scram import MECHANISM, SaltedLogin


class Refusal(Exception):
    """The server answered with an error."""

    def __init__(self, code: int, name: str, text: str, details: dict[str, Any]) -> None:
        super().__init__(f"{name} ({code}): {text}")
        self.code = code
        self.details = details


class Wire:
    """One connection. Answers may overtake each other; notifications wait in `pushes`."""

    def __init__(self, address: tuple[str, int], timeout_s: float = 30.0) -> None:
        self.socket = socket.create_connection(address, timeout_s)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.pushes: deque[tuple[str, dict[str, Any]]] = deque()
        self._unpacker = msgpack.Unpacker()
        self._answers: dict[int, tuple[Any, Any]] = {}
        self._next_number = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        self.socket.close()

    def send(self, method: str, **params: Any) -> int:
        """Ask; the number to `answer` with."""
        self._next_number += 1
        self.socket.sendall(msgpack.packb([0, self._next_number, method, [params]]))
        return self._next_number

    def answer(self, number: int) -> Any:
        """The result of a request sent before. Raises `Refusal`, or `OSError` when the connection ends."""
        while number not in self._answers:
            self._receive()
        error, result = self._answers.pop(number)
        if error is not None:
            raise Refusal(*error)
        return result

    def call(self, method: str, **params: Any) -> Any:
        return self.answer(self.send(method, **params))

    def log_in(self, username: str, salted_password: bytes, nonce: str) -> None:
        """Log in by SCRAM. Raises `Refusal`."""
        login = SaltedLogin(username, salted_password, nonce)
        challenge = self.call("Login", mechanism=MECHANISM, auth_bytes=login.first())
        self.call("Login", mechanism=MECHANISM, auth_bytes=login.final(challenge["auth_bytes"]))

    def drain(self, seconds: float) -> None:
        """Take in what comes within this time, notifications above all."""
        ends, before = time.monotonic() + seconds, self.socket.gettimeout()
        try:
            while (left := ends - time.monotonic()) > 0:
                self.socket.settimeout(left)
                self._receive()
        except TimeoutError:
            pass
        finally:
            self.socket.settimeout(before)

    def _receive(self) -> None:
        data = self.socket.recv(1 << 20)
        if not data:
            raise ConnectionResetError("the server closed the connection")
        self._unpacker.feed(data)
        for value in self._unpacker:
            if value[0] == 2:
                self.pushes.append((value[1], value[2][0]))
            else:
                self._answers[value[1]] = (value[2], value[3])


class WireMember:
    """A member of a group by hand: it joins, syncs, and rejoins when it is told to."""

    def __init__(
        self, wire: Wire, group_id: str, *, session_timeout_ms: int = 60_000, rebalance_timeout_ms: int = 60_000
    ) -> None:
        self.wire = wire
        self.group_id = group_id
        self.session_timeout_ms = session_timeout_ms
        self.rebalance_timeout_ms = rebalance_timeout_ms
        self.member_id = ""
        self.generation_id = -1

    def join(self) -> dict[str, Any]:
        """Join until a generation stands; the join's answer. Others must rejoin meanwhile, so it may take long."""
        while True:
            try:
                joined: dict[str, Any] = self.wire.call("JoinGroup", **self.join_params())
                self.member_id, self.generation_id = joined["member_id"], joined["generation_id"]
                self.wire.call("SyncGroup", **self.sync_params(joined))
            except Refusal as refusal:
                if refusal.code == 79:  # MEMBER_ID_REQUIRED
                    self.member_id = refusal.details["member_id"]
                elif refusal.code == 25:  # UNKNOWN_MEMBER_ID
                    self.member_id = ""
                elif refusal.code not in (14, 22, 27):  # loading, an old generation, a rebalance
                    raise
            else:
                return joined

    def join_params(self) -> dict[str, Any]:
        return {
            "group_id": self.group_id,
            "session_timeout_ms": self.session_timeout_ms,
            "rebalance_timeout_ms": self.rebalance_timeout_ms,
            "member_id": self.member_id,
            "protocol_type": "consumer",
            "protocols": [{"name": "range", "metadata": b""}],
            "wants_member_id_first": False,
        }

    def sync_params(self, joined: dict[str, Any]) -> dict[str, Any]:
        assignments = [{"member_id": member["member_id"], "assignment": b"all"} for member in joined["members"]]
        return {
            "group_id": self.group_id,
            "generation_id": joined["generation_id"],
            "member_id": joined["member_id"],
            "assignments": assignments,
        }

    def heartbeat(self) -> None:
        self.wire.call("Heartbeat", group_id=self.group_id, generation_id=self.generation_id, member_id=self.member_id)
