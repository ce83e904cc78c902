"""Waiting for an errand in a thread: whoever stops waiting leaves nothing behind."""

import threading

import pytest

from muster import WokenUp
from muster.blocking import errands as module
from muster.blocking.errands import Errands
from muster.events import CommitDone
from protocol.errors import ErrorCode


@pytest.mark.parametrize("how", ["woken", "too late"])
def test_an_errand_that_nobody_waits_for_any_more_is_forgotten(how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "GRACE_S", 0.0)
    errands = Errands(threading.Condition())
    for _ in range(3):
        number = errands.number()
        if how == "woken":
            errands.wake()
            with pytest.raises(WokenUp):
                errands.wait_for(number, CommitDone, 60)
        else:
            assert errands.wait_for(number, CommitDone, 0) is None
        errands.ended(CommitDone(number, ErrorCode.NONE, {}, ""))
        assert not errands.is_done(number)
    number = errands.number()
    errands.ended(done := CommitDone(number, ErrorCode.NONE, {}, ""))
    assert errands.wait_for(number, CommitDone, 0) is done
