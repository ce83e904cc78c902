import pytest

from coordinator.groups.classic.events import Client, JoinAgain, JoinFirst, JoinPending, Sync
from coordinator.groups.classic.group_states import GroupSettings, GroupState
from coordinator.groups.classic.guards import (
    has_room,
    is_current_generation,
    is_member,
    is_same_protocol,
    may_commit,
    may_commit_in_transaction,
    names_no_instance,
    protocols_agree,
)
from coordinator.groups.classic.state import ClassicGroup, Member
from protocol.errors import ErrorCode
from protocol.messages.groups import Heartbeat, JoinProtocol, SyncGroup
from protocol.messages.offsets import OffsetCommit, TxnOffsetCommit
from protocol.session import RequestRef
from tests.groups.bench import RANGE, join

REF, CLIENT = RequestRef(1, 1), Client("c", "/h")
NONE = ErrorCode.NONE


def group(state: GroupState = GroupState.STABLE, *, parked: int = 0, max_size: int = 2) -> ClassicGroup:
    """With the dynamic member `a` and the static member `b#i`; the first `parked` of them have joined again."""
    made = ClassicGroup("g", GroupSettings(max_size=max_size), state=state, generation_id=3)
    made.protocol_type, made.protocol_name = "consumer", "range"
    for number, (member_id, instance) in enumerate((("a", None), ("b", "i"))):
        ref = RequestRef(2, number) if number < parked else None
        made.add(Member(member_id, instance, "c", "/h", 10_000, 60_000, RANGE, join_ref=ref))
    return made


@pytest.mark.parametrize(
    ("state", "parked", "member_id", "fits"),
    [
        (GroupState.EMPTY, 0, "", True),
        (GroupState.STABLE, 0, "", False),
        (GroupState.STABLE, 0, "a", True),
        (GroupState.COMPLETING, 0, "c", False),
        (GroupState.PREPARING, 1, "", True),
        (GroupState.PREPARING, 2, "", False),
        (GroupState.PREPARING, 2, "a", True),
        (GroupState.PREPARING, 2, "c", False),
    ],
)
def test_a_group_has_room_for(state: GroupState, parked: int, member_id: str, fits: bool) -> None:
    refused = has_room(group(state, parked=parked), JoinAgain(REF, join(member_id), CLIENT))
    assert refused is (NONE if fits else ErrorCode.GROUP_MAX_SIZE_REACHED)


def test_a_member_that_has_not_joined_again_is_turned_away_from_a_join_phase_that_is_full() -> None:
    shrunk = group(GroupState.PREPARING, parked=1, max_size=1)
    assert has_room(shrunk, JoinAgain(REF, join("b"), CLIENT)) is ErrorCode.GROUP_MAX_SIZE_REACHED


@pytest.mark.parametrize(
    ("protocol_type", "names", "agrees"),
    [
        ("consumer", ("range",), True),
        ("consumer", ("x", "range"), True),
        ("consumer", ("x",), False),
        ("consumer", (), False),
        ("", ("range",), False),
        ("connect", ("range",), False),
        ("consumer", ("range", "range"), False),
    ],
)
def test_the_protocol_gate_of_a_group_with_members(protocol_type: str, names: tuple[str, ...], agrees: bool) -> None:
    request = join(protocol_type=protocol_type, protocols=tuple(JoinProtocol(name, b"") for name in names))
    refused = protocols_agree(group(), JoinFirst(REF, request, CLIENT))
    assert refused is (NONE if agrees else ErrorCode.INCONSISTENT_GROUP_PROTOCOL)


def test_an_empty_group_takes_any_type_but_still_wants_one() -> None:
    empty = ClassicGroup("g", GroupSettings(), protocol_type="consumer")
    assert protocols_agree(empty, JoinFirst(REF, join(protocol_type="connect"), CLIENT)) is NONE
    for request in (join(protocol_type=""), join(protocols=()), join(protocols=RANGE * 2)):
        assert protocols_agree(empty, JoinFirst(REF, request, CLIENT)) is ErrorCode.INCONSISTENT_GROUP_PROTOCOL


def test_a_name_is_common_only_while_every_member_offers_it() -> None:
    made = group()
    both = (JoinProtocol("rr", b""), *RANGE)
    assert not made.supports((JoinProtocol("rr", b""),))
    for member in made.members.values():
        made.offer(member, both)
    assert made.supports((JoinProtocol("rr", b""),))
    made.offer(made.members["a"], RANGE)
    assert not made.supports((JoinProtocol("rr", b""),))


