from collections.abc import Sequence
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordinator.groups.classic.group_states import GroupSettings, GroupState
from coordinator.groups.classic.state import ClassicGroup, Member
from coordinator.records.records import CommittedOffset
from coordinator.runtime.expiry_rules import KeepReason, Rule, expires_ms, group_expires_ms, rule_of
from coordinator.runtime.group import Group
from coordinator.runtime.offset_and_metadata import OffsetAndMetadata
from coordinator.runtime.offset_table import OffsetTable
from protocol.consumer_protocol import Subscription, encode_subscription
from protocol.messages.groups import JoinProtocol
from tests.groups.checks import returned

DAY_MS = 86_400_000
WEEK_MS = 7 * DAY_MS
COMMITTED_MS = 100 * DAY_MS
EMPTY_MS = 103 * DAY_MS


def group_in(
    state: GroupState, protocol_type: str | None = "consumer", since_ms: int = EMPTY_MS, topics: Sequence[str] = ("t",)
) -> Group:
    group = ClassicGroup("g", GroupSettings(), state, since_ms, protocol_type=protocol_type)
    if state in (GroupState.PREPARING, GroupState.COMPLETING, GroupState.STABLE):
        group.protocol_name = "range"
        for number, topic in enumerate(topics):
            offer = JoinProtocol("range", encode_subscription(Subscription((topic,))))
            group.add(Member(f"m-{number}", None, "c", "/h", 10_000, 10_000, (offer,)))
    return Group("g", cast(Any, None), group)


def kept(expire_ms: int = -1, commit_ms: int = COMMITTED_MS) -> OffsetAndMetadata:
    return OffsetAndMetadata(5, -1, "", commit_ms, expire_ms)


def when(
    group: Group, topic: str = "t", expire_ms: int = -1, pending: Sequence[tuple[str, int]] = ()
) -> int | KeepReason:
    return expires_ms(rule_of(group), (topic, 0), kept(expire_ms), pending, WEEK_MS)


def test_an_empty_group_counts_from_when_it_became_empty() -> None:
    assert when(group_in(GroupState.EMPTY)) == EMPTY_MS + WEEK_MS
    assert when(group_in(GroupState.EMPTY, "connect")) == EMPTY_MS + WEEK_MS


def test_an_empty_group_that_does_not_know_since_when_counts_from_each_commit() -> None:
    assert when(group_in(GroupState.EMPTY, since_ms=-1)) == COMMITTED_MS + WEEK_MS


def test_a_simple_group_counts_from_each_commit() -> None:
    assert when(group_in(GroupState.EMPTY, None)) == COMMITTED_MS + WEEK_MS


def test_a_stable_consumer_group_keeps_what_any_member_subscribes_to_and_counts_the_rest_from_each_commit() -> None:
    group = group_in(GroupState.STABLE, topics=("t", "u"))
    assert when(group, "t") is KeepReason.SUBSCRIBED
    assert when(group, "u") is KeepReason.SUBSCRIBED
    assert when(group, "other") == COMMITTED_MS + WEEK_MS


@pytest.mark.parametrize("metadata", [b"", b"x", encode_subscription(Subscription(("t",)))[:7]])
def test_a_subscription_that_cannot_be_read_keeps_everything(metadata: bytes) -> None:
    group = group_in(GroupState.STABLE)
    group.classic.add(Member("m-9", None, "c", "/h", 10_000, 10_000, (JoinProtocol("range", metadata),)))
    group.classic.protocol_name = "range"
    assert when(group, "other") is KeepReason.UNREADABLE


@pytest.mark.parametrize("state", [GroupState.PREPARING, GroupState.COMPLETING])
@pytest.mark.parametrize("protocol_type", ["consumer", "connect", None])
def test_while_a_group_rebalances_nothing_expires(state: GroupState, protocol_type: str | None) -> None:
    assert when(group_in(state, protocol_type), "other", expire_ms=1) is KeepReason.REBALANCING


@pytest.mark.parametrize("protocol_type", ["connect", None])
def test_with_members_that_are_no_consumers_nothing_expires(protocol_type: str | None) -> None:
    assert when(group_in(GroupState.STABLE, protocol_type), "other", expire_ms=1) is KeepReason.NO_CONSUMERS


