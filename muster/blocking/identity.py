"""The identity of a client-balanced consumer."""

import os
import secrets
import socket
import time
from typing import Final

CLIENT_VERSION: Final = "0.1.0"

_MOST = 1_024


def new_consumer_id(group_id: str) -> str:
    """Return a unique id, made of group, machine, process, clock, a random number, and the kind of consumer."""
    made = f"{socket.gethostname()}-{os.getpid()}-{time.time_ns() // 1_000_000}-{secrets.token_hex(4)}"
    end = f"_{made}-Balance-Pull-{CLIENT_VERSION}"
    return group_id[: _MOST - len(end)] + end
