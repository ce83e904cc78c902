"""Faults of a real disk and a real network, around a real daemon and real clients: `python -m bench.faults [WORLD]`.

The simulator has its own disk and network, and both fail as we imagine. Here the kernel's do: a loop device that fills,
fails, freezes and loses its power, and a network whose other side vanishes. Needs root, and Linux.
"""


class Broken(Exception):
    """A promise that was not kept; the text says which."""


def check(is_kept: object, otherwise: str) -> None:
    """Raise Broken unless the promise was kept."""
    if not is_kept:
        raise Broken(otherwise)
