"""Waiting for an operation in a thread: a caller that stops waiting leaves nothing behind."""

import pytest

from membership.events import CommitDone, NodeAddress
from muster import WokenUp
from muster.blocking.runner import ThreadRunner
from muster.client import operations as module
from muster.client.operations import Operations
from muster.net.bootstrap import Bootstrap
from protocol.errors import ErrorCode


@pytest.mark.parametrize("how", ["woken", "too late"])
def test_an_operation_that_nobody_waits_for_any_more_is_forgotten(how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "GRACE_S", 0.0)
    runner = ThreadRunner(Bootstrap((NodeAddress("nobody", 1),)), "c", "consumer")
    operations = Operations(lambda: None)
    for _ in range(3):
        number = operations.number()
        if how == "woken":
            operations.wake()
            with pytest.raises(WokenUp):
                runner.run(operations.wait_for(number, CommitDone, 60))
        else:
            assert runner.run(operations.wait_for(number, CommitDone, 0)) is None
        operations.ended(CommitDone(number, ErrorCode.NONE, {}, ""))
        assert not operations.is_done(number)
    number = operations.number()
    operations.ended(done := CommitDone(number, ErrorCode.NONE, {}, ""))
    assert runner.run(operations.wait_for(number, CommitDone, 0)) is done
