"""Regular expressions over topics' names, in RE2's syntax (docs/spec/consumer-group-protocol.md#6.1).

RE2 takes time linear in the name's length and bounded memory, so a client's expression can never stall a server. There
is no look-around and no back reference, as in Kafka, which uses RE2/J.
"""

import re
from typing import Any, Final

import re2

MOST_MEMORY_BYTES: Final = 1 << 20
"""Memory of one compiled expression; one that needs more is refused."""
_ANY_BYTE: Final = re.compile(r"\\(?:Q.*?(?:\\E|$)|(?P<any_byte>C)|.)", re.DOTALL)
"""Escape sequence, or a quoted part."""


class InvalidPattern(Exception):
    """An expression that does not compile; the message says why. Answered with INVALID_REGULAR_EXPRESSION."""


def compile_regular_expression(text: str) -> Any:
    """Return the compiled expression, of RE2's type. Raises InvalidPattern."""
    options = re2.Options()
    options.log_errors = False
    options.max_mem = MOST_MEMORY_BYTES
    options.never_capture = True
    try:
        compiled = re2.compile(text, options)
    except re2.error as error:
        reason = error.args[0]
        raise InvalidPattern(reason.decode(errors="replace") if isinstance(reason, bytes) else str(reason)) from None
    except UnicodeEncodeError:
        raise InvalidPattern("not UTF-8") from None
    if any(found["any_byte"] for found in _ANY_BYTE.finditer(text)):
        raise InvalidPattern(r"invalid escape sequence: \C")  # known to RE2, and not to RE2/J
    return compiled
