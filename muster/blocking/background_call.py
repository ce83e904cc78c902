"""A call made in a separate thread, while its caller works on the previous result."""

import queue
import threading
from collections.abc import Callable
from typing import Generic, TypeVar

R = TypeVar("R")


class BackgroundCall(Generic[R]):
    """The call begins at once. Its result need not be awaited: its thread does not keep the process alive."""

    def __init__(self, call: Callable[[], R]) -> None:
        self._call = call
        self._ended: queue.SimpleQueue[tuple[R | None, BaseException | None]] = queue.SimpleQueue()
        threading.Thread(target=self._run, name="muster-ahead", daemon=True).start()

    def result(self) -> R:
        """Wait for the result; may be called once. Raises the exception of the call."""
        result, error = self._ended.get()
        if error is not None:
            raise error
        return result  # type: ignore[return-value]  # a call that raised nothing has returned an R

    def _run(self) -> None:
        try:
            self._ended.put((self._call(), None))
        except BaseException as error:  # noqa: BLE001  (the caller's)
            self._ended.put((None, error))
