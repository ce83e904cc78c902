"""Kills of coordinators, one after the other."""

import time
from collections.abc import Sequence
from typing import Protocol

_AWAY_S = 3.0
"""Time for which a killed coordinator stays away; every third for longer than a session of the nodes."""
_LONG_AWAY_S = 10.0


class Coordinator(Protocol):
    """A process that coordinates groups, which can be killed and started again at the same address."""

    def end(self) -> None: ...

    def start(self) -> None: ...


class Killer:
    """Kills each coordinator in turn."""

    def __init__(self, coordinators: Sequence[Coordinator]) -> None:
        self.kills = 0
        self._coordinators = coordinators

    def kill_next(self) -> None:
        """Kill the next one, and start it again; each third stays away until others have its groups."""
        killed = self._coordinators[self.kills % len(self._coordinators)]
        self.kills += 1
        killed.end()
        time.sleep(_LONG_AWAY_S if self.kills % 3 == 0 else _AWAY_S)
        killed.start()
