"""Acts on groups leave notes that name the client and its address; offsets are named with their old and new values."""

from typing import Any

import pytest

from coordinator.core.core import Core
from coordinator.handlers import delete_groups
from diagnosis.offset_plan import reversed_changes
from diagnosis.problem import Kind
from protocol.errors import ErrorCode
from protocol.messages import Message
from protocol.messages.groups import (
    ApplyOffsets,
    DeletedGroup,
    DeleteGroups,
    DeleteGroupsReply,
    LeaveGroup,
    LeavingMember,
    ListAudit,
    ListedNote,
)
from protocol.messages.node import Hello
from protocol.messages.offsets import (
    OffsetCommit,
    OffsetCommitPartition,
    OffsetCommitTopic,
    OffsetDelete,
    OffsetDeleteTopic,
)
from tests.node.operated import DiagnosisRig

STRANGER = 3


def commit(offsets: dict[int, int], group_id: str = "g", topic: str = "orders") -> OffsetCommit:
    parts = tuple(OffsetCommitPartition(partition, offset) for partition, offset in offsets.items())
    return OffsetCommit(group_id, (OffsetCommitTopic(topic, parts),))


def acts(rig: DiagnosisRig) -> list[ListedNote]:
    (reply,) = rig.ask(STRANGER, ListAudit())
    return [one.note for one in reply.notes]  # type: ignore[attr-defined]


@pytest.fixture
def rig() -> DiagnosisRig:
    rig = DiagnosisRig()
    rig.connect_from(STRANGER, "10.9.9.9", 51_515)
    rig.ask(STRANGER, Hello("stranger"))
    member = rig.member("g", "app", "10.0.0.1")
    rig.run(4_000)
    member.commit(9, 0)
    member.commit(4, 1)
    return rig


def emptied(rig: DiagnosisRig) -> DiagnosisRig:
    rig.members[0].close()
    return rig


RESET: tuple[Message, str, str, Any] = (
    commit({0: 2, 1: 4, 2: 7}),
    "reset",
    "orders-0 from 9 to 2 and 1 more partition, by stranger at 10.9.9.9",
    [(0, 9, 2), (2, -1, 7)],
)
DELETED: tuple[Message, str, str, Any] = (
    OffsetDelete("g", (OffsetDeleteTopic("orders", (0, 3)),)),
    "delete offsets",
    "1 committed offset, by stranger at 10.9.9.9",
    [(0, 9, -1)],
)
GONE: tuple[Message, str, str, Any] = (
    DeleteGroups(("g",)),
    "delete group",
    "with 2 committed offsets, by stranger at 10.9.9.9",
    [(0, 9, -1), (1, 4, -1)],
)


@pytest.mark.parametrize("done", [RESET, DELETED, GONE], ids=["reset", "delete", "group"])
def test_a_strangers_act_names_its_address(rig: DiagnosisRig, done: tuple[Message, str, str, Any]) -> None:
    message, act, detail, changes = done
    emptied(rig)
    rig.ask(STRANGER, message)

    (note,) = acts(rig)

    assert (note.act, note.detail) == (act, detail)
    assert note.origin is not None
    assert (note.origin.client_id, note.origin.client_host, note.origin.client_port) == (
        "stranger",
        "/10.9.9.9",
        51_515,
    )
    assert [(one.partition_index, one.previous_offset, one.offset) for one in note.changes] == changes


