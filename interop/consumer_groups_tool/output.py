"""Output of a tool, without what differs by nature, and the differences that are meant."""

import difflib
import itertools
import re
from collections.abc import Sequence
from typing import Final

import msgspec

from interop.consumer_groups_tool.invocations import Invocation

_TRACE: Final = re.compile(
    r"\s*at |\s*\.\.\. \d+ more|(\s*(Suppressed|Caused by): )?[a-z]+(\.[\w$]+)+(: |$)|\[[^]]+\] ERROR "
)
"""Line of Java's stack trace, or of its client's log, which are about a message that is on standard output."""
_THREAD: Final = re.compile(r'Exception in thread "main" [\w.]+: ')
_LOGGED: Final = re.compile(r"^\[[^]]+\] (WARN .*) \([\w.]+\)$")
_CHOICE: Final = re.compile(r"\[[\w-]+\](?:, \[[\w-]+\])+")
_NESTED: Final = re.compile(r"\[\[.*\]\]$")
_VALID: Final = re.compile(r"(?<= are: ).*")
"""Choices in the order of a hash, which differs from run to run."""
_HELP: Final = re.compile(r"Option +Description|usage: ")
_EXIT: Final = "exit code: Kafka 0, Muster 1"
_REFUSED: Final = re.compile("Error: | is invalid: ")
"""Text on standard output where something was refused."""
_JUDGED: Final = r"[-+] The regular expression "
MEANT: Final[Sequence[tuple[str, str, str]]] = (
    ("", _EXIT, "a refusal ends with 1, so that a script notices it"),
    (
        r"--timeout 1500$",
        r"[-+] Error: Executing consumer group command failed due to ",
        "Java's client names its calls",
    ),
    (r"'closed\)'$", _JUDGED, "Kafka's reason is `regexp/syntax: internal error`"),
    (r"'\(\(a\{100\}\)\{100\}\)\{100\}'$", _JUDGED, "a musterd refuses an expression of this size, as RE2 does"),
    (r"'\(\?P<x>a\)\(\?P<x>b\)'$", _JUDGED, "a musterd takes two groups of one name, which it does not capture"),
)
"""Patterns of an invocation and of its differing lines, and their reason."""


class Said(msgspec.Struct, frozen=True):
    """Standard output, standard error, exit code and duration of one tool; `left`: what it left of its own group."""

    out: str
    err: str
    code: int
    seconds: float = 0.0
    left: str = ""


class Comparison(msgspec.Struct, frozen=True):
    """An invocation with what both tools said."""

    invocation: Invocation
    kafka: Said
    muster: Said

    @property
    def is_same_but_for_the_code(self) -> bool:
        """True if both printed the same, and only a refusal's exit code differs, which is meant."""
        return self.differences == [_EXIT] and bool(reason_of(self))

    @property
    def differences(self) -> list[str]:
        """Lines that only one of the tools printed, then differing codes and effects; empty if there are none."""
        theirs, ours = (lines_of(said, self.invocation) for said in (self.kafka, self.muster))
        found = [line for line in difflib.ndiff(theirs, ours) if line[0] in "-+"]
        if self.kafka.code != self.muster.code:
            found.append(f"exit code: Kafka {self.kafka.code}, Muster {self.muster.code}")
        if self.kafka.left != self.muster.left:
            found.append(f"left: Kafka {self.kafka.left}, Muster {self.muster.left}")
        return found


def lines_of(said: Said, invocation: Invocation) -> list[str]:
    """Return the lines to compare: standard output as it is, and the sentences of standard error after `2> `."""
    out = said.out.split("\n")
    if not invocation.is_ordered:
        out = sorted(out)
    return [*out, *(f"2> {line}" for line in _sentences(said.err))]


def _sentences(text: str) -> list[str]:
    """Return the sentences without stack traces, help, and the times of log lines."""
    found = []
    for line in itertools.takewhile(lambda line: not _HELP.match(line), text.splitlines()):
        sentence = _LOGGED.sub(r"\1", _THREAD.sub("", line))
        if sentence and not _TRACE.match(sentence):
            ordered = _VALID.sub(_sorted_choice, _CHOICE.sub(_sorted_choice, sentence))
            found.append(_NESTED.sub("[...]", ordered))
    return sorted(found)


def _sorted_choice(found: re.Match[str]) -> str:
    return ", ".join(sorted(found[0].split(", ")))


def reason_of(comparison: Comparison) -> str:
    """Return the reasons why the differences are meant; empty if one of them is not."""
    reasons: dict[str, None] = {}
    for line in comparison.differences:
        meant = [
            reason
            for invocation, pattern, reason in MEANT
            if re.search(invocation, comparison.invocation.text) and re.match(pattern, line)
            if line != _EXIT or _REFUSED.search(comparison.muster.out)
        ]
        if not meant:
            return ""
        reasons[meant[0]] = None
    return "; ".join(reasons)
