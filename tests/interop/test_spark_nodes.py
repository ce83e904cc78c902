"""Bookkeeping of Spark queries and services over nodes that are killed: not the run."""

import sys
from pathlib import Path

from interop.reader import Reader, Telling
from interop.spark_nodes.judge import handed
from tests.edges.musterd import within

WRITTEN = [(0, 0), (0, 1), (1, 0)]


def test_each_record_given_to_one_member_is_right() -> None:
    found = handed(WRITTEN, {"query": [(0, 0), (1, 0)], "service": [(0, 1)]})
    assert (found.faults, found.again, found.by_member) == ([], 0, {"query": 2, "service": 1})
    assert str(found) == "3 written, 0 missing, 0 read again; query 2, service 1"


def test_records_that_come_again_are_counted_and_are_no_fault() -> None:
    found = handed(WRITTEN, {"query": [*WRITTEN, (0, 1)], "service": [(0, 1)]})
    assert (found.faults, found.again) == ([], 2)


def test_missing_and_strange_records_are_told() -> None:
    assert handed(WRITTEN, {"query": [(0, 1), (7, 3)]}).faults == [
        "2 of 3 records were read by nobody, as [(0, 0), (1, 0)]",
        "1 records were read that nobody wrote, as [(7, 3)]",
    ]


_MEMBER = """
import pathlib, sys, time
file = pathlib.Path(sys.argv[1]).open("ab", buffering=0)
for offset in range(int(sys.argv[2])):
    file.write(b"0 %d\\n" % offset)
file.write(b"0 99")
time.sleep(600)
"""


class Told:
    """A load that has written so much."""

    def __init__(self, count: int) -> None:
        self.acknowledged = {(0, offset): 0.0 for offset in range(count)}


def reader(folder: Path, count: int) -> Reader:
    file = folder / "one.read"
    file.touch()
    return Reader("one", [sys.executable, "-c", _MEMBER, str(file), str(count)], file, folder / "one.log")


def has_written(one: Reader, count: int) -> bool:
    return within(30, lambda: len(one.read()) >= count)


def test_a_killed_reader_leaves_whole_lines_and_its_successor_writes_on(tmp_path: Path) -> None:
    one = reader(tmp_path, 3)
    try:
        assert has_written(one, 3)
        assert within(30, lambda: (tmp_path / "one.read").read_bytes().endswith(b"0 99"))
        one.kill()
        assert not one.is_alive
        one.start()
        assert has_written(one, 6)
        assert one.read() == [(0, 0), (0, 1), (0, 2)] * 2
    finally:
        one.kill()


def test_it_is_told_who_does_not_go_on(tmp_path: Path) -> None:
    one = reader(tmp_path, 3)
    try:
        assert has_written(one, 3)
        telling = Telling([one], Told(3), ease_s=0, patience_s=0.5)  # type: ignore[arg-type] # it has what is asked
        telling.tell("the end", lambda: None, by_all=False)
        assert telling.failed == []
        telling.tell("a fault", lambda: None)
        assert telling.failed == ["a fault: still waiting for one"]
        telling = Telling([one], Told(5), ease_s=0, patience_s=0.5)  # type: ignore[arg-type]
        telling.tell("a kill", one.kill, by_all=False)
        assert telling.failed == ["a kill: one has ended", "a kill: still waiting for 2 records"]
    finally:
        one.kill()
