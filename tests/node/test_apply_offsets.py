"""ApplyOffsets: compared and set in one step, noted, and undone."""

from typing import Any

import pytest

from diagnosis.offset_plan import reversed_changes
from protocol.errors import ErrorCode
from protocol.messages.groups import ApplyOffsets, ListAudit, ListNotes, OffsetChange
from protocol.messages.node import Hello
from protocol.messages.offsets import OffsetFetch, OffsetFetchGroup
from tests.node.node_rig import NodeRig
from tests.node.operated import DiagnosisRig
from tests.node.test_audit import commit

OPERATOR = 3


@pytest.fixture
def rig() -> DiagnosisRig:
    rig = DiagnosisRig()
    rig.connect_from(OPERATOR, "10.9.9.9", 51_515)
    rig.ask(OPERATOR, Hello("muster-cli"))
    rig.ask(OPERATOR, commit({0: 9, 1: 4}))
    return rig


def apply(rig: NodeRig, *changes: tuple[int, int, int], act: str = "reset", group_id: str = "g") -> Any:
    wanted = tuple(OffsetChange("orders", *one) for one in changes)
    (reply,) = rig.ask(OPERATOR, ApplyOffsets(group_id, wanted, act))
    return reply


def offsets(rig: NodeRig, group_id: str = "g") -> dict[int, int]:
    (reply,) = rig.ask(OPERATOR, OffsetFetch((OffsetFetchGroup(group_id),)))
    return {
        part.partition_index: part.committed_offset
        for topic in reply.groups[0].topics  # type: ignore[attr-defined]
        for part in topic.partitions
    }


def test_a_reset_is_undone_by_its_number_in_every_partition(rig: DiagnosisRig) -> None:
    before = offsets(rig)
    number = apply(rig, (0, 9, 2), (1, 4, -1), (2, -1, 7)).number
    assert offsets(rig) == {0: 2, 2: 7}

    (reply,) = rig.ask(OPERATOR, ListNotes("g", after=number - 1, limit=1))
    note = reply.notes[0]  # type: ignore[attr-defined]
    (undone,) = rig.ask(OPERATOR, ApplyOffsets("g", reversed_changes(note.changes), "undo"))

    assert undone.number > number  # type: ignore[attr-defined]
    assert offsets(rig) == before
    (audit,) = rig.ask(OPERATOR, ListAudit())
    assert [one.note.act for one in audit.notes] == ["reset", "undo"]  # type: ignore[attr-defined]
    assert note.detail == "orders-0 from 9 to 2 and 2 more partitions, by muster-cli at 10.9.9.9"


def test_a_stale_plan_changes_nothing_and_says_what_is_there_now(rig: DiagnosisRig) -> None:
    rig.ask(OPERATOR, commit({1: 5}))

    reply = apply(rig, (0, 9, 2), (1, 4, 0))

    assert (reply.number, reply.members) == (-1, ())
    assert [(one.partition_index, one.previous_offset) for one in reply.conflicts] == [(1, 5)]
    assert offsets(rig) == {0: 9, 1: 5}


def test_a_group_with_members_is_refused_by_their_names(rig: DiagnosisRig) -> None:
    rig.member("g", "app", "10.0.0.1")
    rig.run(2_000)

    reply = apply(rig, (0, 9, 2))

    assert (reply.number, reply.members) == (-1, ("app at 10.0.0.1",))
    assert offsets(rig) == {0: 9, 1: 4}


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ([], "1 to 2000 at a time"),
        ([(0, 9, 1), (0, 9, 2)], "orders-0 is there twice"),
        ([(0, 9, -2)], "an offset is 0 to 2^63 - 1"),
        ([(3, -1, -1)], "there is no offset to delete"),
        ([(99, -1, 2)], "there is no partition orders-99"),
    ],
)
def test_changes_that_make_no_sense_are_refused_by_a_sentence(rig: DiagnosisRig, changes: Any, sentence: str) -> None:
    reply = apply(rig, *changes)
    assert sentence in reply.error_message
    assert offsets(rig) == {0: 9, 1: 4}


def test_offsets_are_imported_into_a_group_that_is_not_there(rig: DiagnosisRig) -> None:
    assert apply(rig, (0, -1, 3), act="import", group_id="new").number >= 0
    assert offsets(rig, "new") == {0: 3}


def test_what_was_answered_outlives_a_crash_and_can_be_undone_after_it(rig: DiagnosisRig) -> None:
    number = apply(rig, (0, 9, 2)).number
    rig.disk.crash()
    again = NodeRig(rig.disk)
    again.connect(OPERATOR)

    assert offsets(again) == {0: 2, 1: 4}
    (reply,) = again.ask(OPERATOR, ListNotes("g", after=number - 1, limit=1))
    assert apply(again, (0, 2, 9), act="undo").number > number
    assert reply.notes[0].changes == (OffsetChange("orders", 0, 9, 2),)  # type: ignore[attr-defined]


def test_a_refused_group_id_is_an_error(rig: DiagnosisRig) -> None:
    assert apply(rig, (0, 9, 2), group_id="").error_code is ErrorCode.INVALID_GROUP_ID


def test_offsets_that_fit_no_record_are_refused_inside_the_process(rig: DiagnosisRig) -> None:
    rig.ask_inside(ApplyOffsets("g", (OffsetChange("orders", 0, 9, 2**63),)), call=7)
    assert "an offset is 0 to 2^63 - 1" in rig.replied[7].error_message  # type: ignore[attr-defined]
    assert offsets(rig) == {0: 9, 1: 4}


def test_an_act_of_another_name_is_refused(rig: DiagnosisRig) -> None:
    assert apply(rig, (0, 9, 2), act="r" * 5_000).error_message.startswith("act: one of reset, ")
    assert offsets(rig) == {0: 9, 1: 4}


def test_no_more_groups_are_made_than_may_be() -> None:
    rig = DiagnosisRig(max_groups=1)
    rig.connect_from(OPERATOR, "10.9.9.9", 51_515)
    rig.ask(OPERATOR, Hello("muster-cli"))
    assert apply(rig, (0, -1, 2)).number >= 0
    assert apply(rig, (0, -1, 2), group_id="h").error_code is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert apply(rig, (0, 2, 3)).number >= 0, "of a group that is there"