def test_a_retention_of_the_commits_own_counts_alone_where_anything_expires_at_all() -> None:
    for group in (group_in(GroupState.EMPTY), group_in(GroupState.EMPTY, None), group_in(GroupState.EMPTY, "connect")):
        assert when(group, expire_ms=COMMITTED_MS + 1_000) == COMMITTED_MS + 1_000
        assert when(group, expire_ms=COMMITTED_MS + 900 * DAY_MS) == COMMITTED_MS + 900 * DAY_MS
        assert when(group, expire_ms=0) == 0
    stable = group_in(GroupState.STABLE)
    assert when(stable, "t", expire_ms=1) is KeepReason.SUBSCRIBED
    assert when(stable, "other", expire_ms=1) == 1


def test_what_a_transaction_has_pending_is_kept() -> None:
    for group in (group_in(GroupState.EMPTY), group_in(GroupState.EMPTY, None), group_in(GroupState.STABLE)):
        assert when(group, "other", expire_ms=1, pending=[("other", 0)]) is KeepReason.PENDING
        assert isinstance(when(group, "other", pending=[("other", 1), ("t", 0)]), int)


def test_the_longest_retention_is_no_overflow() -> None:
    longest_ms = 2_147_483_647 * 60_000
    rule = Rule(since_ms=2**62)
    assert expires_ms(rule, ("t", 0), kept(), (), longest_ms) == 2**62 + longest_ms


def table_of(*offsets: tuple[str, int, int, int]) -> OffsetTable:
    table = OffsetTable()
    table.set([CommittedOffset("g", topic, index, 1, -1, "", at, expire) for topic, index, at, expire in offsets])
    return table


def test_a_group_goes_with_the_last_of_its_offsets() -> None:
    table = table_of(("t", 0, COMMITTED_MS, -1), ("t", 1, COMMITTED_MS + 5, -1), ("u", 0, 7, -1))
    assert returned(group_expires_ms(group_in(GroupState.EMPTY, None), table, WEEK_MS)) == COMMITTED_MS + 5 + WEEK_MS
    assert returned(group_expires_ms(group_in(GroupState.EMPTY), table, WEEK_MS)) == EMPTY_MS + WEEK_MS
    late = table_of(("t", 0, COMMITTED_MS, EMPTY_MS + 9 * WEEK_MS), ("t", 1, COMMITTED_MS, 1))
    assert returned(group_expires_ms(group_in(GroupState.EMPTY), late, WEEK_MS)) == EMPTY_MS + 9 * WEEK_MS


def test_a_group_without_offsets_goes_at_once_and_one_with_members_never() -> None:
    assert returned(group_expires_ms(group_in(GroupState.EMPTY), OffsetTable(), WEEK_MS)) == 0
    for state in (GroupState.PREPARING, GroupState.COMPLETING, GroupState.STABLE):
        assert returned(group_expires_ms(group_in(state), OffsetTable(), WEEK_MS)) is KeepReason.HAS_MEMBERS


def test_a_group_of_which_a_transaction_has_anything_pending_never_goes() -> None:
    table = table_of(("t", 0, 1, -1))
    table.set_pending(7, [CommittedOffset("g", "u", 0, 1, -1, "", 1)])
    assert returned(group_expires_ms(group_in(GroupState.EMPTY, None), table, WEEK_MS)) is KeepReason.GROUP_PENDING


@given(
    since_ms=st.none() | st.integers(0, 2**53),
    commit_ms=st.integers(0, 2**53),
    expire_ms=st.just(-1) | st.integers(0, 2**53),
    retention_ms=st.integers(1, 2_147_483_647 * 60_000),
    now_ms=st.integers(0, 2**53),
)
def test_it_is_expired_as_the_specification_words_it(
    since_ms: int | None, commit_ms: int, expire_ms: int, retention_ms: int, now_ms: int
) -> None:
    at_ms = expires_ms(Rule(since_ms), ("t", 0), kept(expire_ms, commit_ms), (), retention_ms)
    base_ms = commit_ms if since_ms is None else since_ms
    worded = now_ms >= expire_ms if expire_ms != -1 else now_ms - base_ms >= retention_ms
    assert isinstance(at_ms, int)
    assert (now_ms >= at_ms) is worded
