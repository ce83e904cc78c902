"""Histories of groups that the coordinator balances: how they are drawn, what members send, what is meant to differ.
No server runs here."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from interop.differential.allowed import RULES, Case, Rule, first_that_holds
from interop.differential.answers import UNANSWERED, Unlike, brief
from interop.differential.comparing import Comparison, Seen
from interop.differential.connections import Connections
from interop.differential.consumer.generator import IDS, draw, draw_alone
from interop.differential.consumer.orders import BUCKETS, member_ids, order
from interop.differential.consumer.rules import CONSUMER_RULES
from interop.differential.consumer.steps import (
    CONSUMER_ASKS,
    WRONGS,
    Configure,
    DescribeMembers,
    Epoch,
    Follow,
    MemberBeat,
    MemberFetch,
    Owned,
)
from interop.differential.exchanges import Exchange, Side, is_own
from interop.differential.facts import Facts
from interop.differential.generator import CLIENTS, versions
from interop.differential.members import Member, Names
from interop.differential.steps import (
    ASKS,
    Ask,
    Beat,
    Commit,
    Delete,
    DeleteOffsets,
    Describe,
    Find,
    GoOn,
    History,
    Join,
    Leave,
    List,
    Sync,
)
from interop.differential.suites import SUITES
from interop.differential.views import Phase, Profile, Who
from protocol.consumer_protocol import Assignment, TopicPartitions, encode_assignment
from protocol.errors import ErrorCode
from protocol.messages import Message
from protocol.messages.configs import IncrementalAlterConfigs
from protocol.messages.consumer_groups import (
    ConsumerGroupHeartbeat,
    ConsumerGroupHeartbeatReply,
    MemberAssignment,
    TopicIdPartitions,
)
from protocol.messages.groups import HeartbeatReply, JoinGroupReply, SyncGroupReply
from protocol.messages.offsets import OffsetFetch

A, B = b"\1" * 16, b"\2" * 16
TOPIC_IDS = {"differential-a": A, "differential-b": B}
PROFILE = Profile(is_balanced=True, member_ids=("c1-a", "c1-b"), topics=("differential-a",))


def member(profile: Profile = PROFILE) -> Member:
    names = Names(TOPIC_IDS)
    names.make(profile.member_ids)
    return Member(profile, names, 0, 0, ("g0", "g1"))


def beat(step: MemberBeat, one: Member) -> ConsumerGroupHeartbeat:
    request = step.request(one)
    one.asks(request)
    return request


def told(epoch: int, *partitions: int) -> ConsumerGroupHeartbeatReply:
    assignment = MemberAssignment((TopicIdPartitions(A, partitions),))
    return ConsumerGroupHeartbeatReply(member_id="c1-a", member_epoch=epoch, assignment=assignment)


# --- drawing ---


def test_a_seed_always_gives_the_same_history_with_all_requests_and_versions() -> None:
    drawn = [draw(seed) for seed in range(500)]
    assert drawn[:30] == [draw(seed) for seed in range(30)]
    steps = [step for history in drawn for step in history.steps]
    assert {type(step) for step in steps} >= {*ASKS, *CONSUMER_ASKS, Follow, GoOn} - {Find, OffsetFetch} - _replaced()
    for ask in CONSUMER_ASKS:
        found = {step.version for step in steps if isinstance(step, ask)}
        assert found == set(versions(ask)), ask
    assert {step.wrong for step in steps if isinstance(step, MemberBeat)} == {"", *WRONGS}


def _replaced() -> set[type[Ask]]:
    """Members fetch by a step of their own."""
    return {ask for ask in ASKS if ask.api is OffsetFetch}


def test_members_alone_have_no_classic_client_among_them() -> None:
    steps = [step for seed in range(100) for step in draw_alone(seed).steps]
    assert not any(isinstance(step, GoOn | Leave) for step in steps)


def test_no_two_ids_fall_into_one_bucket() -> None:
    ids = [one for ids in IDS for one in ids]
    assert len(set(ids)) == 2 * CLIENTS <= BUCKETS
    with pytest.raises(AssertionError):
        member_ids(BUCKETS, 2)


def test_topics_have_one_order_by_bucket_and_one_by_id() -> None:
    ids = {name: bytes(15) + bytes([number]) for name, number in (("a", 2), ("b", 1), ("c", 3))}
    assert order(ids) == (("b", "a", "c"), ("b", "a", "c"))
    signed = {"a": b"\xff" + bytes(14) + b"\x09", "b": bytes(15) + b"\x01"}
    assert order(signed) == (("b", "a"), ("a", "b")), "halves of an id are signed"
    assert order({"a": A, "b": A}) is None


@pytest.mark.parametrize("name", ["consumer", "consumer-alone"])
def test_both_servers_have_the_same_settings(name: str) -> None:
    suite = SUITES[name]
    assert suite.muster.items() <= suite.kafka.items()


# --- members ---


def test_a_member_follows_the_protocol() -> None:
    one = member()
    step = Follow(version=1)
    joining = step.ask(one)
    assert isinstance(joining, MemberBeat)
    assert is_own(joining)
    request = beat(joining, one)
    assert (request.member_id, request.member_epoch, request.topic_partitions) == ("c1-a", 0, ())
    assert request.subscribed_topic_names == ("differential-a",)
    one.hears(told(2, 0, 1))
    assert (one.phase, one.generation_id, one.told) == (Phase.MEMBER, 2, {"differential-a": (0, 1)})
    assert Follow(version=1, lazy=True).ask(one) == MemberBeat(version=1)
    request = beat(_asked(step, one), one)
    assert (request.member_epoch, request.topic_partitions) == (2, (TopicIdPartitions(A, (0, 1)),))
    one.hears(ConsumerGroupHeartbeatReply(member_id="c1-a", member_epoch=2))
    request = beat(_asked(step, one), one)
    assert (request.topic_partitions, request.subscribed_topic_names) == (None, None)
    one.hears(ConsumerGroupHeartbeatReply(ErrorCode.INVALID_REQUEST))
    assert beat(_asked(step, one), one).subscribed_topic_names == ("differential-a",), "after an error it says all"
    one.hears(ConsumerGroupHeartbeatReply(ErrorCode.FENCED_MEMBER_EPOCH))
    assert (one.phase, one.told, beat(_asked(step, one), one).member_epoch) == (Phase.OUT, {}, 0)
    one.restart()
    assert beat(_asked(step, one), one).member_id == "c1-b"


def _asked(step: Follow, one: Member) -> MemberBeat:
    ask = step.ask(one)
    assert isinstance(ask, MemberBeat)
    return ask


def test_what_a_member_claims_and_who_it_says_it_is() -> None:
    one = member()
    beat(MemberBeat(version=1, epoch=Epoch.JOIN), one)
    one.hears(told(3, 0, 2))

    def claimed(owned: Owned) -> Any:
        claims = MemberBeat(version=1, owned=owned).request(one).topic_partitions
        return claims if claims is None else [(claim.topic_id, claim.partitions) for claim in claims]

    assert claimed(Owned.UNSAID) is None
    assert claimed(Owned.NONE) == claimed(Owned.REPORTED) == []
    assert claimed(Owned.SOME) == [(A, (0,))]
    assert claimed(Owned.EMPTY_TOPIC) == [(A, ())]
    assert len(claimed(Owned.STRANGE)) == 2
    epochs = [MemberBeat(version=1, epoch=epoch).request(one).member_epoch for epoch in Epoch]
    assert epochs == [3, 0, -1, -2, 2, 4, -3]
    assert not any(is_own(MemberBeat(version=1, epoch=epoch)) for epoch in (Epoch.OLD, Epoch.NEW, Epoch.WRONG))
    assert is_own(MemberBeat(version=0, epoch=Epoch.JOIN, who=Who.NONE)), "the coordinator makes the id"
    assert MemberBeat(version=0, regex="x").request(one).subscribed_topic_regex is None


@pytest.mark.parametrize("wrong", WRONGS)
def test_what_is_wrong_is_another_request_and_not_the_members_own(wrong: str) -> None:
    one, plain = member(), MemberBeat(version=1, epoch=Epoch.JOIN)
    broken = MemberBeat(version=1, epoch=Epoch.JOIN, wrong=wrong)
    assert broken.request(one) != plain.request(one)
    assert not is_own(broken)


def test_a_fetch_names_the_member_from_version_nine_and_settings_are_of_the_group() -> None:
    one = member()
    beat(MemberBeat(version=1, epoch=Epoch.JOIN), one)
    one.hears(told(3, 0))
    fetches = [MemberFetch(version=version, who=who).request(one) for version, who in ((8, Who.OWN), (9, Who.OWN))]
    assert [_fetched_by(fetch) for fetch in fetches] == [(None, -1), ("c1-a", 3)]
    assert _fetched_by(MemberFetch(version=9, who=Who.NONE).request(one)) == (None, 3)
    configured = Configure(version=1, settings=(("x", "1"), ("y", None))).request(one)
    assert isinstance(configured, IncrementalAlterConfigs)
    (resource,) = configured.resources
    assert resource.resource_name == "g0"
    assert [(config.config_operation, config.value) for config in resource.configs] == [(0, "1"), (1, None)]


def _fetched_by(request: Any) -> tuple[str | None, int]:
    return request.groups[0].member_id, request.groups[0].member_epoch


def test_an_answer_to_a_heartbeat_in_a_few_words() -> None:
    answer = {"error_code": "NONE", "member_epoch": 3, "assignment": None}
    assert brief(answer) == "epoch 3"
    assert brief({**answer, "assignment": {"topic_partitions": []}}) == "epoch 3, nothing"
    assert brief({**answer, "error_code": "FENCED_MEMBER_EPOCH"}) == "FENCED_MEMBER_EPOCH"


# --- rules ---

BEAT, DESCRIBE = MemberBeat(version=1), DescribeMembers(version=1)


def dealt(*topics: str) -> str:
    whole = Assignment(tuple(TopicPartitions(topic, (0, 1)) for topic in topics))
    return encode_assignment(whole, 0).decode("latin-1")


def whole(ask: Ask, kafka: str, muster: str, **facts: Any) -> Case:
    told = {"error_code": kafka, "generation_id": 0}, {"error_code": muster, "generation_id": 3}
    return Case(ask, Unlike("error_code", kafka, muster), *told, Facts(**facts))


def case(ask: Ask, path: str, kafka: Any, muster: Any, **facts: Any) -> Case:
    return Case(ask, Unlike(path, kafka, muster), {"error_code": "NONE"}, {"error_code": "NONE"}, Facts(**facts))


def refused_fetch(muster: str, **facts: Any) -> Case:
    answers = {"groups": [{"error_code": "NONE"}]}, {"groups": [{"error_code": muster}]}
    return Case(FETCH, Unlike("groups.topics", [{}], []), *answers, Facts(**facts))


CLASSIC_BEAT, JOIN, FETCH = Beat(version=4), Join(version=9), MemberFetch(version=9)
PARKED = Case(
    JOIN, Unlike("the answer", "NONE", UNANSWERED), {"error_code": "NONE", "generation_id": 4}, UNANSWERED, Facts()
)
CASES: Mapping[str, tuple[Case, Case]] = {
    "a pattern, or a member without topics, comes or goes while a target is due": (
        case(BEAT, "assignment.topic_partitions", [], [{}], is_uneven=True),
        case(BEAT, "member_epoch", 4, 5, is_uneven=True),
    ),
    "partitions reported on a connection older than the one of the member's last heartbeat": (
        case(MemberBeat(version=1, who=Who.OTHER, owned=Owned.SOME), "member_epoch", 7, 6),
        case(MemberBeat(version=1, who=Who.OTHER), "member_epoch", 7, 6),
    ),
    "a member that leaves, and had to sync when the group became classic for a while": (
        case(Leave(version=5), "members.error_code", "UNKNOWN_MEMBER_ID", "NONE", owes_step=True, balanced=True),
        case(Leave(version=5), "members.error_code", "NONE", "UNKNOWN_MEMBER_ID", owes_step=True, balanced=True),
    ),
    "a heartbeat on another connection than the one on which its member was told its assignment": (
        case(BEAT, "assignment", None, {"topic_partitions": []})._replace(is_told_elsewhere=True),
        case(BEAT, "assignment", None, {"topic_partitions": []}),
    ),
    "the last member that the coordinator balances is replaced by a classic one": (
        whole(JOIN, "NONE", "NONE"),
        whole(JOIN, "UNKNOWN_MEMBER_ID", "NONE"),
    ),
    "the last member that the coordinator balances becomes classic under its own id and instance": (
        case(JOIN, "generation_id", 4, 6)._replace(ends_balanced=True),
        case(JOIN, "generation_id", 4, 6),
    ),
    "an instance comes back classic while others have still to give up or get partitions": (
        PARKED._replace(ends_balanced=True),
        PARKED,
    ),
    "an upgrade of a group whose assignments cannot be read": (
        whole(BEAT, "UNKNOWN_SERVER_ERROR", "GROUP_ID_NOT_FOUND"),
        whole(BEAT, "UNKNOWN_SERVER_ERROR", "NONE"),
    ),
    "a refused upgrade of a group with parked requests": (
        whole(JOIN, "REBALANCE_IN_PROGRESS", UNANSWERED),
        whole(JOIN, "UNKNOWN_MEMBER_ID", UNANSWERED),
    ),
    "sessions of the last member that the coordinator balances and of a classic one end together": (
        whole(CLASSIC_BEAT, "UNKNOWN_MEMBER_ID", "ILLEGAL_GENERATION"),
        whole(CLASSIC_BEAT, "UNKNOWN_MEMBER_ID", "REBALANCE_IN_PROGRESS"),
    ),
    "the order of topics in a classic member's assignment": (
        case(Sync(version=5), "assignment", dealt("a", "b"), dealt("b", "a")),
        case(Sync(version=5), "assignment", dealt("a", "b"), dealt("a", "c")),
    ),
    "the form of an id that the coordinator makes": (
        case(JOIN, "member_id", "nNOHCKMxQkmNrCpXjNiKNQ", "c1-?"),
        case(JOIN, "member_id", "", "c1-?"),
    ),
    "a refused JoinGroup to a group without members": (
        case(BEAT, "member_epoch", 2, 4, refused_join=True),
        case(BEAT, "member_epoch", 2, 4),
    ),
    "a member that goes over to the consumer protocol before it has synced, or joined again": (
        whole(BEAT, "UNKNOWN_MEMBER_ID", "NONE", went_over=True),
        whole(BEAT, "UNKNOWN_MEMBER_ID", "NONE"),
    ),
    "a classic member that joins again for what it has, and does not sync": (
        whole(CLASSIC_BEAT, "UNKNOWN_MEMBER_ID", "NONE", joined_again=True),
        whole(CLASSIC_BEAT, "UNKNOWN_MEMBER_ID", "NONE"),
    ),
    "a member that had to join again, and did so when the group was classic for a while": (
        whole(CLASSIC_BEAT, "UNKNOWN_MEMBER_ID", "REBALANCE_IN_PROGRESS", owed_join=True),
        whole(CLASSIC_BEAT, "UNKNOWN_MEMBER_ID", "REBALANCE_IN_PROGRESS"),
    ),
    "an instance that is away comes back to a full group under another id": (
        whole(BEAT, "GROUP_MAX_SIZE_REACHED", "NONE")._replace(is_return=True),
        whole(BEAT, "GROUP_MAX_SIZE_REACHED", "NONE"),
    ),
    "a classic member alone with a target that is due": (
        whole(CLASSIC_BEAT, "NONE", "REBALANCE_IN_PROGRESS"),
        whole(CLASSIC_BEAT, "REBALANCE_IN_PROGRESS", "NONE"),
    ),
    "shares of members whose ids the coordinator made": (
        case(BEAT, "assignment.topic_partitions", [0], [1], made_ids=True),
        case(BEAT, "error_code", "NONE", "UNKNOWN_MEMBER_ID", made_ids=True),
    ),
    "a tie between assignors": (
        case(DESCRIBE, "groups.assignor_name", "range", "uniform", assignors=frozenset({"range", "uniform"})),
        case(DESCRIBE, "groups.assignor_name", "range", "uniform", assignors=frozenset({"range"})),
    ),
    "a member that joins again with another instance id": (
        case(BEAT, "error_code", "NONE", "UNKNOWN_MEMBER_ID", renamed=True),
        case(BEAT, "error_code", "NONE", "UNKNOWN_MEMBER_ID"),
    ),
    "a member changes to a pattern that matches nothing": (
        case(DESCRIBE, "groups.group_epoch", 4, 5, unmatched=True),
        case(DESCRIBE, "groups.group_epoch", 5, 4, unmatched=True),
    ),
    "an OffsetFetch with a member epoch and no member id": (
        case(MemberFetch(version=9), "groups.error_code", "UNKNOWN_SERVER_ERROR", "UNKNOWN_MEMBER_ID"),
        case(MemberFetch(version=9), "groups.error_code", "STALE_MEMBER_EPOCH", "UNKNOWN_MEMBER_ID"),
    ),
}


@pytest.mark.parametrize(
    ("ask", "path", "kafka", "muster"),
    [
        (List(version=5), "groups.group_state", "Assigning", "Stable"),
        (DeleteOffsets(version=0), "topics.partitions.error_code", "NONE", "GROUP_SUBSCRIBED_TO_TOPIC"),
        (Join(version=7), "member_id", "c5-e", ""),
        (Join(version=9), "generation_id", 4, 3),
    ],
)
def test_who_looks_on_sees_that_kafka_removed_a_member_that_went_over(
    ask: Ask, path: str, kafka: str | int, muster: str | int
) -> None:
    rules = SUITES["consumer"].rules
    found = first_that_holds(case(ask, path, kafka, muster, went_over=True), rules)
    assert found is not None
    assert found.name == "a member that goes over to the consumer protocol before it has synced, or joined again"
    assert first_that_holds(case(ask, path, kafka, muster), rules) is None


def test_an_instance_returns_when_a_member_of_either_protocol_joins_with_it() -> None:
    one = member(Profile(instance="i1", is_balanced=True, member_ids=("c1-a",), topics=("differential-a",)))
    asks: list[MemberBeat | Join] = [MemberBeat(version=1, epoch=Epoch.JOIN), MemberBeat(version=1), Join(version=9)]
    requests = [ask.request(one) for ask in asks]
    named = [Exchange(0, ask, (request, request)).instance for ask, request in zip(asks, requests, strict=True)]
    assert named[0] == named[2] == "i1"
    assert isinstance(asks[0], MemberBeat)
    beat(asks[0], one)
    one.hears(told(2, 0, 1))
    request = asks[1].request(one)
    assert Exchange(0, asks[1], (request, request)).instance is None, "it is in the group"


@pytest.mark.parametrize("facts", [{"went_classic": True}, {"went_over": True}])
def test_no_fact_about_members_excuses_what_is_wrong_with_offsets(facts: dict[str, Any]) -> None:
    rules = SUITES["consumer"].rules
    lost = case(MemberFetch(version=9), "groups.topics.partitions.committed_offset", 5, -1, **facts)
    failed = case(Commit(version=9), "topics.partitions.error_code", "NONE", "UNKNOWN_SERVER_ERROR", **facts)
    assert first_that_holds(lost, rules) is first_that_holds(failed, rules) is None


def kept(*names: str) -> list[dict[str, str]]:
    return [{"member_id": name} for name in names]


@pytest.mark.parametrize(
    ("name", "shown", "hidden"),
    [
        (
            "sessions of the last member that the coordinator balances and of a classic one end together",
            case(Describe(version=6), "groups.members", kept("c1#1", "c2#1"), kept("c2#1"), balanced=True),
            case(Describe(version=6), "groups.members", kept("c1#1"), kept("c2#1"), balanced=True),
        ),
        (
            "a refused JoinGroup to a group without members",
            whole(BEAT, "GROUP_ID_NOT_FOUND", "UNKNOWN_MEMBER_ID", refused_join=True),
            whole(BEAT, "GROUP_ID_NOT_FOUND", "UNKNOWN_MEMBER_ID"),
        ),
        (
            "a refused JoinGroup to a group without members",
            case(List(version=5), "groups", [], kept("g0"), refused_join=True),
            case(List(version=5), "groups", [], kept("g0")),
        ),
        (
            "shares of members whose ids the coordinator made",
            case(Describe(version=1), "groups.members.member_assignment", "a", "b", made_ids=True),
            case(Describe(version=1), "groups.members.member_assignment", "a", "b"),
        ),
        (
            "a member changes to a pattern that matches nothing",
            case(List(version=5), "groups.group_state", "Stable", "Reconciling", unmatched=True),
            case(List(version=5), "groups.group_state", "Stable", "Reconciling"),
        ),
        (
            "the last member that the coordinator balances becomes classic under its own id and instance",
            whole(Sync(version=5), "REBALANCE_IN_PROGRESS", "UNKNOWN_MEMBER_ID", went_classic=True),
            whole(Sync(version=5), "REBALANCE_IN_PROGRESS", "UNKNOWN_MEMBER_ID"),
        ),
        (
            "a member that goes over to the consumer protocol before it has synced, or joined again",
            case(Commit(version=9), "topics.partitions.error_code", "NONE", "UNKNOWN_MEMBER_ID", went_over=True),
            case(Commit(version=9), "topics.partitions.error_code", "NONE", "UNKNOWN_MEMBER_ID"),
        ),
        (
            "a member that goes over to the consumer protocol before it has synced, or joined again",
            whole(Sync(version=4), "ILLEGAL_GENERATION", "NONE", went_over=True),
            whole(Sync(version=4), "ILLEGAL_GENERATION", "NONE"),
        ),
        (
            "sessions of the last member that the coordinator balances and of a classic one end together",
            whole(Sync(version=5), "REBALANCE_IN_PROGRESS", "UNKNOWN_MEMBER_ID", owes_step=True, balanced=True),
            whole(Sync(version=5), "REBALANCE_IN_PROGRESS", "UNKNOWN_MEMBER_ID", balanced=True),
        ),
        (
            "sessions of the last member that the coordinator balances and of a classic one end together",
            case(FETCH, "groups.error_code", "UNKNOWN_MEMBER_ID", "ILLEGAL_GENERATION", balanced=True, owes_step=True),
            case(FETCH, "groups.error_code", "UNKNOWN_MEMBER_ID", "ILLEGAL_GENERATION", balanced=True),
        ),
        (
            "sessions of the last member that the coordinator balances and of a classic one end together",
            whole(DescribeMembers(version=1), "NONE", "GROUP_ID_NOT_FOUND", owes_step=True, balanced=True),
            whole(DescribeMembers(version=1), "NONE", "GROUP_ID_NOT_FOUND", balanced=True),
        ),
        (
            "sessions of the last member that the coordinator balances and of a classic one end together",
            whole(BEAT, "UNKNOWN_MEMBER_ID", "GROUP_ID_NOT_FOUND", owes_step=True, balanced=True),
            whole(BEAT, "UNKNOWN_MEMBER_ID", "GROUP_ID_NOT_FOUND", owes_step=True),
        ),
        (
            "a refused JoinGroup to a group without members",
            whole(Commit(version=9), "GROUP_ID_NOT_FOUND", "UNKNOWN_MEMBER_ID", refused_join=True),
            whole(Commit(version=9), "UNKNOWN_MEMBER_ID", "GROUP_ID_NOT_FOUND", refused_join=True),
        ),
        (
            "the last member that the coordinator balances becomes classic under its own id and instance",
            refused_fetch("ILLEGAL_GENERATION", went_classic=True),
            refused_fetch("NONE", went_classic=True),
        ),
        (
            "partitions reported on a connection older than the one of the member's last heartbeat",
            case(MemberBeat(version=0, who=Who.OTHER, epoch=Epoch.JOIN), "member_epoch", 5, 3),
            case(MemberBeat(version=0, who=Who.OTHER, epoch=Epoch.JOIN), "member_epoch", 3, 5),
        ),
        (
            "a pattern, or a member without topics, comes or goes while a target is due",
            case(BEAT, "member_epoch", 2, 4, lacks_topics=True)._replace(
                kafka={"assignment": {"topic_partitions": []}}
            ),
            case(BEAT, "member_epoch", 2, 4, is_uneven=True)._replace(kafka={"assignment": {"topic_partitions": []}}),
        ),
        (
            "a refused JoinGroup to a group without members",
            whole(DeleteOffsets(version=0), "GROUP_ID_NOT_FOUND", "NONE", refused_join=True),
            whole(DeleteOffsets(version=0), "GROUP_ID_NOT_FOUND", "NONE"),
        ),
        (
            "a member that goes over to the consumer protocol before it has synced, or joined again",
            whole(Commit(version=9), "OFFSET_METADATA_TOO_LARGE", "ILLEGAL_GENERATION", went_over=True),
            whole(Commit(version=9), "OFFSET_METADATA_TOO_LARGE", "NONE", went_over=True),
        ),
        (
            "a refused upgrade of a group with parked requests",
            whole(Sync(version=1), "REBALANCE_IN_PROGRESS", UNANSWERED),
            whole(Sync(version=1), "UNKNOWN_MEMBER_ID", UNANSWERED),
        ),
        (
            "a member that goes over to the consumer protocol before it has synced, or joined again",
            refused_fetch("UNKNOWN_MEMBER_ID", went_over=True),
            refused_fetch("NONE", went_over=True),
        ),
        (
            "a member that goes over to the consumer protocol before it has synced, or joined again",
            whole(Delete(version=1), "NONE", "NON_EMPTY_GROUP", went_over=True),
            whole(Delete(version=1), "NON_EMPTY_GROUP", "NONE", went_over=True),
        ),
    ],
)
def test_a_rule_allows_the_other_answers_that_show_what_it_is_for(name: str, shown: Case, hidden: Case) -> None:
    rules = SUITES["consumer"].rules
    found = first_that_holds(shown, rules)
    assert found is not None
    assert found.name == name
    assert first_that_holds(hidden, rules) is None


@pytest.mark.parametrize("rule", CONSUMER_RULES, ids=lambda rule: rule.name)
def test_a_rule_allows_what_it_is_for_and_nothing_beside_it(rule: Rule) -> None:
    allowed, forbidden = CASES[rule.name]
    rules = SUITES["consumer"].rules
    assert first_that_holds(allowed, rules) is rule
    assert first_that_holds(forbidden, rules) is None


PAGE = Path(__file__).parents[2] / "docs" / "kafka-differences.md"
WHERE, ALLOWED, NOT_COMPARED = "where", "rule", "not compared"


def table(title: str) -> list[tuple[str, str]]:
    """Return the first two cells of each row of the page's table whose first column has this title."""
    _before, _, rest = PAGE.read_text().partition(f"\n| {title} |")
    rows = rest.partition("\n\n")[0].splitlines()[2:]
    return [(cells[0].strip(), cells[1].strip()) for cells in (row.strip("|").split("|") for row in rows)]


