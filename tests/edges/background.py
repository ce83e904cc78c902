"""Threads of a test that work beside it."""

import threading
from abc import ABC, abstractmethod
from typing import Self


class Background(ABC):
    """Work in a thread, until its context is left."""

    def __init__(self) -> None:
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    @abstractmethod
    def _run(self) -> None:
        """Run until `_stopped` is set."""

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopped.set()
        self._thread.join()
