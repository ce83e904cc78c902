"""A clock reading, as the core gets it."""

import msgspec


class Moment(msgspec.Struct, frozen=True, gc=False):
    """Deadlines use `monotonic_ms`, records use `wall_ms`; mixing the two is a bug."""

    monotonic_ms: int
    wall_ms: int
    boot_ms: int = 0
    """Reading of the clock that goes on while the process stands still and while the machine is suspended: what other
    machines may have done meanwhile is measured by it."""
