"""Judgement of regular expressions, the same as the coordinator's, in Kafka's words."""

from typing import Final

from protocol.regular_expression import InvalidPattern, compile_regular_expression

_BEHIND: Final = ("(?<!", "(?<=")
_KAFKAS: Final = {
    "missing )": "missing closing )",
    "missing ]": "missing closing ]",
    "no argument for repetition operator": "missing argument to repetition operator",
    "bad repetition operator": "invalid nested repetition operator",
    "invalid repetition size": "invalid repeat count",
    "invalid perl operator": "invalid or unsupported Perl syntax",
    "invalid named capture group": "invalid named capture",
    "not UTF-8": "invalid UTF-8",
    "trailing \\": "trailing backslash at end of expression",
}
"""Descriptions of `protocol.regular_expression`, and those of RE2/J, which Kafka uses."""


def why_invalid(text: str) -> str | None:
    """Return why a coordinator refuses the expression, in Kafka's words; None if it does not."""
    try:
        compile_regular_expression(text)
    except InvalidPattern as invalid:
        return _in_kafkas_words(str(invalid))
    return None


def _in_kafkas_words(said: str) -> str:
    what, _, where = said.partition(": ")
    if where in _BEHIND:
        return "invalid named capture"
    return _KAFKAS.get(what, what)
