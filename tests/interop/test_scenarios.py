"""Mistakes of members that stories notice."""

import pytest

from interop.processes import Failed
from interop.scenarios import COOPERATIVE, EAGER, Keeping


class FakeMember:
    def __init__(self, *history: frozenset[int]) -> None:
        self.name = "m"
        self.history = list(history)

    @property
    def owned(self) -> frozenset[int]:
        return self.history[-1]


def test_a_cooperative_member_may_lose_what_moves_but_never_what_it_keeps() -> None:
    member = FakeMember(frozenset({0, 1, 2}))
    watch = Keeping(COOPERATIVE)
    watch.check([member])
    member.history.append(frozenset({0, 1}))
    watch.check([member])
    assert watch.kept == 2
    member.history += [frozenset(), frozenset({0, 1})]
    with pytest.raises(Failed, match=r"kept \[0, 1\] but was without \[0, 1\] meanwhile"):
        watch.check([member])


def test_an_eager_member_gives_everything_back_in_between() -> None:
    member = FakeMember(frozenset({0, 1, 2}))
    watch = Keeping(EAGER)
    watch.check([member])
    member.history += [frozenset(), frozenset({0})]
    watch.check([member])
    assert watch.kept == 1
