"""Prints the table of APIs: `make wire` writes it into docs/kafka.md, and a test compares the two.

`python -m protocol.kafka.page` reads docs/kafka.md and prints it with the part between its marks replaced.
"""

import sys
from collections.abc import Iterator
from typing import Final

from protocol.apis import WIRE_APIS, WireApi
from protocol.kafka.fields import NEWEST
from protocol.kafka.quirks import OLDEST_PRODUCE
from protocol.messages.data import Produce

_BEGIN: Final = "<!-- printed by `make wire`: apis -->"
_END: Final = "<!-- end -->"


def fill(page: str) -> str:
    """Return the page with the part between the marks replaced. Raises ValueError for a page without the marks."""
    before, begin, rest = page.partition(_BEGIN)
    _, end, after = rest.partition(_END)
    if not end:
        raise ValueError("the page has no marks for the APIs")
    return "\n".join((before + begin, "", *_lines(), "", end + after))


def _lines() -> Iterator[str]:
    yield "| key | API | versions | flexible from |"
    yield "|---|---|---|---|"
    for api in WIRE_APIS.values():
        if api.advertised:
            yield f"| {api.key} | {api.message.__name__} | {_versions(api)} | {_flexible(api)} |"


def _versions(api: WireApi) -> str:
    oldest, newest = api.request.oldest, api.request.newest
    if api.message is Produce:
        return f"{oldest} to {newest}; below {OLDEST_PRODUCE} refused"
    return str(newest) if oldest == newest else f"{oldest} to {newest}"


def _flexible(api: WireApi) -> str:
    return "never" if api.request.flexible == NEWEST else str(api.request.flexible)


if __name__ == "__main__":
    sys.stdout.write(fill(sys.stdin.read()))
