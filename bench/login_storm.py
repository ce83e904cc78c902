"""Attempts logins at a rate, whatever becomes of them: `python -m bench.login_storm HOST PORT MECHANISM RATE`. Each is
a connection of its own. It says `begun` after a second, goes on until its standard input ends, and says then what the
logins since came to, a second, as JSON. Those that have not ended are given up: their clients are gone."""

import asyncio
import hashlib
import json
import sys
import time
from collections import Counter
from typing import Any

import msgpack
import uvloop

from bench import scram

USER = "crowd"
SECRET = "what the crowd knows"
SALTED = hashlib.pbkdf2_hmac("sha256", SECRET.encode(), scram.SALT, scram.ITERATIONS)
_TICK_S = 0.001
"""Time between looks: logins come one by one, and not ten at a time, of which a heartbeat would wait for all."""
_WAIT_S = 30.0
_BEFORE_S = 1.0
"""Time before the logins count: they wait already."""


class Storm:
    """Logins of one user by one mechanism."""

    def __init__(self, host: str, port: int, mechanism: str) -> None:
        self._address = host, port
        self._mechanism = mechanism
        self.ends: Counter[str] = Counter()
        self._under_way: set[asyncio.Task[None]] = set()

    async def run(self, rate: float) -> dict[str, float]:
        """Begin so many a second until the end of standard input; return what they came to, a second."""
        async with asyncio.TaskGroup() as attempts:
            begins = attempts.create_task(self._begin(rate, attempts))
            await asyncio.sleep(_BEFORE_S)
            self.ends.clear()
            began = time.monotonic()
            print("begun", flush=True)
            await asyncio.to_thread(sys.stdin.read)
            seconds = time.monotonic() - began
            found = {name: self.ends[name] / seconds for name in ("attempted", "let_in", "refused")}
            begins.cancel()
            for attempt in self._under_way:
                attempt.cancel()
        return found

    async def _begin(self, rate: float, attempts: asyncio.TaskGroup) -> None:
        began, count = time.monotonic(), 0
        while True:
            while count < (time.monotonic() - began) * rate:
                attempt = attempts.create_task(self._attempt(count))
                self._under_way.add(attempt)
                attempt.add_done_callback(self._under_way.discard)
                count += 1
                self.ends["attempted"] += 1
            await asyncio.sleep(_TICK_S)

    async def _attempt(self, number: int) -> None:
        try:
            async with asyncio.timeout(_WAIT_S):
                reader, writer = await asyncio.open_connection(*self._address)
                try:
                    is_in = await self._log_in(number, reader, writer)
                finally:
                    writer.close()
        except (OSError, TimeoutError, asyncio.IncompleteReadError):
            is_in = False
        self.ends["let_in" if is_in else "refused"] += 1

    async def _log_in(self, number: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        if self._mechanism == "PLAIN":
            return bool((await self._step(reader, writer, f"\0{USER}\0{SECRET}".encode())).get("done"))
        login = scram.SaltedLogin(USER, SALTED, f"storm{number}")
        challenge = await self._step(reader, writer, login.first())
        return bool((await self._step(reader, writer, login.final(challenge["auth_bytes"]))).get("done"))

    async def _step(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, token: bytes) -> dict[str, Any]:
        writer.write(msgpack.packb([0, 1, "Login", [{"mechanism": self._mechanism, "auth_bytes": token}]]))
        unpacker = msgpack.Unpacker()
        while data := await reader.read(1 << 16):
            unpacker.feed(data)
            for value in unpacker:
                return dict(value[3] or {})
        raise ConnectionResetError("the server closed the connection")


def main(arguments: list[str]) -> None:
    host, port, mechanism, rate = arguments
    print(json.dumps(uvloop.run(Storm(host, int(port), mechanism).run(float(rate)))))


if __name__ == "__main__":
    main(sys.argv[1:])
