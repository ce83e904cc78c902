"""Regular expressions of members, and the topics whose names they match (docs/spec/consumer-group-protocol.md#6.1)."""

from collections.abc import Generator, Iterable, Mapping
from functools import lru_cache

from protocol.regular_expression import compile_regular_expression

_CACHED = 256
_PIECE_US = 1_000
_MATCH_US, _INSTRUCTION_US = 4.5, 0.003
"""Worst-case cost of a match, and of each instruction of the pattern per character."""


class Pattern:
    """A compiled pattern. It must match a topic's whole name."""

    __slots__ = ("_fullmatch", "_instructions", "text")

    def __init__(self, text: str) -> None:
        """Compile. Raises InvalidPattern."""
        compiled = compile_regular_expression(text)
        self.text = text
        self._fullmatch = compiled.fullmatch
        self._instructions: int = compiled.programsize

    def matches(self, topic: str) -> bool:
        return self._fullmatch(topic) is not None

    def cost_us(self, topic: str) -> float:
        """Estimate the time to match the name, in microseconds."""
        return _MATCH_US + _INSTRUCTION_US * self._instructions * len(topic)


@lru_cache(maxsize=_CACHED)
def compile_pattern(text: str) -> Pattern:
    """Return the compiled pattern. Raises InvalidPattern."""
    return Pattern(text)


def resolve(patterns: Iterable[str], topics: Iterable[str]) -> Generator[int, object, Mapping[str, tuple[str, ...]]]:
    """Match patterns, which compile, with the names of all topics. Return the names that match each, in their order.

    Yields the cost of each piece in microseconds. The names are those of the beginning, however long it takes.
    """
    names = tuple(topics)
    resolved = {}
    for text in patterns:
        pattern, matched, done_us = compile_pattern(text), list[str](), 0.0
        for name in names:
            if pattern.matches(name):
                matched.append(name)
            done_us += pattern.cost_us(name)
            if done_us >= _PIECE_US:
                yield int(done_us)
                done_us = 0.0
        resolved[text] = tuple(matched)
        yield int(done_us)
    return resolved
