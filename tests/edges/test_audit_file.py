"""The file of the audit log: rotation, and what happens while it cannot be written."""

import asyncio
from pathlib import Path

import pytest

from coordinator.io import audit_file
from coordinator.io.audit_file import AuditFile
from coordinator.node.effects import WriteAudit
from tests.edges.musterd import within

WAIT_S = 60.0


def lines_of(*numbers: int) -> WriteAudit:
    return WriteAudit([f'{{"n":{number},"text":"é{"x" * 80}"}}\n'.encode() for number in numbers])


def nobody_lost(count: int, why: str) -> None:
    raise AssertionError((count, why))


async def test_a_file_that_is_full_becomes_the_first_of_those_kept(tmp_path: Path) -> None:
    path = tmp_path / "audit.log"
    for _ in range(2):  # a second start goes on with the file
        audit = AuditFile(str(path), 1_000, 3, nobody_lost)
        for number in range(0, 30, 3):
            audit.write(lines_of(number, number + 1, number + 2))
        audit.finish()
    _check_kept(tmp_path)


def _check_kept(folder: Path) -> None:
    kept = sorted(folder.iterdir())
    assert [one.name for one in kept] == ["audit.log", "audit.log.1", "audit.log.2", "audit.log.3"]
    assert all(one.stat().st_size <= 1_000 and one.stat().st_mode & 0o077 == 0 for one in kept)
    texts = [line for one in (kept[3], kept[2], kept[1], kept[0]) for line in one.read_text().splitlines()]
    assert [line.split(",")[0] for line in texts] == [f'{{"n":{number % 30}' for number in range(60)][-len(texts) :]


async def test_lines_that_cannot_be_written_are_counted_and_the_next_ones_are_tried(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lost: asyncio.Queue[tuple[int, str]] = asyncio.Queue()
    folder = tmp_path / "logs"
    folder.mkdir()
    audit = AuditFile(str(folder / "audit.log"), 300, 1, lambda *what: lost.put_nowait(what))
    audit.write(lines_of(1, 2))
    moved = tmp_path / "moved"
    async with asyncio.timeout(WAIT_S):
        assert await asyncio.to_thread(within, WAIT_S, lambda: (folder / "audit.log").stat().st_size > 190)
        folder.rename(moved)
        audit.write(lines_of(3, 4))  # the file is full, and there is no folder for the next one
        count, why = await lost.get()
        assert count and "No such file" in why
        moved.rename(folder)
        audit.write(lines_of(5))
        monkeypatch.setattr(audit_file, "MOST_WAITING", 0)
        audit.write(lines_of(6, 7))
        assert await lost.get() == (2, "the disk is too slow")
    audit.finish()
    assert '"n":5' in (folder / "audit.log").read_text()


async def test_a_file_that_cannot_be_opened_is_an_error_at_the_start(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="No such file"):
        AuditFile(str(tmp_path / "nowhere" / "audit.log"), 1_000, 1, nobody_lost)