@pytest.mark.parametrize(
    ("member_id", "instance", "error"),
    [
        ("a", None, NONE),
        ("b", None, NONE),
        ("b", "i", NONE),
        ("a", "i", ErrorCode.FENCED_INSTANCE_ID),
        ("", "i", ErrorCode.FENCED_INSTANCE_ID),
        ("nobody", "i", ErrorCode.FENCED_INSTANCE_ID),
        ("b", "j", ErrorCode.UNKNOWN_MEMBER_ID),
        ("nobody", None, ErrorCode.UNKNOWN_MEMBER_ID),
        ("", None, ErrorCode.UNKNOWN_MEMBER_ID),
    ],
)
def test_the_member_check_in_its_order(member_id: str, instance: str | None, error: ErrorCode) -> None:
    assert is_member(group(), Heartbeat("g", 3, member_id, instance)) is error


@pytest.mark.parametrize(
    ("generation", "error"), [(3, NONE), (2, ErrorCode.ILLEGAL_GENERATION), (-1, ErrorCode.ILLEGAL_GENERATION)]
)
def test_the_generation_must_be_the_present_one(generation: int, error: ErrorCode) -> None:
    assert is_current_generation(group(), Heartbeat("g", generation, "a")) is error


@pytest.mark.parametrize(
    ("protocol_type", "name", "agrees"),
    [
        (None, None, True),
        ("consumer", "range", True),
        ("connect", None, False),
        (None, "rr", False),
        ("consumer", None, True),
    ],
)
def test_what_a_sync_names_must_be_the_groups(protocol_type: str | None, name: str | None, agrees: bool) -> None:
    event = Sync(REF, SyncGroup("g", 3, "a", None, protocol_type, name))
    assert is_same_protocol(group(), event) is (NONE if agrees else ErrorCode.INCONSISTENT_GROUP_PROTOCOL)


def test_what_a_group_has_not_cannot_disagree() -> None:
    bare = ClassicGroup("g", GroupSettings())
    assert is_same_protocol(bare, Sync(REF, SyncGroup("g", 0, "a", None, "consumer", "range"))) is NONE


@pytest.mark.parametrize(
    ("generation", "member_id", "instance", "error"),
    [
        (3, "a", None, NONE),
        (2, "a", None, ErrorCode.ILLEGAL_GENERATION),
        (-1, "a", None, ErrorCode.ILLEGAL_GENERATION),
        (-1, "", None, ErrorCode.UNKNOWN_MEMBER_ID),
        (3, "nobody", None, ErrorCode.UNKNOWN_MEMBER_ID),
        (3, "a", "i", ErrorCode.FENCED_INSTANCE_ID),
        (-1, "", "j", ErrorCode.UNKNOWN_MEMBER_ID),
    ],
)
def test_who_may_commit_to_a_group_with_members(
    generation: int, member_id: str, instance: str | None, error: ErrorCode
) -> None:
    assert may_commit(group(), OffsetCommit("g", (), generation, member_id, instance)) is error


def test_an_empty_group_takes_commits_without_generation_whoever_they_name() -> None:
    empty = ClassicGroup("g", GroupSettings())
    assert may_commit(empty, OffsetCommit("g", (), -1, "x", "i")) is NONE
    assert may_commit(empty, OffsetCommit("g", (), 0, "x")) is ErrorCode.UNKNOWN_MEMBER_ID


@pytest.mark.parametrize(
    ("generation", "member_id", "instance", "error"),
    [
        (-1, "", None, NONE),
        (3, "a", None, NONE),
        (3, "b", "i", NONE),
        (2, "a", None, ErrorCode.ILLEGAL_GENERATION),
        (-1, "a", None, ErrorCode.ILLEGAL_GENERATION),
        (3, "", None, ErrorCode.UNKNOWN_MEMBER_ID),
        (-1, "stranger", None, ErrorCode.UNKNOWN_MEMBER_ID),
        (-1, "", "i", ErrorCode.FENCED_INSTANCE_ID),
        (-1, "", "j", ErrorCode.UNKNOWN_MEMBER_ID),
    ],
)
@pytest.mark.parametrize("state", [GroupState.PREPARING, GroupState.COMPLETING, GroupState.STABLE])
def test_a_transaction_commits_for_a_member_or_for_nobody(
    state: GroupState, generation: int, member_id: str, instance: str | None, error: ErrorCode
) -> None:
    request = TxnOffsetCommit("tx", "g", 7, 0, (), generation, member_id, instance)
    assert may_commit_in_transaction(group(state), request) is error


def test_a_transaction_commits_to_an_empty_group_without_a_generation() -> None:
    empty = ClassicGroup("g", GroupSettings())
    assert may_commit_in_transaction(empty, TxnOffsetCommit("tx", "g", 7, 0, (), -1, "x", "i")) is NONE
    refused = may_commit_in_transaction(empty, TxnOffsetCommit("tx", "g", 7, 0, (), 0, "x"))
    assert refused is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_pending_id_comes_back_without_an_instance() -> None:
    assert names_no_instance(group(), JoinPending(REF, join("p"), CLIENT)) is NONE
    refused = names_no_instance(group(), JoinPending(REF, join("p", group_instance_id="i"), CLIENT))
    assert refused is ErrorCode.UNKNOWN_SERVER_ERROR