def test_every_rule_has_a_row_among_the_differences_and_every_row_of_them_a_rule() -> None:
    named = [name for title in (ALLOWED, NOT_COMPARED) for name, _ in table(title)]
    assert sorted(named) == sorted(rule.name for rule in (*RULES, *CONSUMER_RULES))


def test_a_rule_allows_a_row_that_the_page_has_or_says_why_it_compares_nothing() -> None:
    rows = {where for where, _ in table(WHERE)}
    assert {row for _, row in table(ALLOWED)} - rows == set()
    assert all(reason for _, reason in table(NOT_COMPARED))


# --- what is learnt of a group ---


def seen(*asked: tuple[Ask, Message, Message]) -> list[Seen]:
    """The differences after requests of two clients, each with the answers of Kafka and musterd."""
    profiles = [Profile(member_ids=(one,), topics=("differential-a",), is_balanced=True) for one in ("c1-a", "c2-a")]
    history = History(0, tuple(profiles), ())
    nowhere = Connections(("127.0.0.1", 1))
    sides = (Side(nowhere, TOPIC_IDS, history, "u-"), Side(nowhere, TOPIC_IDS, history, "u-"))
    comparison = Comparison(history.profiles, sides, "u-", SUITES["consumer"].rules)
    for number, (ask, *answers) in enumerate(asked):
        theirs, ours = [ask.request(side.member(ask)) for side in sides]
        assert theirs is not None
        assert ours is not None
        exchange = Exchange(number, ask, (theirs, ours))
        exchange.answers[:] = answers
        for side, request in zip(sides, exchange.requests, strict=True):
            side.latest[ask.client, ask.group] = exchange
            side.member(ask).asks(request)
        comparison.compare(number, [exchange])
    return comparison.seen


