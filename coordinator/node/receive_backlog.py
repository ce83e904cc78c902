"""Receive backlogs that exceed their limit."""

from coordinator.core.core import Connection, Core


def largest_backlogs(core: Core) -> list[Connection]:
    """Return the connections to close, the largest first, so that the bytes of incomplete and queued requests stay
    within `max.unfinished.bytes`."""
    held = [(one.session.buffered_bytes, one.number) for one in core.connections.values()]
    left, most = sum([size for size, _number in held]), core.config.max_unfinished_bytes
    found: list[Connection] = []
    if left > most:
        for size, number in sorted(held, reverse=True):
            if left <= most:
                break
            found.append(core.connections[number])
            left -= size
    return found
