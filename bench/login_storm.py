"""Attempts logins at a rate, whatever becomes of them: `python -m bench.login_storm HOST PORT MECHANISM RATE SECONDS`.
Each is a connection of its own. The last line says what they came to, a second, as JSON."""

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
_TICK_S = 0.01
_WAIT_S = 30.0


class Storm:
    """Logins of one user by one mechanism."""

    def __init__(self, host: str, port: int, mechanism: str) -> None:
        self._address = host, port
        self._mechanism = mechanism
        self.ends: Counter[str] = Counter()

    async def run(self, rate: float, seconds: float) -> None:
        """Begin so many a second, for so long; what has not ended then is given up."""
        began, count = time.monotonic(), 0
        tasks: set[asyncio.Task[None]] = set()
        while (passed := time.monotonic() - began) < seconds:
            while count < passed * rate:
                task = asyncio.create_task(self._attempt(count))
                tasks.add(task)
                task.add_done_callback(tasks.discard)
                count += 1
            await asyncio.sleep(_TICK_S)
        self.ends["attempted"] = count
        for task in tasks:
            task.cancel()

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
    host, port, mechanism, rate, seconds = arguments
    storm = Storm(host, int(port), mechanism)
    uvloop.run(storm.run(float(rate), float(seconds)))
    print(json.dumps({name: storm.ends[name] / float(seconds) for name in ("attempted", "let_in", "refused")}))


if __name__ == "__main__":
    main(sys.argv[1:])