JOINED = JoinGroupReply(generation_id=3, protocol_type="consumer", protocol_name="range", member_id="c1-a")
TOLD_TO_JOIN = HeartbeatReply(ErrorCode.REBALANCE_IN_PROGRESS)
OVER = (MemberBeat(version=1, epoch=Epoch.JOIN), told(4, 0), told(4, 0))
SHOWN = (BEAT, ConsumerGroupHeartbeatReply(ErrorCode.UNKNOWN_MEMBER_ID), told(4, 0))
SYNCED = (Sync(version=5), SyncGroupReply(protocol_type="consumer"), SyncGroupReply(protocol_type="consumer"))


@pytest.mark.parametrize(
    ("steps", "is_explained"),
    [
        ((), True),
        ((SYNCED,), False),
        ((SYNCED, (CLASSIC_BEAT, TOLD_TO_JOIN, TOLD_TO_JOIN)), True),
        (((Sync(version=5), *[SyncGroupReply(ErrorCode.REBALANCE_IN_PROGRESS)] * 2),), True),
    ],
    ids=["unsynced", "synced", "told to join again by Heartbeat", "told to join again by SyncGroup"],
)
def test_kafka_is_expected_to_remove_who_goes_over_with_a_step_to_take(
    steps: tuple[tuple[Ask, Message, Message], ...], is_explained: bool
) -> None:
    (difference, *_) = seen((JOIN, JOINED, JOINED), *steps, OVER, SHOWN)
    assert (difference.rule is not None) == is_explained