@pytest.mark.parametrize(("number", "limit"), [(2, 2_000), (1_200, 2_000), (1_200, 900)])
def test_the_offsets_of_a_deleted_group_are_restored(
    rig: DiagnosisRig, number: int, limit: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Up to the limit of a note, whether they are deleted at once or in slices."""
    monkeypatch.setattr(delete_groups, "MOST_CHANGES", limit)
    rig.make_topic("wide", number)
    parts = tuple(OffsetCommitPartition(partition, partition + 5) for partition in range(number))
    for start in range(0, number, 500):
        rig.ask(STRANGER, OffsetCommit("h", (OffsetCommitTopic("wide", parts[start : start + 500]),)))
    replies = rig.ask(STRANGER, DeleteGroups(("h",)))
    while not any(isinstance(one, DeleteGroupsReply) for one in replies):
        rig.wait(100)
        replies += rig.heard(STRANGER)
    (note,) = [one for one in acts(rig) if one.act == "delete group"]
    kept = "" if number <= limit else f" (the first {limit} can be restored)"
    assert note.detail == f"with {number} committed offsets{kept}, by stranger at 10.9.9.9"

    (reply,) = rig.ask(STRANGER, ApplyOffsets("h", reversed_changes(note.changes), "undo"))

    assert reply.number >= 0  # type: ignore[attr-defined]
    there = rig.node.core.find("h")[0].offsets.topics("h")["wide"]
    assert {one: offset.offset for one, offset in there.items()} == {one: one + 5 for one in range(min(number, limit))}


def test_a_deletion_that_fails_midway_names_what_is_gone(rig: DiagnosisRig, monkeypatch: pytest.MonkeyPatch) -> None:
    rig.make_topic("wide", 1_200)
    parts = tuple(OffsetCommitPartition(partition, partition + 5) for partition in range(1_200))
    rig.ask(STRANGER, OffsetCommit("h", (OffsetCommitTopic("wide", parts),)))
    allowed = iter([ErrorCode.NONE, ErrorCode.NONE])
    monkeypatch.setattr(delete_groups, "admit_to_shard", lambda _: next(allowed, ErrorCode.KAFKA_STORAGE_ERROR))

    replies = rig.ask(STRANGER, DeleteGroups(("h",)))
    while not any(isinstance(one, DeleteGroupsReply) for one in replies):
        rig.wait(100)
        replies += rig.heard(STRANGER)

    assert replies[-1].results == (DeletedGroup("h", ErrorCode.KAFKA_STORAGE_ERROR),)  # type: ignore[attr-defined]
    (note,) = [one for one in acts(rig) if one.changes and one.changes[0].topic == "wide"]
    assert (note.act, note.detail) == ("delete offsets", "1000 committed offsets, by stranger at 10.9.9.9")
    assert len(note.changes) == 1_000
    assert rig.node.core.find("h")[0].offsets.count_of("h") == 200
    (reply,) = rig.ask(STRANGER, ApplyOffsets("h", reversed_changes(note.changes), "undo"))
    assert reply.number >= 0  # type: ignore[attr-defined]
    assert rig.node.core.find("h")[0].offsets.count_of("h") == 1_200


def test_a_deletion_whose_last_record_fails_names_what_is_gone(
    rig: DiagnosisRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    rig.make_topic("wide", 600)
    parts = tuple(OffsetCommitPartition(partition, partition + 5) for partition in range(600))
    rig.ask(STRANGER, OffsetCommit("h", (OffsetCommitTopic("wide", parts),)))
    delete = delete_groups._delete

    def fail(core: Core, *args: Any) -> ErrorCode:
        core.store.disk_full = True
        return delete(core, *args)

    monkeypatch.setattr(delete_groups, "_delete", fail)
    replies = rig.ask(STRANGER, DeleteGroups(("h",)))
    while not any(isinstance(one, DeleteGroupsReply) for one in replies):
        rig.wait(100)
        replies += rig.heard(STRANGER)

    assert replies[-1].results[0].error_code  # type: ignore[attr-defined]
    (note,) = [one for one in acts(rig) if one.changes and one.changes[0].topic == "wide"]
    assert (note.act, note.detail) == ("delete offsets", "600 committed offsets, by stranger at 10.9.9.9")
    assert len(note.changes) == 600


def test_a_deletion_of_a_small_group_that_fails_names_nothing(rig: DiagnosisRig) -> None:
    emptied(rig)
    rig.store.disk_full = True
    replies = rig.ask(STRANGER, DeleteGroups(("g",)))
    assert replies[-1].results[0].error_code  # type: ignore[attr-defined]
    assert acts(rig) == []


def test_a_reset_that_names_a_missing_topic_is_noted_for_the_others(rig: DiagnosisRig) -> None:
    reset = commit({0: 2, 3: 7})
    gone = OffsetCommitTopic("gone", (OffsetCommitPartition(0, 1),))
    rig.members[0].close()
    rig.ask(STRANGER, OffsetCommit("g", (*reset.topics, gone)))
    (note,) = acts(rig)
    assert note.act == "reset"
    assert [(one.partition_index, one.previous_offset, one.offset) for one in note.changes] == [(0, 9, 2), (3, -1, 7)]


def test_a_strangers_eviction_names_its_address(rig: DiagnosisRig) -> None:
    rig.ask(STRANGER, LeaveGroup("g", (LeavingMember(rig.members[0].member_id),)))

    (note,) = acts(rig)

    assert note.act == "evict"
    assert note.detail == "1 removed by stranger at 10.9.9.9: no reason given"


def test_a_member_that_leaves_or_reads_on_is_no_act(rig: DiagnosisRig) -> None:
    rig.members[0].commit(10, 0)
    emptied(rig)
    assert acts(rig) == []


async def test_a_member_that_goes_back_is_noted_and_diagnosed(rig: DiagnosisRig) -> None:
    rig.members[0].commit(3, 0)

    (note,) = acts(rig)
    (found,) = [one for one in await rig.problems() if one.kind is Kind.CONSUMPTION_REWOUND]

    assert (note.act, note.kind, note.initiator) == ("rewind", "rewound", rig.members[0].member_id)
    assert note.detail == "orders-0 from 9 to 3, by app at 10.0.0.1"
    assert (found.client_id, found.client_host, found.records) == ("app", "10.0.0.1", 6)
    assert found.command == "muster explain g"
    rig.run(901_000, step_ms=3_000)
    assert Kind.CONSUMPTION_REWOUND not in {one.kind for one in await rig.problems()}


async def test_a_reset_is_diagnosed_with_the_command_that_undoes_it(rig: DiagnosisRig) -> None:
    emptied(rig).ask(STRANGER, commit({0: 2}))

    (note,) = acts(rig)
    (found,) = [one for one in await rig.problems() if one.kind is Kind.CONSUMPTION_REWOUND]

    assert (found.client_id, found.client_host, found.client_port) == ("stranger", "10.9.9.9", 51_515)
    assert found.command == f"muster undo g:{note.number}"


async def test_a_reset_that_was_undone_is_no_problem(rig: DiagnosisRig) -> None:
    emptied(rig).ask(STRANGER, commit({0: 2, 1: 1}))
    (note,) = acts(rig)
    restoring = reversed_changes(note.changes)

    rig.ask(STRANGER, ApplyOffsets("g", restoring[:1], "undo"))
    assert Kind.CONSUMPTION_REWOUND in {one.kind for one in await rig.problems()}, "the other partition is behind"
    rig.ask(STRANGER, ApplyOffsets("g", restoring[1:], "undo"))
    assert Kind.CONSUMPTION_REWOUND not in {one.kind for one in await rig.problems()}
    rig.ask(STRANGER, commit({0: 1}))
    assert Kind.CONSUMPTION_REWOUND in {one.kind for one in await rig.problems()}, "and went back again"


async def test_resets_that_were_undone_one_after_the_other_are_no_problem(rig: DiagnosisRig) -> None:
    emptied(rig).ask(STRANGER, commit({0: 5}))
    rig.ask(STRANGER, commit({0: 1}))
    for note in reversed(acts(rig)):
        rig.ask(STRANGER, ApplyOffsets("g", reversed_changes(note.changes), "undo"))
    assert [one.act for one in acts(rig)] == ["reset", "reset", "undo", "undo"]
    assert Kind.CONSUMPTION_REWOUND not in {one.kind for one in await rig.problems()}


async def test_a_reset_that_was_read_past_is_not_to_be_undone(rig: DiagnosisRig) -> None:
    emptied(rig).ask(STRANGER, commit({0: 2, 1: 1}))
    (note,) = acts(rig)

    async def command() -> str:
        (found,) = [one for one in await rig.problems() if one.kind is Kind.CONSUMPTION_REWOUND]
        return found.command

    rig.ask(STRANGER, commit({0: 9}))
    assert await command() == f"muster undo g:{note.number}", "orders-1 is behind"
    rig.ask(STRANGER, commit({1: 3}))
    assert await command() == f"muster undo g:{note.number}", "still"
    rig.ask(STRANGER, commit({1: 4}))
    assert await command() == "muster explain g"


def test_a_group_that_never_had_members_is_committed_for_without_notes(rig: DiagnosisRig) -> None:
    for offset in (1, 2, 3):
        rig.ask(STRANGER, commit({0: offset}, "simple"))
    assert acts(rig) == []

    rig.ask(STRANGER, commit({0: 0}, "simple"))
    assert [note.act for note in acts(rig)] == ["rewind"]


def test_acts_are_listed_by_time_from_a_time_on(rig: DiagnosisRig) -> None:
    rig.members[0].commit(3, 0)
    rig.run(5_000)
    emptied(rig)
    rig.ask(STRANGER, DeleteGroups(("g",)))
    both = acts(rig)

    (later,) = rig.ask(STRANGER, ListAudit(both[1].wall_ms))
    (first,) = rig.ask(STRANGER, ListAudit(limit=1))

    assert [note.act for note in both] == ["rewind", "delete group"]
    assert [one.note for one in later.notes] == both[1:]  # type: ignore[attr-defined]
    assert (len(first.notes), first.has_more) == (1, True)  # type: ignore[attr-defined]


def test_partitions_that_a_reset_was_refused_for_are_not_noted(rig: DiagnosisRig) -> None:
    emptied(rig)
    rig.run(30_000)
    parts = (OffsetCommitPartition(0, 3), OffsetCommitPartition(1, 2, committed_metadata="m" * 5_000))
    missing = OffsetCommitTopic("orders", (OffsetCommitPartition(77, 5),))
    for topics in ((OffsetCommitTopic("orders", parts),), (OffsetCommitTopic("orders", parts[:1]), missing)):
        rig.ask(STRANGER, OffsetCommit("g", topics))
        changes = [(one.partition_index, one.previous_offset, one.offset) for one in acts(rig)[-1].changes]
        assert changes == [(0, 9, 3)]
        rig.ask(STRANGER, commit({0: 9}))


def test_a_long_reason_is_cut_in_the_note(rig: DiagnosisRig) -> None:
    (member,) = rig.members
    rig.ask(STRANGER, LeaveGroup("g", (LeavingMember(member.member_id, None, "r" * 8_000),)))
    assert acts(rig)[-1].detail.endswith("r" * 255)
    assert len(acts(rig)[-1].detail) < 400
