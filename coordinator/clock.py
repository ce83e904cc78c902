"""A clock reading, as the core gets it."""

from typing import NamedTuple


class Moment(NamedTuple):
    """Deadlines use `monotonic_ms`, records use `wall_ms`; mixing the two is a bug."""

    monotonic_ms: int
    wall_ms: int