@pytest.mark.parametrize("client", [0, 1])
def test_who_was_told_an_assignment_on_another_clients_connection_is_told_it_again(client: int) -> None:
    asked = MemberBeat(version=1, client=client, who=Who.OTHER if client else Who.OWN)
    (difference,) = seen(OVER, (asked, replace(told(4, 0), assignment=None), told(4, 0)))
    assert (difference.rule is not None) == bool(client)
    (difference,) = seen(OVER, (asked, replace(told(4, 0), assignment=None), told(4, 0, 1)))
    assert difference.rule is None, "it is another"


@pytest.mark.parametrize("pattern", ["", "differential-[ab]"])
def test_a_pattern_changes_what_the_assignor_does_before_it_is_resolved(pattern: str) -> None:
    asked = MemberBeat(version=1, full=True, regex=pattern)
    (difference,) = seen(OVER, (asked, told(5, 0), told(5, 1)))
    assert (difference.rule is not None) == bool(pattern)


@pytest.mark.parametrize("others", [0, 1])
def test_a_group_is_taken_for_classic_once_its_last_member_has_gone_over(others: int) -> None:
    second = replace(told(4), member_id="c2-a")
    others_asked = [(MemberBeat(version=1, client=1, epoch=Epoch.JOIN), second, second)]
    gone = (CLASSIC_BEAT, HeartbeatReply(), HeartbeatReply(ErrorCode.UNKNOWN_MEMBER_ID))
    (difference,) = seen(OVER, *others_asked[:others], (JOIN, JOINED, JOINED), gone)
    assert (difference.rule is not None) == (not others)


