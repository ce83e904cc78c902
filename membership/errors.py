"""Errors of a leader that shares out."""


class CannotShareOut(Exception):
    """The leader's assignment cannot be given; the text says why."""
