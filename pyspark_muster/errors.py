"""Errors of the source that are raised in several modules."""


class OptionError(ValueError):
    """Raised for an invalid option; the sentence names the option, its value and the values allowed."""


class DataLoss(Exception):
    """Raised if an offset to read from lies outside the log: records were deleted, or the topic was recreated."""


class Drained(Exception):
    """Raised to end a query that an operator has drained."""

    def __init__(self, group: str) -> None:
        super().__init__(
            f"an operator has drained this query of the group {group!r}: it has committed all that it read, and leaves"
        )


class NoSuchGroup(Exception):
    """Raised if a named group does not exist."""


class NoSuchTopic(Exception):
    """Raised if a topic does not exist, or none matches the pattern."""
