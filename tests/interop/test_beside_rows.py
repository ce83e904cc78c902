"""Files of members of `interop.beside_spark` can be read back, at whatever point the members were killed."""

from pathlib import Path

import pytest

from interop.beside_rows import Row, append, mark, mend, read, written_bytes


def rows(first: int, last: int) -> list[Row]:
    return [("orders", 1, number, mark("orders", 1, number)) for number in range(first, last)]


def test_what_was_written_is_read_in_its_order_from_wherever_one_wants(tmp_path: Path) -> None:
    assert (read(tmp_path, "a"), written_bytes(tmp_path, "a")) == ([], 0)
    append(tmp_path, "a", rows(0, 3))
    seen = written_bytes(tmp_path, "a")
    append(tmp_path, "a", rows(3, 5))
    assert read(tmp_path, "a") == [("orders", 1, number) for number in range(5)]
    assert read(tmp_path, "a", seen) == [("orders", 1, 3), ("orders", 1, 4)]


def test_half_a_line_of_who_was_killed_is_not_there_and_spoils_no_other(tmp_path: Path) -> None:
    append(tmp_path, "a", rows(0, 2))
    with (tmp_path / "a.rows").open("ab") as file:
        file.write(b"orders 1 2 ord")
    assert read(tmp_path, "a") == [("orders", 1, 0), ("orders", 1, 1)]
    mend(tmp_path, "a")
    mend(tmp_path, "b")
    append(tmp_path, "a", rows(2, 3))
    assert read(tmp_path, "a")[-1] == ("orders", 1, 2)


def test_a_record_that_stood_elsewhere_is_noticed(tmp_path: Path) -> None:
    append(tmp_path, "a", [("orders", 1, 7, mark("orders", 1, 8))])
    with pytest.raises(AssertionError, match="a read orders 1 7 orders-1:8"):
        read(tmp_path, "a")
