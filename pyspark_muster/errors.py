"""Errors of the source that several of its modules raise."""


class OptionError(ValueError):
    """Raised for an invalid option; the sentence names the option, its value and the values allowed."""


class DataLoss(Exception):
    """Raised if an offset to read at lies outside of the log: records were deleted, or the topic was recreated."""


class NoSuchTopic(Exception):
    """Raised if a topic does not exist, or none matches the pattern."""
