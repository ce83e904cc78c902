from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from coordinator.clock import Moment
from coordinator.groups.classic.events import Client, DeleteOffsets
from coordinator.groups.classic.group_states import GroupSettings, GroupState
from coordinator.groups.classic.offsets import commit, delete_unsubscribed
from coordinator.groups.classic.state import ClassicGroup, Member
from coordinator.groups.classic.subscriptions import Subscriptions
from coordinator.groups.outcome import Outcome
from coordinator.records.codec import decode, encode
from coordinator.records.records import CommittedOffset, OffsetTombstone
from coordinator.runtime.offset_and_metadata import Committer
from coordinator.runtime.offset_table import OffsetTable
from protocol.consumer_protocol import Subscription, encode_subscription
from protocol.errors import ErrorCode
from protocol.messages.groups import JoinProtocol
from protocol.messages.offsets import (
    OffsetCommit,
    OffsetCommitPartition,
    OffsetCommitTopic,
    OffsetDelete,
    OffsetDeleteTopic,
)
from protocol.session import RequestRef
from tests.groups.checks import CountingIds

REF = RequestRef(1, 1)
NOW = Moment(5_000, 1_700_000_000_000)
NONE, TOO_LARGE = ErrorCode.NONE, ErrorCode.OFFSET_METADATA_TOO_LARGE


def record(partition: int = 0, offset: int = 1, group_id: str = "g", topic: str = "t") -> CommittedOffset:
    return CommittedOffset(group_id, topic, partition, offset, -1, "", 9)


# --- the table of a shard ---


def test_an_offset_is_found_where_it_was_put_and_nowhere_else() -> None:
    table = OffsetTable()
    table.set([record(offset=7)])
    kept = table.get("g", "t", 0)
    assert kept is not None
    assert (kept.offset, kept.leader_epoch, kept.metadata, kept.commit_timestamp_ms) == (7, -1, "", 9)
    assert table.get("g", "t", 1) is table.get("g", "u", 0) is table.get("h", "t", 0) is None


def test_the_last_commit_counts() -> None:
    table = OffsetTable()
    table.set([record(offset=7)])
    table.set([record(offset=3)])
    kept = table.get("g", "t", 0)
    assert kept is not None and kept.offset == 3
    assert table.count == 1


def test_what_is_forgotten_leaves_nothing_of_its_group() -> None:
    table = OffsetTable()
    table.set([record()])
    table.remove("g", "t", 1)
    table.remove("nowhere", "t", 0)
    assert table.count == 1
    table.remove("g", "t", 0)
    assert (table.count, table.groups(), table.topics("g")) == (0, [], {})


_PLACE = st.tuples(st.sampled_from("gh"), st.sampled_from("tu"), st.integers(0, 2))


@given(st.lists(st.tuples(_PLACE, st.none() | st.integers(0, 9)), max_size=40))
def test_the_table_is_a_dictionary(changes: list[tuple[tuple[str, str, int], int | None]]) -> None:
    table, expected = OffsetTable(), dict[tuple[str, str, int], int]()
    for (group_id, topic, partition), offset in changes:
        if offset is None:
            table.remove(group_id, topic, partition)
            expected.pop((group_id, topic, partition), None)
        else:
            table.set([record(partition, offset, group_id, topic)])
            expected[group_id, topic, partition] = offset
    found = {
        (group_id, topic, partition): kept.offset
        for group_id in table.groups()
        for topic, partitions in table.topics(group_id).items()
        for partition, kept in partitions.items()
    }
    assert found == expected
    assert table.count == len(expected)
    for group_id in "gh":
        assert set(table.partitions(group_id)) == {(topic, index) for g, topic, index in expected if g == group_id}


# --- what transactions have pending (docs/spec/group-protocol.md#4.3) ---


class ByPosition:
    """The rule as it is written: every offset with its place in the log, and a marker compares."""

    def __init__(self) -> None:
        self.committed: dict[int, tuple[int, int]] = {}
        self.pending: dict[int, dict[int, tuple[int, int]]] = {}
        self._position = 0

    def commit(self, partition: int, offset: int) -> None:
        self._position += 1
        self.committed[partition] = self._position, offset

    def pend(self, producer_id: int, partition: int, offset: int) -> None:
        self._position += 1
        self.pending.setdefault(producer_id, {})[partition] = self._position, offset

    def end(self, producer_id: int, is_committed: bool) -> None:
        for partition, found in self.pending.pop(producer_id, {}).items():
            if is_committed and found > self.committed.get(partition, (0, 0)):
                self.committed[partition] = found

    def remove(self, partition: int) -> None:
        self.committed.pop(partition, None)
        for partitions in self.pending.values():
            partitions.pop(partition, None)


_PARTITION, _PRODUCER = st.integers(0, 1), st.integers(1, 3)
_CHANGES = st.lists(
    st.one_of(
        st.tuples(st.just("commit"), _PARTITION, st.integers(0, 99)),
        st.tuples(st.just("pend"), _PRODUCER, _PARTITION, st.integers(0, 99)),
        st.tuples(st.just("end"), _PRODUCER, st.booleans()),
        st.tuples(st.just("remove"), _PARTITION),
    ),
    max_size=30,
)


