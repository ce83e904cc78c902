"""Prints the permissions that requests need: `make table` writes them into docs/security.md, and a test compares the
two.

`python -m coordinator.tools.access_page` reads docs/security.md and writes it with the part between its marks replaced.
"""

import sys
from collections.abc import Iterator
from typing import Final

from coordinator.handlers.table import APIS

_BEGIN: Final = "<!-- printed by `make table`: access -->"
_END: Final = "<!-- end -->"


def fill(page: str) -> str:
    """Return the page with the part between the marks replaced. Raises ValueError for a page without the marks."""
    before, begin, rest = page.partition(_BEGIN)
    _, end, after = rest.partition(_END)
    if not end:
        raise ValueError("the page has no marks for the permissions")
    return "\n".join((before + begin, "", *_lines(), "", end + after))


def _lines() -> Iterator[str]:
    yield "| requests | need |"
    yield "|---|---|"
    requests: dict[str, list[str]] = {}
    for api in APIS:
        if api.access is not None:
            requests.setdefault(api.access.title, []).append(api.message.__name__)
    for title, names in requests.items():
        yield f"| {', '.join(names)} | {title} |"


if __name__ == "__main__":
    sys.stdout.write(fill(sys.stdin.read()))
