"""Consumers of `interop` that are processes of their own."""

import sys
from pathlib import Path

from interop.reader import Reader
from tests.edges.musterd import within

_MEMBER = """
import pathlib, signal, sys
file = pathlib.Path(sys.argv[1]).open("ab", buffering=0)
for offset in range(3):
    file.write(b"0 %d\\n" % offset)
file.write(b"0 99")
signal.pause()
"""
"""Writes three whole lines and a part of one, and lives until it is killed."""


def test_a_killed_reader_leaves_whole_lines_and_its_successor_writes_on(tmp_path: Path) -> None:
    file = tmp_path / "one.read"
    file.touch()
    reader = Reader("one", [sys.executable, "-c", _MEMBER, str(file)], file, tmp_path / "one.log")
    try:
        assert within(30, lambda: file.read_bytes().endswith(b"0 99"))
        assert reader.read() == [(0, 0), (0, 1), (0, 2)]
        reader.kill()
        assert not reader.is_alive
        assert file.read_bytes().endswith(b"0 2\n")
        reader.start()
        assert within(30, lambda: len(reader.read()) == 6)
        assert reader.read() == [(0, 0), (0, 1), (0, 2)] * 2
    finally:
        reader.kill()
