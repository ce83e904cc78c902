"""Whose unfinished requests take too much room."""

from coordinator.handlers.core import Connection, Core


def largest_backlogs(core: Core) -> list[Connection]:
    """The connections to be closed, those with most first, so that what the node holds of requests that are not yet
    whole, or wait for their turn, is within `max.unfinished.bytes`."""
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
