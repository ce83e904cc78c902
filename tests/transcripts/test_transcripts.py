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


NOT_HERE = {
    76: "there is no cluster below metadata version 2.3",
    111: "authorization is not built yet; several groups in one request have a scenario without a number",
    130: "shards have no election epochs: placement is a fixed table",
    134: "the offsets log is a folder of the node's own, never missing",
    135: "of Kafka's wire, shown in bytes: tests/protocol/kafka/test_session_answers.py",
    136: "of Kafka's wire, shown in bytes: tests/protocol/kafka/test_judges.py",
}


def test_every_scenario_of_the_specification_has_a_transcript_or_a_reason() -> None:
    shown: set[int] = set()
    for path in files():
        for scenario in read(path):
            shown |= scenario.numbers
    assert shown == set(range(1, 137)) - NOT_HERE.keys()


def test_a_transcript_page_reads_back_as_it_was_written() -> None:
    for path in files():
        assert page(read(path)) == path.read_text()


def test_no_two_scenarios_of_a_file_have_the_same_title() -> None:
    for path in files():
        titles = [scenario.title for scenario in read(path)]
        assert len(titles) == len(set(titles))
