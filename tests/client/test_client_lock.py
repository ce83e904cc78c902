"""A client's lock, and a Ctrl-C at each point where the interpreter runs handlers of signals."""

import dis
import sys
import threading
from collections.abc import Callable, Generator, Iterator
from types import CodeType, FrameType
from typing import Any

import pytest

from muster.blocking.guard import ThreadGuard
from muster.blocking.runner import ThreadRunner
from muster.net.bootstrap import parse_bootstrap
from muster.net.condition import LockedCondition
from muster.net.fork_guard import ClientCondition


def handlers_run_after(code: CodeType, offset: int) -> bool:
    """True if handlers of signals may run after this instruction: a call, a jump back, the start of a function."""
    name = dis.opname[code.co_code[offset]]
    return name.startswith(("CALL", "RESUME", "JUMP_BACKWARD"))


class CtrlC:
    """Raises KeyboardInterrupt at the n-th point, counted from 1, where a handler of a signal may run."""

    def __init__(self, point: int) -> None:
        self._left = point
        self._last: dict[FrameType, int] = {}

    @property
    def has_raised(self) -> bool:
        return self._left <= 0

    def run(self, function: Callable[[], object]) -> None:
        """Call the function. A Ctrl-C in it ends it."""
        before = sys.gettrace()
        sys._getframe().f_trace_opcodes = True  # Python 3.12 traces opcodes only if a frame has asked before
        sys.settrace(self._trace)
        try:
            function()
        except KeyboardInterrupt:
            pass
        finally:
            sys.settrace(before)
            self._last.clear()

    def _trace(self, frame: FrameType, event: str, _argument: Any) -> Any:
        if self.has_raised:
            return None
        frame.f_trace_opcodes = True
        if event == "opcode":
            last = self._last.get(frame)
            self._last[frame] = frame.f_lasti
            if last is not None and handlers_run_after(frame.f_code, last):
                self._left -= 1
                if self.has_raised:
                    raise KeyboardInterrupt
        elif event == "exception":
            self._last.pop(frame, None)  # no handler runs after a call that raised
        return self._trace


def interruptions(function: Callable[[], object]) -> Iterator[int]:
    """Interrupt the function at each point in turn; yield the point, after the function has ended."""
    function()  # the first call has points of its own
    for point in range(1, 10_000):
        ctrl_c = CtrlC(point)
        ctrl_c.run(function)
        if not ctrl_c.has_raised:
            assert point > 1
            return
        yield point


def is_free(lock: Any) -> bool:
    """True if another thread can take the lock."""
    taken: list[bool] = []

    def take() -> None:
        taken.append(lock.acquire(blocking=False))
        if taken[0]:
            lock.release()

    thread = threading.Thread(target=take)
    thread.start()
    thread.join()
    return taken[0]


def enter(condition: LockedCondition) -> None:
    with condition.lock:
        condition.notify_all()


@pytest.mark.parametrize("condition", [LockedCondition(), ClientCondition(), ClientCondition(ClientCondition())])
def test_a_ctrl_c_at_any_point_leaves_a_conditions_lock_free(condition: LockedCondition) -> None:
    for point in interruptions(lambda: enter(condition)):
        assert is_free(condition.lock), f"taken after a Ctrl-C at point {point}"


@pytest.mark.parametrize("condition", [LockedCondition(), ClientCondition()])
def test_a_ctrl_c_at_any_point_of_a_wait_is_what_ends_it(condition: LockedCondition) -> None:
    def wait() -> None:
        with condition.lock:
            condition.wait(0)

    for point in interruptions(wait):
        assert is_free(condition.lock), f"taken after a Ctrl-C at point {point}"


def test_a_condition_is_not_entered_itself() -> None:
    with pytest.raises(TypeError, match=r"with condition\.lock"), LockedCondition():
        pass


def test_a_ctrl_c_that_the_application_holds_on_to_leaves_the_runners_lock_free() -> None:
    """An exception holds the frames that it came through, and with them whatever a generator there has entered."""
    runner = ThreadRunner(parse_bootstrap("127.0.0.1:1"), "a client", "client")
    lock = runner.driver.changed.lock
    held: list[BaseException] = []

    def use() -> None:
        try:
            with runner.entered(), runner.locked():
                pass
        except KeyboardInterrupt as error:
            held.append(error)
            raise

    for point in interruptions(use):
        assert is_free(lock), f"taken after a Ctrl-C at point {point}"


def test_a_ctrl_c_at_any_point_of_a_procedure_leaves_the_lock_free_and_the_client_usable() -> None:
    runner = ThreadRunner(parse_bootstrap("127.0.0.1:1"), "a client", "client")
    lock = runner.driver.changed.lock

    def procedure() -> Generator[Any, Any, int]:
        yield from ()
        return 7

    for point in interruptions(lambda: runner.run_alone(procedure())):
        assert is_free(lock), f"taken after a Ctrl-C at point {point}"
        assert runner.run_alone(procedure()) == 7


def test_a_ctrl_c_at_any_point_leaves_the_guard_to_other_threads() -> None:
    guard = ThreadGuard("client")

    def use() -> None:
        with guard.entered():
            pass

    def is_refused() -> bool:
        errors: list[BaseException] = []

        def other() -> None:
            try:
                use()
            except BaseException as error:  # noqa: BLE001 - whatever it is, it is the result
                errors.append(error)

        thread = threading.Thread(target=other)
        thread.start()
        thread.join()
        return bool(errors)

    for point in interruptions(use):
        assert not is_refused(), f"refused after a Ctrl-C at point {point}"
