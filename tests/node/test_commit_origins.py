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
from tests.node.operated import Clinic
from tests.node.test_audit import STRANGER, acts, commit

BACKWARD = "group.offsets.backward"


@pytest.fixture
def clinic() -> Clinic:
    clinic = Clinic()
    clinic.connect_from(STRANGER, "10.9.9.9", 51_515)
    clinic.ask(STRANGER, Hello("stranger"))
    clinic.member("g", "app", "10.0.0.1")
    clinic.run(4_000)
    clinic.members[0].commit(9, 0)
    clinic.members[0].commit(12, 0)
    return clinic


def origins(clinic: Clinic, group_id: str = "g") -> dict[int, tuple[Any, ...]]:
    (reply,) = clinic.ask(STRANGER, OffsetFetch((OffsetFetchGroup(group_id, with_origins=True),)))
    return {
        one.partition_index: (one.previous_offset, one.member_id, one.generation_id, one.client_id, one.client_host)
        for topic in reply.groups[0].topics  # type: ignore[attr-defined]
        for one in topic.origins
    }


def alter(clinic: Clinic, value: str, group_id: str = "g") -> ErrorCode:
    change = AlterConfigsResource(ResourceType.GROUP, group_id, (AlterableConfig(BACKWARD, 0, value),))
    (reply,) = clinic.ask(STRANGER, IncrementalAlterConfigs((change,)))
    code: ErrorCode = reply.responses[0].error_code  # type: ignore[attr-defined]
    return code


def errors(clinic: Clinic, message: OffsetCommit) -> list[tuple[int, ErrorCode]]:
    (reply,) = clinic.ask(STRANGER, message)
    topics = reply.topics  # type: ignore[attr-defined]
    return [(part.partition_index, part.error_code) for topic in topics for part in topic.partitions]


def test_a_commit_names_its_member_and_what_was_there_before(clinic: Clinic) -> None:
    member = clinic.members[0]
    assert origins(clinic) == {0: (9, member.member_id, member.generation, "app", "/10.0.0.1")}
    member.commit(1, 1)
    assert origins(clinic)[1] == (-1, member.member_id, member.generation, "app", "/10.0.0.1")

    member.close()
    clinic.ask(STRANGER, ApplyOffsets("g", (OffsetChange("orders", 0, 12, 3),)))
    clinic.ask(STRANGER, commit({1: 5}))
    assert origins(clinic) == {
        0: (12, "", -1, "stranger", "/10.9.9.9"),
        1: (1, "", -1, "stranger", "/10.9.9.9"),
    }
    clinic.ask(STRANGER, OffsetDelete("g", (OffsetDeleteTopic("orders", (0, 1)),)))
    assert origins(clinic) == {}


def test_nothing_is_told_unless_asked_for(clinic: Clinic) -> None:
    (reply,) = clinic.ask(STRANGER, OffsetFetch((OffsetFetchGroup("g"),)))
    assert [topic.origins for topic in reply.groups[0].topics] == [()]  # type: ignore[attr-defined]


def test_a_group_may_refuse_to_go_back_but_not_a_plan(clinic: Clinic) -> None:
    clinic.members[0].close()
    assert alter(clinic, "sideways") is ErrorCode.INVALID_CONFIG
    assert alter(clinic, BackwardCommits.REJECTED) is ErrorCode.NONE

    assert errors(clinic, commit({0: 3, 1: 7})) == [(0, ErrorCode.POLICY_VIOLATION), (1, ErrorCode.NONE)]
    assert errors(clinic, commit({0: 11})) == [(0, ErrorCode.POLICY_VIOLATION)]
    assert errors(clinic, commit({0: 12})) == [(0, ErrorCode.NONE)]
    assert origins(clinic)[1][0] == -1
    (reply,) = clinic.ask(STRANGER, ApplyOffsets("g", (OffsetChange("orders", 0, 12, 3),)))
    assert reply.number >= 0  # type: ignore[attr-defined]


def test_a_group_may_go_back_without_a_note(clinic: Clinic) -> None:
    clinic.members[0].commit(3, 0)
    assert [note.act for note in acts(clinic)] == ["rewind"]
    alter(clinic, BackwardCommits.ALLOWED)
    clinic.members[0].commit(1, 0)
    assert [note.act for note in acts(clinic)] == ["rewind", "alter settings"]


def test_changes_of_topics_and_settings_are_acts(clinic: Clinic) -> None:
    clinic.ask(STRANGER, CreateTopics((CreatableTopic("new", 2), CreatableTopic("orders", 1))))
    clinic.ask(STRANGER, CreatePartitions((GrowingTopic("new", 5),)))
    change = AlterConfigsResource(ResourceType.TOPIC, "new", (AlterableConfig("retention.ms", 0, "60000"),))
    clinic.ask(STRANGER, IncrementalAlterConfigs((change,)))
    clinic.ask(STRANGER, IncrementalAlterConfigs((change,), validate_only=True))
    clinic.ask(STRANGER, DeleteTopics((DeletableTopic("new"),)))

    assert [(note.act, note.detail) for note in acts(clinic)] == [
        ("create topic", "new, by stranger at 10.9.9.9"),
        ("add partitions", "new to 5, by stranger at 10.9.9.9"),
        ("alter settings", "topic new, retention.ms = 60000, by stranger at 10.9.9.9"),
        ("delete topic", "new, by stranger at 10.9.9.9"),
    ]
