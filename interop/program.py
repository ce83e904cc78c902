"""For programs written in Python: arguments in, one line out, as the README asks of every program."""

import argparse
import json
import time
import traceback
from collections.abc import Callable, Mapping
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


def check(holds: object, what: str) -> None:
    if not holds:
        raise Unlike(what)


def until(holds: Callable[[], bool], what: str, timeout_s: float = 20.0) -> None:
    """Returns once it holds; raises Unlike after the timeout."""
    ends = time.monotonic() + timeout_s
    while not holds():
        check(time.monotonic() < ends, f"{what}: not within {timeout_s:.0f} s")
        time.sleep(0.2)