REMOVED = (CLASSIC_BEAT, HeartbeatReply(ErrorCode.UNKNOWN_MEMBER_ID), HeartbeatReply())
JOINED_CLASSIC = JoinGroupReply(
    generation_id=4, protocol_type="consumer", protocol_name="range", member_id="c1-a", leader="c1-a"
)


FIRST = (JOIN, JOINED, JOINED)
TOLD = (CLASSIC_BEAT, TOLD_TO_JOIN, TOLD_TO_JOIN)
IN_CLASSIC_GROUP = (JOIN, JOINED_CLASSIC, JOINED_CLASSIC)


@pytest.mark.parametrize(
    ("steps", "is_explained"),
    [
        ((SYNCED, FIRST), True),
        ((SYNCED, FIRST, SYNCED), False),
        ((FIRST,), False),
        ((TOLD, IN_CLASSIC_GROUP), True),
        ((TOLD, FIRST), False),
        ((IN_CLASSIC_GROUP,), False),
    ],
    ids=["joined again", "and synced", "never synced", "joined a classic group", "joined in time", "owed nothing"],
)
def test_kafka_is_expected_to_remove_who_takes_a_step_that_does_not_count(
    steps: tuple[tuple[Ask, Message, Message], ...], is_explained: bool
) -> None:
    (difference, *_) = seen(FIRST, *steps, REMOVED)
    assert (difference.rule is not None) == is_explained


