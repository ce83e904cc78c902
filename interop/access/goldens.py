"""Answers as a file that people can read: under the title of each probe the answers, and the states that give them."""

from collections.abc import Mapping
from pathlib import Path
from textwrap import TextWrapper
from typing import Final

from interop.access.states import STATES

FILE: Final = Path(__file__).parent / "apache-kafka-4.3.1.txt"
_HEAD: Final = "# Answers of Apache Kafka 4.3.1 with StandardAuthorizer; made by `python -m interop.access --write`."
_INDENT: Final = "    "
_BETWEEN: Final = "; "
_ELSE: Final = "in all other states"
_WRAPPED: Final = TextWrapper(120, initial_indent=_INDENT * 2, subsequent_indent=_INDENT * 2)


def text(answers: Mapping[str, Mapping[str, str]]) -> str:
    """Return the file's text."""
    lines = [_HEAD]
    for title, by_state in answers.items():
        lines += ["", title]
        states: dict[str, list[str]] = {}
        for state, answer in by_state.items():
            states.setdefault(answer, []).append(state)
        *others, most = sorted(states, key=lambda answer: len(states[answer]))
        for answer in others:
            lines.append(f"{_INDENT}{answer}")
            lines += _WRAPPED.wrap(_BETWEEN.join(states[answer]))
        lines += [f"{_INDENT}{most}", f"{_INDENT * 2}{_ELSE}"]
    return "\n".join([*lines, ""])


def read(given: str) -> dict[str, dict[str, str]]:
    """Return the answers of a file's text, by the probe's title, then by state."""
    answers: dict[str, dict[str, str]] = {}
    title, answer, states = "", "", ""
    for line in [*given.splitlines(), ""]:
        if line.startswith(_INDENT * 2):
            states = f"{states} {line.strip()}".strip()
            continue
        if states:
            known = answers.setdefault(title, {})
            named = [one for one in STATES if one not in known] if states == _ELSE else states.split(_BETWEEN)
            known.update(dict.fromkeys(named, answer))
            states = ""
        if line.startswith(_INDENT):
            answer = line.strip()
        elif line:
            title = line
    return answers
