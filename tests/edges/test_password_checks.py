"""Checks of passwords beside the loop."""

import asyncio
import threading

from coordinator.accounts.plain import PasswordCheck
from coordinator.io.password_checks import PasswordChecks
from coordinator.node.effects import CheckPassword, DropCheck
from coordinator.node.events import Event, PasswordChecked
from tests.accounts.rig import accounts_of

WAIT_S = 60.0


def check_of(number: int, password: str) -> CheckPassword:
    mechanism, credential = accounts_of({"alice": "secret"}).credential_for_plain("alice")
    return CheckPassword(number, PasswordCheck(mechanism, password, credential))


async def test_checks_come_back_in_order_to_the_loop() -> None:
    events: asyncio.Queue[Event] = asyncio.Queue()
    checks = PasswordChecks(events.put_nowait)
    for number, password in enumerate(("secret", "other")):
        checks.check(check_of(number, password))
    async with asyncio.timeout(WAIT_S):
        done = [await events.get() for _ in range(2)]
    jobs = [(one.check_id, one.job) for one in done if isinstance(one, PasswordChecked)]
    assert [(number, job.is_right) for number, job in jobs if isinstance(job, PasswordCheck)] == [
        (0, True),
        (1, False),
    ]
    checks.stop()


class HeldCheck(PasswordCheck):
    """A check that ends when it is let go."""

    def __init__(self) -> None:
        self.has_begun, self.may_end = threading.Event(), threading.Event()

    def run(self, disk: object = None) -> None:
        self.has_begun.set()
        self.may_end.wait(WAIT_S)


async def test_a_dropped_check_is_not_run_and_not_told() -> None:
    events: asyncio.Queue[Event] = asyncio.Queue()
    checks = PasswordChecks(events.put_nowait)
    held, waiting, last = HeldCheck(), check_of(2, "secret"), check_of(3, "secret")
    for check in (CheckPassword(1, held), waiting, last):
        checks.check(check)
    assert await asyncio.to_thread(held.has_begun.wait, WAIT_S)
    checks.drop(DropCheck(1))
    checks.drop(DropCheck(2))
    held.may_end.set()
    async with asyncio.timeout(WAIT_S):
        told = await events.get()
    assert isinstance(told, PasswordChecked) and told.check_id == 3
    assert isinstance(waiting.job, PasswordCheck) and not waiting.job.is_right
    checks.stop()
    assert events.empty()


async def test_nothing_comes_back_after_the_end() -> None:
    events: list[Event] = []
    checks = PasswordChecks(events.append)
    for number in range(20):
        checks.check(check_of(number, "secret"))
    checks.stop()
    checks.check(check_of(99, "secret"))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert events == []
