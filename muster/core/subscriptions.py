"""Checks of the topics that a member subscribes to."""

import re
from collections.abc import Iterable

from membership.checks import check_name


def topic_names(topics: Iterable[str], pattern: str | None) -> tuple[str, ...]:
    """Return the topics to subscribe to; a string is one name. Raises ValueError."""
    names = (topics,) if isinstance(topics, str) else tuple(topics)
    if pattern is not None:
        if names:
            raise ValueError("either topics or a pattern is wanted, not both")
        try:
            re.compile(pattern)
        except re.error as error:
            raise ValueError(f"the pattern {pattern!r} is no regular expression: {error}") from None
    for name in names:
        check_name("a topic", name)
    if not all(name.strip() for name in names):
        raise ValueError(f"cannot subscribe to {list(names)}: a topic without a name is among them")
    return names


def check_regex(pattern: object, group_protocol: str) -> str:
    """Return the regular expression, which the coordinator compiles. Raises ValueError."""
    if group_protocol == "classic":
        raise ValueError("the coordinator matches patterns of groups that it balances: set group_protocol")
    if not isinstance(pattern, str) or not pattern:
        raise ValueError(f"the pattern is {pattern!r}: a regular expression is wanted")
    return pattern
