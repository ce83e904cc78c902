"""A producer that is to stop while records are on their way."""

from typing import cast

import pytest

from muster.blocking import Producer
from muster.cli.stopping import PATIENCE_S, stop


class Impatient:
    """Somebody interrupts the first `close`, before it has done anything."""

    def __init__(self) -> None:
        self.closed: list[float | None] = []

    def close(self, timeout_s: float | None = None) -> None:
        self.closed.append(timeout_s)
        if len(self.closed) == 1:
            raise KeyboardInterrupt


def test_a_second_interruption_gives_up_whenever_it_comes(capsys: pytest.CaptureFixture[str]) -> None:
    producer = Impatient()
    stop(cast(Producer, producer), "t", [], 2)
    assert producer.closed == [PATIENCE_S, 0]
    assert capsys.readouterr().err.splitlines()[-1] == "muster: gave up 2 records for t"
