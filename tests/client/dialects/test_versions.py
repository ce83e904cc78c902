"""In which version each request goes out."""

import pytest

from muster.net.dialects.versions import NEWEST_BY_NAME, NoCommonVersion, choose
from protocol.apis import BY_MESSAGE, WIRE_APIS
from protocol.kafka.fields import NEWEST, FieldGroup, Inline, Many
from protocol.messages import Message
from protocol.messages.data import Fetch, Produce
from protocol.messages.groups import (
    Heartbeat,
    JoinGroup,
    LeaveGroup,
    LeavingMember,
    ListGroups,
    ListNotes,
    SyncGroup,
)
from protocol.messages.node import ApiVersion, DescribeCluster, FindCoordinator, Hello
from protocol.messages.offsets import (
    ListOffsets,
    ListOffsetsPartition,
    ListOffsetsTopic,
    OffsetCommit,
    OffsetFetch,
    OffsetFetchGroup,
)
from protocol.messages.topics import CreatableTopic, CreateTopics, Metadata, MetadataTopic

EVERYTHING = {key: ApiVersion(key, 0, 99) for key in WIRE_APIS}


def timestamp(at: int) -> ListOffsets:
    return ListOffsets((ListOffsetsTopic("t", (ListOffsetsPartition(0, at),)),))


def fetch(*groups: str) -> OffsetFetch:
    return OffsetFetch(tuple(OffsetFetchGroup(one) for one in groups))


def leave(*instances: str | None) -> LeaveGroup:
    return LeaveGroup("g", tuple(LeavingMember("m", one) for one in instances))


def names_topics_by_id_alone(group: FieldGroup, version: int) -> bool:
    """Tell whether some struct of this version has a topic's id, and its name in older versions only."""
    here = {row.name for row in group.rows if row.since <= version <= row.until}
    gone = {row.name for row in group.rows if row.until < version and row.until != NEWEST}
    if "topic_id" in here and gone & {"name", "topic"} - here:
        return True
    inner = (row.type for row in group.rows if row.since <= version <= row.until)
    groups = (
        kind.item if isinstance(kind, Many) else kind.group if isinstance(kind, Inline) else None for kind in inner
    )
    return any(names_topics_by_id_alone(one, version) for one in groups if isinstance(one, FieldGroup))


@pytest.mark.parametrize("api", WIRE_APIS.values(), ids=lambda api: api.message.__name__)
def test_in_the_newest_version_that_goes_out_topics_have_names(api: object) -> None:
    schema = BY_MESSAGE[api.message].request  # type: ignore[attr-defined]
    by_name = [n for n in range(schema.oldest, schema.newest + 1) if not names_topics_by_id_alone(schema.group, n)]
    assert NEWEST_BY_NAME.get(schema.group.message, schema.newest) == max(by_name)


@pytest.mark.parametrize(
    ("message", "oldest", "newest"),
    [
        (JoinGroup("g", 1), 0, 9),
        (JoinGroup("g", 1, group_instance_id="i"), 5, 9),
        (JoinGroup("g", 1, wants_member_id_first=False), 0, 3),
        (JoinGroup("g", 1, accepts_skip_assignment=False), 0, 8),
        (SyncGroup("g", 1, "m", None, "consumer", "range"), 0, 5),
        (SyncGroup("g", 1, "m"), 0, 4),
        (SyncGroup("g", 1, "m", "i", "consumer", "range"), 3, 5),
        (Heartbeat("g", 1, "m"), 0, 4),
        (Heartbeat("g", 1, "m", "i"), 3, 4),
        (leave(None), 0, 5),
        (leave("i"), 3, 5),
        (leave(None, None), 3, 5),
        (OffsetCommit("g", ()), 1, 9),
        (OffsetCommit("g", (), group_instance_id="i"), 7, 9),
        (fetch("g"), 2, 9),
        (fetch("g", "h"), 8, 9),
        (FindCoordinator(("g",)), 0, 6),
        (FindCoordinator(("t",), 1), 1, 6),
        (FindCoordinator(("g", "h")), 4, 6),
        (Produce(()), 3, 12),
        (Fetch(()), 4, 12),
        (Fetch((), session_id=7), 7, 12),
        (timestamp(-1), 1, 11),
        (timestamp(-3), 7, 11),
        (timestamp(-6), 11, 11),
        (ListOffsets((), isolation_level=1), 2, 11),
        (Metadata(None), 0, 13),
        (Metadata(()), 1, 13),
        (Metadata((MetadataTopic("t"),)), 4, 13),
        (Metadata((MetadataTopic("t"),), allow_auto_topic_creation=True), 0, 13),
        (Metadata((MetadataTopic(None, b"x" * 16),)), 12, 13),
        (CreateTopics((CreatableTopic("t", 1, 1),)), 0, 7),
        (CreateTopics((CreatableTopic("t", 1, 1),), validate_only=True), 1, 7),
        (CreateTopics((CreatableTopic("t"),)), 4, 7),
        (ListGroups(), 0, 5),
        (ListGroups(("Stable",)), 4, 5),
        (ListGroups((), ("classic",)), 5, 5),
        (DescribeCluster(endpoint_type=2), 1, 2),
    ],
)
def test_the_newest_that_both_know_and_that_says_all(message: Message, oldest: int, newest: int) -> None:
    key = BY_MESSAGE[type(message)].key
    for theirs in range(oldest, newest + 1):
        assert choose(message, {key: ApiVersion(key, 0, theirs)}) == theirs
    assert choose(message, EVERYTHING) == newest
    for too_old_or_new in (ApiVersion(key, 0, oldest - 1), ApiVersion(key, newest + 1, 99)):
        with pytest.raises(NoCommonVersion):
            choose(message, {key: too_old_or_new})


@pytest.mark.parametrize(
    ("message", "offered", "sentence"),
    [
        (fetch("g", "h"), (9, 0, 7), "OffsetFetch (API 9) is needed in versions 8 to 9, and the server offers 0 to 7"),
        (timestamp(-6), (2, 1, 10), "ListOffsets (API 2) is needed in version 11, and the server offers 1 to 10"),
        (Fetch(()), (1, 13, 18), "Fetch (API 1) is needed in versions 4 to 12, and the server offers 13 to 18"),
        (Heartbeat("g", 1, "m"), (1, 0, 1), "the server does not offer Heartbeat (API 12)"),
        (ListNotes("g"), (1, 0, 1), "Kafka's protocol has no ListNotes: ask musterd at its native listener"),
        (Hello(), (1, 0, 1), "Kafka's protocol has no Hello: ask musterd at its native listener"),
    ],
)
def test_what_cannot_be_said_is_named_with_its_versions(
    message: Message, offered: tuple[int, int, int], sentence: str
) -> None:
    with pytest.raises(NoCommonVersion) as raised:
        choose(message, {offered[0]: ApiVersion(*offered)})
    assert str(raised.value) == sentence
