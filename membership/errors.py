"""Errors of a leader that assigns partitions."""


class CannotShareOut(Exception):
    """Raised if the leader cannot assign partitions; the text says why."""
