"""Checks that all consumers go on after a fault, and measures how long that takes."""

import time
from collections.abc import Callable, Sequence

from interop.load import Load
from interop.reader import Reader

_LOOK_S = 0.25


class Recovery:
    """Lets faults happen while records are written and read."""

    def __init__(
        self,
        readers: Sequence[Reader],
        load: Load,
        *,
        followers: Sequence[Reader] = (),
        ease_s: float,
        patience_s: float,
    ) -> None:
        """`readers` read what the load writes; `followers` something else, and must go on too."""
        self.failed: list[str] = []
        self._readers = readers
        self._all = (*readers, *followers)
        self._load = load
        self._ease_s = ease_s
        self._patience_s = patience_s

    def after(self, what: str, happen: Callable[[], None], *, by_all: bool = True) -> None:
        """Let it happen, and look that all that was acknowledged by then is read, by and by; and that every member has
        read something since."""
        begun = time.monotonic()
        happen()
        over = time.monotonic()
        due = set(self._load.acknowledged)
        before = {reader.name: len(reader.read()) for reader in self._all}
        waiting, seen = ["everything"], set[tuple[int, int]]()
        while waiting and time.monotonic() - over < self._patience_s:
            time.sleep(_LOOK_S)
            for reader in self._readers:
                seen.update(reader.read())
            due -= seen
            waiting = [f"{len(due)} records"] if due else []
            if by_all:
                waiting += [one.name for one in self._all if one.is_alive and len(one.read()) == before[one.name]]
        caught_up_s = time.monotonic() - over
        dead = [f"{reader.name} has ended" for reader in self._all if not reader.is_alive]
        self.failed += [f"{what}: {one}" for one in dead + [f"still waiting for {one}" for one in waiting]]
        said = "; ".join(dead + waiting) or "all read"
        print(f"{what}: {over - begun:.1f} s; after {caught_up_s:.1f} s more: {said}", flush=True)
        time.sleep(self._ease_s)
