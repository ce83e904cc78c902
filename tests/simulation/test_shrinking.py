"""A seed that breaks becomes a short story: tried on bugs that are planted."""

import pytest

from coordinator.runtime.outbox import Outbox
from protocol.messages import Message
from protocol.session import RequestRef
from tests.simulation.plan import Plan, draw
from tests.simulation.shrink import Shrunk, shrink, signature, what_breaks


def _shrunk(on: tuple[str, ...]) -> Shrunk:
    """The first seed that breaks, as short as it gets."""
    for seed in range(40):
        plan = draw(seed, on=on)
        if what_breaks(plan) is not None:
            shrunk = shrink(plan)
            assert shrunk is not None
            return shrunk
    raise AssertionError("no seed finds the bug")


def test_a_reply_that_does_not_wait_for_the_disk_is_told_in_a_few_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    def hold(self: Outbox, position: int, ref: RequestRef, reply: Message) -> None:
        self.send(ref, reply)

    monkeypatch.setattr(Outbox, "hold", hold)
    shrunk = _shrunk(("power", "slow disk", "cut", "kill", "stall", "delay"))
    story = shrunk.story()
    assert len(shrunk.plan.decisions) <= 5, story
    assert "the machine stops" in story
    assert "acknowledged" in story or "synced" in story
    replayed = draw(shrunk.plan.seed, on=("power", "slow disk", "cut", "kill", "stall", "delay"))
    numbers = [decision.number for decision in shrunk.plan.decisions]
    assert what_breaks(replayed.only(numbers)) == shrunk.broken


def test_what_does_not_break_is_not_shrunk() -> None:
    assert shrink(draw(1)) is None


def test_only_what_is_needed_is_left() -> None:
    plan = draw(3)
    needed = {plan.decisions[4].number, plan.decisions[-2].number}

    def run(part: Plan) -> str | None:
        there = {decision.number for decision in part.decisions}
        return f"seed 3, {plan.decisions[-1].at_ms} ms, step {len(there)}: it broke" if needed <= there else None

    shrunk = shrink(plan, run)
    assert shrunk is not None
    assert {decision.number for decision in shrunk.plan.decisions} == needed


def test_another_break_is_not_taken_for_the_same() -> None:
    assert signature("seed 1, 20 ms, step 3: orders alpha-0: 12 was acknowledged, None is there") == signature(
        "seed 1, 99 ms, step 7: orders alpha-3: 99 was acknowledged, None is there"
    )
    assert signature("seed 1, 2 ms, step 3: m1 runs and is no member") != signature("seed 1, 2 ms, step 3: m1 waits")
