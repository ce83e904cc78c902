import os
from pathlib import Path

import pytest

from tests.transcripts.runner import Scenario, files, page, play, read

REWRITE = "REWRITE_TRANSCRIPTS" in os.environ


@pytest.mark.parametrize("path", files(), ids=lambda path: path.stem)
def test_what_happens_is_what_is_written(path: Path) -> None:
    written = read(path)
    played = [play(scenario) for scenario in written]
    if REWRITE:
        path.write_text(page(played))
    for expected, actual in zip(written, played, strict=True):
        assert REWRITE or _text(actual) == _text(expected), expected.title


def _text(scenario: Scenario) -> str:
    return page([scenario])
