"""Senders of commits, the offsets before them, and groups that may not go back."""

from typing import Any

import pytest

from coordinator.config.keys import BackwardCommits
from protocol.errors import ErrorCode
from protocol.messages.configs import AlterableConfig, AlterConfigsResource, IncrementalAlterConfigs, ResourceType
from protocol.messages.groups import ApplyOffsets, OffsetChange
from protocol.messages.node import Hello
from protocol.messages.offsets import OffsetCommit, OffsetDelete, OffsetDeleteTopic, OffsetFetch, OffsetFetchGroup
from protocol.messages.topics import (
    CreatableTopic,
    CreatePartitions,
    CreateTopics,
    DeletableTopic,
    DeleteTopics,
    GrowingTopic,
)
from tests.node.node_rig import WALL_MS
from tests.node.operated import DiagnosisRig
from tests.node.test_audit import STRANGER, acts, commit

BACKWARD = "group.offsets.backward"


@pytest.fixture
def rig() -> DiagnosisRig:
    rig = DiagnosisRig()
    rig.connect_from(STRANGER, "10.9.9.9", 51_515)
    rig.ask(STRANGER, Hello("stranger"))
    rig.member("g", "app", "10.0.0.1")
    rig.run(4_000)
    rig.members[0].commit(9, 0)
    rig.members[0].commit(12, 0)
    return rig


def origins(rig: DiagnosisRig, group_id: str = "g") -> dict[int, tuple[Any, ...]]:
    (reply,) = rig.ask(STRANGER, OffsetFetch((OffsetFetchGroup(group_id, with_origins=True),)))
    return {
        one.partition_index: (one.previous_offset, one.member_id, one.generation_id, one.client_id, one.client_host)
        for topic in reply.groups[0].topics  # type: ignore[attr-defined]
        for one in topic.origins
    }


def alter(rig: DiagnosisRig, value: str, group_id: str = "g") -> ErrorCode:
    change = AlterConfigsResource(ResourceType.GROUP, group_id, (AlterableConfig(BACKWARD, 0, value),))
    (reply,) = rig.ask(STRANGER, IncrementalAlterConfigs((change,)))
    code: ErrorCode = reply.responses[0].error_code  # type: ignore[attr-defined]
    return code


def errors(rig: DiagnosisRig, message: OffsetCommit) -> list[tuple[int, ErrorCode]]:
    (reply,) = rig.ask(STRANGER, message)
    topics = reply.topics  # type: ignore[attr-defined]
    return [(part.partition_index, part.error_code) for topic in topics for part in topic.partitions]


def test_a_commit_names_its_member_and_what_was_there_before(rig: DiagnosisRig) -> None:
    member = rig.members[0]
    assert origins(rig) == {0: (9, member.member_id, member.generation, "app", "/10.0.0.1")}
    member.commit(1, 1)
    assert origins(rig)[1] == (-1, member.member_id, member.generation, "app", "/10.0.0.1")

    member.close()
    rig.ask(STRANGER, ApplyOffsets("g", (OffsetChange("orders", 0, 12, 3),)))
    rig.ask(STRANGER, commit({1: 5}))
    assert origins(rig) == {
        0: (12, "", -1, "stranger", "/10.9.9.9"),
        1: (1, "", -1, "stranger", "/10.9.9.9"),
    }
    rig.ask(STRANGER, OffsetDelete("g", (OffsetDeleteTopic("orders", (0, 1)),)))
    assert origins(rig) == {}


def test_a_commit_that_repeats_an_offset_tells_since_when_it_was_first_committed(rig: DiagnosisRig) -> None:
    member, first_ms = rig.members[0], WALL_MS + rig.now_ms

    def since_ms() -> list[int]:
        (reply,) = rig.ask(STRANGER, OffsetFetch((OffsetFetchGroup("g", with_origins=True),)))
        (topic,) = reply.groups[0].topics  # type: ignore[attr-defined]
        return [one.repeated_since_ms for one in topic.origins]

    assert since_ms() == [-1]
    for _ in range(3):
        rig.run(2_000)
        member.commit(12, 0)
        assert since_ms() == [first_ms]
    member.commit(13, 0)
    assert since_ms() == [-1]


def test_nothing_is_told_unless_asked_for(rig: DiagnosisRig) -> None:
    (reply,) = rig.ask(STRANGER, OffsetFetch((OffsetFetchGroup("g"),)))
    assert [topic.origins for topic in reply.groups[0].topics] == [()]  # type: ignore[attr-defined]


def test_a_group_may_refuse_to_go_back_but_not_a_plan(rig: DiagnosisRig) -> None:
    rig.members[0].close()
    assert alter(rig, "sideways") is ErrorCode.INVALID_CONFIG
    assert alter(rig, BackwardCommits.REJECTED) is ErrorCode.NONE

    assert errors(rig, commit({0: 3, 1: 7})) == [(0, ErrorCode.POLICY_VIOLATION), (1, ErrorCode.NONE)]
    assert errors(rig, commit({0: 11})) == [(0, ErrorCode.POLICY_VIOLATION)]
    assert errors(rig, commit({0: 12})) == [(0, ErrorCode.NONE)]
    assert origins(rig)[1][0] == -1
    (reply,) = rig.ask(STRANGER, ApplyOffsets("g", (OffsetChange("orders", 0, 12, 3),)))
    assert reply.number >= 0  # type: ignore[attr-defined]


def test_a_group_may_go_back_without_a_note(rig: DiagnosisRig) -> None:
    rig.members[0].commit(3, 0)
    assert [note.act for note in acts(rig)] == ["rewind"]
    alter(rig, BackwardCommits.ALLOWED)
    rig.members[0].commit(1, 0)
    assert [note.act for note in acts(rig)] == ["rewind", "alter settings"]


def test_changes_of_topics_and_settings_are_acts(rig: DiagnosisRig) -> None:
    rig.ask(STRANGER, CreateTopics((CreatableTopic("new", 2), CreatableTopic("orders", 1))))
    rig.ask(STRANGER, CreatePartitions((GrowingTopic("new", 5),)))
    change = AlterConfigsResource(ResourceType.TOPIC, "new", (AlterableConfig("retention.ms", 0, "60000"),))
    rig.ask(STRANGER, IncrementalAlterConfigs((change,)))
    rig.ask(STRANGER, IncrementalAlterConfigs((change,), validate_only=True))
    rig.ask(STRANGER, DeleteTopics((DeletableTopic("new"),)))

    assert [(note.act, note.detail) for note in acts(rig)] == [
        ("create topic", "new, by stranger at 10.9.9.9"),
        ("add partitions", "new to 5, by stranger at 10.9.9.9"),
        ("alter settings", "topic new, retention.ms = 60000, by stranger at 10.9.9.9"),
        ("delete topic", "new, by stranger at 10.9.9.9"),
    ]
