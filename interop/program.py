"""For programs written in Python: arguments in, one line out, as the README asks of every program."""

import argparse
import base64
import json
import sys
import threading
import time
import traceback
import urllib.request
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import NamedTuple


class Options(NamedTuple):
    bootstrap: str
    topic: str
    group: str
    folder: str = ""
    """Data folder of a musterd, for `offsets_log` alone."""


class Unlike(Exception):
    """Something was seen that should not have been; the sentence says what."""


def answer(stories: Mapping[str, Callable[[Options], str]]) -> int:
    """Plays the story that the arguments name and prints the line that says how it went; the exit code."""
    parser = argparse.ArgumentParser()
    parser.add_argument("capability", choices=stories)
    for name in Options._fields:
        parser.add_argument(f"--{name}", required=name not in Options._field_defaults, default="")
    given = parser.parse_args()
    try:
        ok, detail = True, stories[given.capability](Options(given.bootstrap, given.topic, given.group, given.folder))
    except Exception as error:  # noqa: BLE001 - whatever it was, the harness is to hear of it
        traceback.print_exc()
        ok, detail = False, f"{type(error).__name__}: {error}"
    print(json.dumps({"ok": ok, "detail": detail}))
    return 0


def member_options(assignors: Iterable[str]) -> argparse.Namespace:
    """Parse the arguments of the verb `member`, for a client with these assignors."""
    parser = argparse.ArgumentParser()
    parser.add_argument("verb", choices=("member",))
    for name in ("bootstrap", "topic", "group", "instance", "security"):
        parser.add_argument(f"--{name}")
    parser.add_argument("--assignor", choices=tuple(assignors))
    for name in ("limit", "session-timeout-ms"):
        parser.add_argument(f"--{name}", type=int)
    return parser.parse_args()


def tell(event: Mapping[str, object]) -> None:
    """Print an event of a member, a line of JSON, in one piece: threads may tell at once."""
    print(json.dumps(event) + "\n", end="", flush=True)


def told_to_copy() -> argparse.Namespace:
    """Parse the arguments of the verb `transform` of a client that takes a folder."""
    parser = argparse.ArgumentParser()
    for name in ("bootstrap", "group", "topic", "to", "folder"):
        parser.add_argument(f"--{name}", required=True)
    return parser.parse_args(sys.argv[2:])


def told_to_stop() -> threading.Event:
    """Return an event that is set once standard input says `stop`."""
    told = threading.Event()

    def listen() -> None:
        for line in sys.stdin:
            if line.strip() == "stop":
                told.set()

    threading.Thread(target=listen, daemon=True).start()
    return told


def check(holds: object, what: str) -> None:
    if not holds:
        raise Unlike(what)


def until(holds: Callable[[], bool], what: str, timeout_s: float = 20.0) -> None:
    """Returns once it holds; raises Unlike after the timeout."""
    ends = time.monotonic() + timeout_s
    while not holds():
        check(time.monotonic() < ends, f"{what}: not within {timeout_s:.0f} s")
        time.sleep(0.2)


TOKEN_ENDPOINT = "sasl.oauthbearer.token.endpoint.url"
OAUTHBEARER = "OAUTHBEARER"


def security(path: str | None) -> dict[str, str]:
    """Return the settings of a file with a `key=value` on each line, by librdkafka's names; none without a file."""
    lines = Path(path).read_text().splitlines() if path else []
    return {key: value for key, _, value in (line.partition("=") for line in lines)}


def fetch_token(settings: Mapping[str, str]) -> str:
    """Return a token of the identity provider, for clients that leave that to the application."""
    name = f"{settings['sasl.username']}:{settings['sasl.password']}"
    headers = {"Authorization": f"Basic {base64.b64encode(name.encode()).decode()}"}
    request = urllib.request.Request(settings[TOKEN_ENDPOINT], b"grant_type=client_credentials", headers)
    with urllib.request.urlopen(request, timeout=10) as answer:
        return str(json.load(answer)["access_token"])


def python_settings(given: Mapping[str, str]) -> dict[str, str]:
    """Return the settings of a login by the names of aiokafka and kafka-python, without those of TLS and tokens."""
    names = {
        "security.protocol": "security_protocol",
        "sasl.mechanism": "sasl_mechanism",
        "sasl.username": "sasl_plain_username",
        "sasl.password": "sasl_plain_password",
    }
    is_by_token = given.get("sasl.mechanism") == OAUTHBEARER
    return {name: given[key] for key, name in names.items() if key in given and not (is_by_token and "plain" in name)}
