"""Parts of the cluster that are missing in an answer: nodes that did not reply, and shards that no node serves.
Pure."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final

from coordinator.http.shapes import Json


class Unavailable:
    """Nodes without an answer, with the reason, and the shards whose groups are missing. False while there are none."""

    def __init__(self) -> None:
        self.nodes: dict[int, str] = {}
        self.shards: set[int] = set()

    def __bool__(self) -> bool:
        return bool(self.nodes or self.shards)

    def shown(self) -> Json:
        """Return the JSON field for an answer."""
        nodes = [{"node_id": node_id, "why": why} for node_id, why in sorted(self.nodes.items())]
        return {"nodes": nodes, "shards": sorted(self.shards)}


_current: Final[ContextVar[Unavailable | None]] = ContextVar("unavailable", default=None)


@contextmanager
def noting_unavailable() -> Iterator[Unavailable]:
    """Collect the missing parts of all requests made in the context."""
    found = Unavailable()
    token = _current.set(found)
    try:
        yield found
    finally:
        _current.reset(token)


def note_silent(node_id: int, why: str) -> None:
    """Note a node that did not answer."""
    if (found := _current.get()) is not None:
        found.nodes.setdefault(node_id, why)


def note_unserved(shards: Iterable[int]) -> None:
    """Note shards that no node serves."""
    if (found := _current.get()) is not None:
        found.shards.update(shards)
