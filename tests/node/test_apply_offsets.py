"""ApplyOffsets: compared and set in one step, noted, and undone."""

from typing import Any

import pytest

from diagnosis.offset_plan import reversed_changes
from protocol.errors import ErrorCode
from protocol.messages.groups import ApplyOffsets, ListAudit, ListNotes, OffsetChange
from protocol.messages.node import Hello
from protocol.messages.offsets import OffsetFetch, OffsetFetchGroup
from tests.node.desk import Desk
from tests.node.operated import Clinic
from tests.node.test_audit import commit

OPERATOR = 3


@pytest.fixture
def clinic() -> Clinic:
    clinic = Clinic()
    clinic.connect_from(OPERATOR, "10.9.9.9", 51_515)
    clinic.ask(OPERATOR, Hello("muster-cli"))
    clinic.ask(OPERATOR, commit({0: 9, 1: 4}))
    return clinic


def apply(clinic: Desk, *changes: tuple[int, int, int], act: str = "reset", group_id: str = "g") -> Any:
    wanted = tuple(OffsetChange("orders", *one) for one in changes)
    (reply,) = clinic.ask(OPERATOR, ApplyOffsets(group_id, wanted, act))
    return reply


def offsets(clinic: Desk, group_id: str = "g") -> dict[int, int]:
    (reply,) = clinic.ask(OPERATOR, OffsetFetch((OffsetFetchGroup(group_id),)))
    return {
        part.partition_index: part.committed_offset
        for topic in reply.groups[0].topics  # type: ignore[attr-defined]
        for part in topic.partitions
    }


def test_a_reset_is_undone_by_its_number_in_every_partition(clinic: Clinic) -> None:
    before = offsets(clinic)
    number = apply(clinic, (0, 9, 2), (1, 4, -1), (2, -1, 7)).number
    assert offsets(clinic) == {0: 2, 2: 7}

    (reply,) = clinic.ask(OPERATOR, ListNotes("g", after=number - 1, limit=1))
    note = reply.notes[0]  # type: ignore[attr-defined]
    (undone,) = clinic.ask(OPERATOR, ApplyOffsets("g", reversed_changes(note.changes), "undo"))

    assert undone.number > number  # type: ignore[attr-defined]
    assert offsets(clinic) == before
    (audit,) = clinic.ask(OPERATOR, ListAudit())
    assert [one.note.act for one in audit.notes] == ["reset", "undo"]  # type: ignore[attr-defined]
    assert note.detail == "orders-0 from 9 to 2 and 2 more partitions, by muster-cli at 10.9.9.9"


def test_a_stale_plan_changes_nothing_and_says_what_is_there_now(clinic: Clinic) -> None:
    clinic.ask(OPERATOR, commit({1: 5}))

    reply = apply(clinic, (0, 9, 2), (1, 4, 0))

    assert (reply.number, reply.members) == (-1, ())
    assert [(one.partition_index, one.previous_offset) for one in reply.conflicts] == [(1, 5)]
    assert offsets(clinic) == {0: 9, 1: 5}


def test_a_group_with_members_is_refused_by_their_names(clinic: Clinic) -> None:
    clinic.member("g", "app", "10.0.0.1")
    clinic.run(2_000)

    reply = apply(clinic, (0, 9, 2))

    assert (reply.number, reply.members) == (-1, ("app at 10.0.0.1",))
    assert offsets(clinic) == {0: 9, 1: 4}


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ([], "1 to 2000 at a time"),
        ([(0, 9, 1), (0, 9, 2)], "orders-0 is there twice"),
        ([(0, 9, -2)], "an offset is 0 or more"),
        ([(99, -1, 2)], "there is no partition orders-99"),
    ],
)
def test_changes_that_make_no_sense_are_refused_by_a_sentence(clinic: Clinic, changes: Any, sentence: str) -> None:
    reply = apply(clinic, *changes)
    assert sentence in reply.error_message
    assert offsets(clinic) == {0: 9, 1: 4}


def test_offsets_are_imported_into_a_group_that_is_not_there(clinic: Clinic) -> None:
    assert apply(clinic, (0, -1, 3), act="import", group_id="new").number >= 0
    assert offsets(clinic, "new") == {0: 3}


def test_what_was_answered_outlives_a_crash_and_can_be_undone_after_it(clinic: Clinic) -> None:
    number = apply(clinic, (0, 9, 2)).number
    clinic.disk.crash()
    again = Desk(clinic.disk)
    again.connect(OPERATOR)

    assert offsets(again) == {0: 2, 1: 4}
    (reply,) = again.ask(OPERATOR, ListNotes("g", after=number - 1, limit=1))
    assert apply(again, (0, 2, 9), act="undo").number > number
    assert reply.notes[0].changes == (OffsetChange("orders", 0, 9, 2),)  # type: ignore[attr-defined]


def test_a_refused_group_id_is_an_error(clinic: Clinic) -> None:
    assert apply(clinic, (0, 9, 2), group_id="").error_code is ErrorCode.INVALID_GROUP_ID
