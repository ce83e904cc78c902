"""Checks of passwords beside the loop."""

import asyncio

from coordinator.accounts.plain import PasswordCheck
from coordinator.io.password_checks import PasswordChecks
from coordinator.node.effects import CheckPassword
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