@given(_CHANGES)
def test_what_is_newer_in_the_log_counts_though_nobody_keeps_positions(changes: list[tuple[Any, ...]]) -> None:
    table, expected = OffsetTable(), ByPosition()
    for verb, *words in changes:
        getattr(expected, verb)(*words)
        if verb == "commit":
            table.set([record(*words)])
        elif verb == "pend":
            table.set_pending(words[0], [record(*words[1:])])
        elif verb == "end":
            table.end_transaction(words[0], is_committed=words[1])
        else:
            table.remove("g", "t", words[0])
        committed = table.topics("g").get("t", {})
        assert {index: kept.offset for index, kept in committed.items()} == {
            index: offset for index, (_position, offset) in expected.committed.items()
        }
        pending = {(index, producer) for producer, found in expected.pending.items() for index in found}
        assert {(i, producer) for (_t, i), them in table.pending.of("g").items() for producer in them} == pending
        assert set(table.partitions("g")) == {("t", i) for i in {*committed, *(index for index, _ in pending)}}
        assert table.holds("g") is bool(committed or pending)
        assert bool(table.pending) is bool(pending)
        assert table.count == len(committed)


def test_a_marker_says_whose_offsets_it_decided() -> None:
    table = OffsetTable()
    table.set_pending(7, [record(group_id="g"), record(group_id="h"), record(1, group_id="g")])
    table.set_pending(8, [record(group_id="i")])
    assert table.end_transaction(9, is_committed=True) == []
    assert table.end_transaction(7, is_committed=True) == ["g", "h"]
    assert table.groups() == ["g", "h"]
    assert table.end_transaction(8, is_committed=False) == ["i"]
    assert not table.holds("i")


def test_an_offset_committed_in_a_transaction_names_its_sender_and_the_one_before() -> None:
    table, sender = OffsetTable(), Committer("m", 3, Client("etl", "/10.0.0.1"))
    table.set([record(offset=4)])
    table.set_pending(7, [record(offset=9), record(1, offset=2)], sender)
    assert table.origin_of("g", "t", 0) is None, "it is pending"
    (_group, _topic, _partition, producers), *_ = table.pending.dump()[0]
    assert [kept.committer for _producer, kept in producers if kept is not None] == [None], "the log has no sender"
    table.end_transaction(7, is_committed=True)
    assert table.origin_of("g", "t", 0) == (4, sender, -1)
    assert table.origin_of("g", "t", 1) == (-1, sender, -1)
    table.set_pending(7, [record(offset=9)], sender)
    table.end_transaction(7, is_committed=True)
    assert table.origin_of("g", "t", 0) == (9, sender, 9), "the time of the commit before"


# --- what a group makes of a commit ---


def parts(*metadata: str | None, timestamp_ms: int = -1) -> tuple[OffsetCommitTopic, ...]:
    return (
        OffsetCommitTopic(
            "t",
            tuple(OffsetCommitPartition(index, 10, 3, text, timestamp_ms) for index, text in enumerate(metadata)),
        ),
    )


def make(topics: tuple[OffsetCommitTopic, ...], group: ClassicGroup | None = None, **fields: Any) -> tuple[Any, Any]:
    """The reply and the records."""
    records: list[CommittedOffset] = []
    reply = commit(group or ClassicGroup("g", GroupSettings()), OffsetCommit("g", topics, **fields), NOW, records)
    return reply, records


def test_a_commit_is_a_record_a_partition_in_one_batch() -> None:
    _reply, records = make(parts(None, "note"))
    assert records == [
        CommittedOffset("g", "t", 0, 10, 3, "", NOW.wall_ms),
        CommittedOffset("g", "t", 1, 10, 3, "note", NOW.wall_ms),
    ]


@pytest.mark.parametrize(
    ("metadata", "error"),
    [
        ("x" * 4096, NONE),
        ("x" * 4097, TOO_LARGE),
        ("\u00e9" * 4096, NONE),
        ("\U0001f600" * 2048, NONE),
        ("\U0001f600" * 2049, TOO_LARGE),
    ],
    ids=["as long as allowed", "one more", "two bytes each", "two units each", "two units each, one more"],
)
def test_metadata_is_measured_in_javas_characters(metadata: str, error: ErrorCode) -> None:
    reply, records = make(parts(metadata, "short"))
    assert [part.error_code for part in reply.topics[0].partitions] == [error, NONE]
    assert len(records) == (2 if error is NONE else 1)


@pytest.mark.parametrize(("retention_ms", "topic_id"), [(-1, b"1" * 16), (1_000, None)])
def test_the_topics_id_is_recorded_unless_the_records_form_has_none(retention_ms: int, topic_id: bytes | None) -> None:
    part = OffsetCommitPartition(0, 10)
    _reply, (kept,) = make((OffsetCommitTopic("t", (part,), b"1" * 16),), retention_time_ms=retention_ms)
    assert kept.topic_id == topic_id
    assert decode(*encode(kept)) == kept


