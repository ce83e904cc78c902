"""Deliveries to members of a group, compared with what was written."""

from interop.deliveries import deliveries

WRITTEN = [(0, 0), (0, 1), (1, 0)]


def test_each_record_given_to_one_member_is_right() -> None:
    found = deliveries(WRITTEN, {"query": [(0, 0), (1, 0)], "service": [(0, 1)]})
    assert (found.faults, found.again, found.by_member) == ([], 0, {"query": 2, "service": 1})
    assert str(found) == "3 written, 0 missing, 0 read again; query 2, service 1"


def test_records_that_come_again_are_counted_and_are_no_fault() -> None:
    found = deliveries(WRITTEN, {"query": [*WRITTEN, (0, 1)], "service": [(0, 1)]})
    assert (found.faults, found.again) == ([], 2)


def test_missing_and_strange_records_are_told() -> None:
    assert deliveries(WRITTEN, {"query": [(0, 1), (7, 3)]}).faults == [
        "2 of 3 records were read by nobody, as [(0, 0), (1, 0)]",
        "1 records were read that nobody wrote, as [(7, 3)]",
    ]