MATCHES, UNMATCHED = MemberBeat(version=1, regex="differential-.*"), MemberBeat(version=1, regex="nothing.*")
BEHIND = (BEAT, told(4, 0), told(5, 0, 1))


@pytest.mark.parametrize(
    ("steps", "is_explained"),
    [
        ((OVER, (UNMATCHED, told(5, 0), told(5, 0))), True),
        ((OVER, (MATCHES, told(5, 0), told(5, 0))), False),
        ((OVER, (UNMATCHED, *[ConsumerGroupHeartbeatReply(ErrorCode.FENCED_MEMBER_EPOCH)] * 2)), False),
        (((MemberBeat(version=1, epoch=Epoch.JOIN, regex="nothing.*"), told(4, 0), told(4, 0)),), False),
        ((OVER, (MemberBeat(version=1, epoch=Epoch.LEAVE, wrong="bad pattern"), told(-1), told(-1))), False),
    ],
    ids=["changes to it", "changes to another", "is refused", "joins with it", "leaves with a bad one"],
)
def test_musterd_is_expected_to_be_an_epoch_ahead_once_a_member_matches_nothing(
    steps: tuple[tuple[Ask, Message, Message], ...], is_explained: bool
) -> None:
    (difference, *_) = seen(*steps, BEHIND)
    assert (difference.rule is not None) == is_explained