def test_ids_of_topics_are_kept_once_with_their_names_until_they_are_forgotten() -> None:
    table = OffsetTable()
    for partition in range(3):
        table.set([replace(record(partition), topic_id=bytes(bytearray(b"1" * 16)))])
    assert table.topic_names == {b"1" * 16: "t"}
    assert len({id(kept.topic_id) for kept in table.topics("g")["t"].values()}) == 1
    table.forget_id(b"1" * 16)
    assert table.topic_names == {}


@pytest.mark.parametrize(("retention_ms", "expires_ms"), [(-1, -1), (0, NOW.wall_ms), (1_000, NOW.wall_ms + 1_000)])
def test_a_retention_named_by_the_commit_is_kept_with_it(retention_ms: int, expires_ms: int) -> None:
    _reply, (kept,) = make(parts("x"), retention_time_ms=retention_ms)
    assert kept.expire_timestamp_ms == expires_ms


def test_a_commit_may_name_its_own_time() -> None:
    _reply, (kept,) = make(parts("x", timestamp_ms=77))
    assert kept.commit_timestamp_ms == 77


def group_of(*metadata: bytes, protocol_type: str = "consumer", protocol_name: str | None = "range") -> ClassicGroup:
    group = ClassicGroup(
        "g", GroupSettings(), state=GroupState.STABLE, protocol_type=protocol_type, protocol_name=protocol_name
    )
    for number, data in enumerate(metadata):
        group.add(Member(f"m{number}", None, "c", "/h", 10_000, 60_000, (JoinProtocol("range", data),)))
    return group


def test_a_member_that_commits_is_alive_even_if_every_partition_is_refused() -> None:
    group = group_of(b"")
    group.members["m0"].deadline_ms = 6_000
    _reply, records = make(parts("x" * 4097), group, generation_id=0, member_id="m0")
    assert group.members["m0"].deadline_ms == NOW.monotonic_ms + 10_000
    assert not records


def test_a_commit_never_brings_a_deadline_nearer() -> None:
    group = group_of(b"")
    group.members["m0"].deadline_ms = 300_000
    make(parts("x"), group, generation_id=0, member_id="m0")
    assert group.members["m0"].deadline_ms == 300_000


# --- what it subscribes to, and deletions ---

FOO, BAR = (encode_subscription(Subscription((name,))) for name in ("foo", "bar"))


def subscribed_topics(group: ClassicGroup) -> Any:
    return Subscriptions(group).topics()


def test_a_group_subscribes_to_what_its_members_do() -> None:
    assert subscribed_topics(group_of(FOO, BAR)) == frozenset({"foo", "bar"})
    assert subscribed_topics(group_of()) == frozenset()


@pytest.mark.parametrize("broken", [b"", b"\x00", b"\x00\x00", b"\x00\x00\x00\x00\x00\x05", FOO[:-12]])
def test_one_subscription_that_does_not_parse_makes_them_unknown(broken: bytes) -> None:
    assert subscribed_topics(group_of(FOO, broken)) is None


def test_before_the_first_generation_they_are_unknown() -> None:
    assert subscribed_topics(group_of(FOO, protocol_name=None)) is None


@pytest.mark.parametrize("version", [b"\x00\x00", b"\x00\x03", b"\x7f\xff", b"\xff\xff"])
def test_a_subscription_is_read_as_the_version_that_begins_every_version(version: bytes) -> None:
    as_0 = encode_subscription(Subscription(("foo",)), version=0)
    assert subscribed_topics(group_of(version + as_0[2:] + b"and broken")) == frozenset({"foo"})


def deleted(group: ClassicGroup) -> Any:
    request = OffsetDelete("g", (OffsetDeleteTopic("foo", (0,)), OffsetDeleteTopic("bar", (0, 0, 1))))
    out = Outcome(NOW, CountingIds())
    known = frozenset({("foo", 0), ("bar", 0)})
    delete_unsubscribed(group, DeleteOffsets(REF, request, known, subscribed_topics(group)), out)
    return out


def test_what_is_subscribed_stays_and_what_has_an_offset_goes_once() -> None:
    out = deleted(group_of(FOO))
    assert out.records == [OffsetTombstone("g", "bar", 0)]
    assert [[part.error_code for part in topic.partitions] for topic in out.replies[0].reply.topics] == [
        [ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC],
        [NONE, NONE, NONE],
    ]


def test_where_subscriptions_are_unknown_all_stays() -> None:
    out = deleted(group_of(b""))
    assert not out.records


def test_groups_of_other_types_delete_nothing_while_they_have_members() -> None:
    out = deleted(group_of(FOO, protocol_type="connect"))
    assert out.replies[0].reply.error_code is ErrorCode.NON_EMPTY_GROUP
    assert not out.records
