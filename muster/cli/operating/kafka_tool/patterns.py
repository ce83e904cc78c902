"""Judgement of regular expressions, the same as the coordinator's: RE2's syntax, with its limits."""

import re
from typing import Final

import re2

_MOST_MEMORY_BYTES: Final = 1 << 20
"""Memory of a compiled expression in the coordinator, which refuses those that need more."""
_ANY_BYTE: Final = re.compile(r"\\(?:Q.*?(?:\\E|$)|(?P<any_byte>C)|.)", re.DOTALL)
"""Escape sequence, or a quoted part."""
_BEHIND: Final = ("(?<!", "(?<=")
_KAFKAS: Final = {
    "missing )": "missing closing )",
    "missing ]": "missing closing ]",
    "no argument for repetition operator": "missing argument to repetition operator",
    "bad repetition operator": "invalid nested repetition operator",
    "invalid repetition size": "invalid repeat count",
    "invalid perl operator": "invalid or unsupported Perl syntax",
    "invalid named capture group": "invalid named capture",
    "trailing \\": "trailing backslash at end of expression",
}
"""Descriptions of RE2, and those of RE2/J, which Kafka uses."""


def why_invalid(text: str) -> str | None:
    """Return why a coordinator refuses the expression, in Kafka's words; None if it does not."""
    options = re2.Options()
    options.log_errors = False
    options.max_mem = _MOST_MEMORY_BYTES
    options.never_capture = True
    try:
        re2.compile(text, options)
    except re2.error as error:
        said = error.args[0]
        return _in_kafkas_words(said.decode(errors="replace") if isinstance(said, bytes) else str(said))
    except UnicodeEncodeError:
        return "invalid UTF-8"
    if any(found["any_byte"] for found in _ANY_BYTE.finditer(text)):
        return "invalid escape sequence"  # known to RE2, and not to RE2/J
    return None


def _in_kafkas_words(said: str) -> str:
    what, _, where = said.partition(": ")
    if where in _BEHIND:
        return "invalid named capture"
    return _KAFKAS.get(what, what)
