"""Random histories: how they are drawn, played, compared and shrunk. No server runs here."""

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from interop.differential.allowed import RULES, Case, Rule, first_that_holds
from interop.differential.answers import UNANSWERED, Unlike, brief, normal, unlike
from interop.differential.comparing import Seen
from interop.differential.connections import Connections
from interop.differential.consumer.steps import Configure
from interop.differential.exchanges import Side
from interop.differential.facts import Facts
from interop.differential.generator import CLIENTS, draw, unspoken, versions
from interop.differential.members import Member, Names
from interop.differential.player import Outcome, Player
from interop.differential.report import text
from interop.differential.rounds import Example, Result
from interop.differential.shrinking import shrunk
from interop.differential.steps import (
    ASKS,
    Ask,
    Beat,
    Commit,
    DeleteOffsets,
    Describe,
    GoOn,
    History,
    Join,
    Leave,
    Restart,
    Step,
    Sync,
    Wait,
)
from interop.differential.views import REBALANCE_PART, SESSION_PART, TICK_MS, Phase, Profile, Who
from protocol.apis import BY_MESSAGE
from protocol.errors import ErrorCode
from protocol.messages import Message
from protocol.messages.configs import (
    DescribeConfigs,
    DescribeConfigsReply,
    DescribedConfig,
    DescribedConfigs,
    IncrementalAlterConfigs,
    IncrementalAlterConfigsReply,
    ResourceType,
)
from protocol.messages.groups import (
    DescribedMember,
    Heartbeat,
    HeartbeatReply,
    JoinGroup,
    JoinGroupMember,
    JoinGroupReply,
    LeaveGroup,
    ListedGroup,
    ListGroupsReply,
    SyncGroup,
    SyncGroupReply,
)
from protocol.messages.offsets import OffsetCommitReply, OffsetCommitTopicReply

IDS = {"differential-a": b"\1" * 16, "differential-b": b"\2" * 16}
PLAIN = Profile()
MADE = "c1-01234567-89ab-cdef-0123-456789abcdef"


# --- drawing ---


def test_a_seed_always_gives_the_same_history_and_another_seed_another() -> None:
    assert [draw(seed) for seed in range(30)] == [draw(seed) for seed in range(30)]
    assert len({draw(seed) for seed in range(30)}) == 30


def test_all_clients_requests_and_versions_are_drawn() -> None:
    drawn = [step for seed in range(400) for step in draw(seed).steps]
    kinds = {type(step) for step in drawn}
    assert kinds == {*ASKS, GoOn, Restart, Wait}
    assert {step.client for step in drawn} == set(range(CLIENTS))
    for ask in ASKS:
        found = {step.version for step in drawn if isinstance(step, ask)}
        if ask is Join:
            found |= {step.join_version for step in drawn if isinstance(step, GoOn)}
        assert found == set(versions(ask)), ask


def test_a_server_that_does_not_speak_a_version_is_named() -> None:
    spoken = {BY_MESSAGE[ask.api].key: versions(ask) for ask in ASKS}
    assert unspoken(spoken) == []
    assert unspoken({**spoken, BY_MESSAGE[Heartbeat].key: range(4)}) == ["Heartbeat v4"]


def test_no_timeout_ends_while_requests_are_made() -> None:
    """Directly, or up to three one after another: later than a tick's first part, and before the next tick."""
    for profile in (profile for seed in range(100) for profile in draw(seed).profiles):
        parts = [ms % TICK_MS / TICK_MS for ms in (profile.session_ms, profile.rebalance_ms)]
        assert parts == [pytest.approx(SESSION_PART), pytest.approx(REBALANCE_PART)]
    assert min(SESSION_PART, REBALANCE_PART) > 0.15
    assert 3 * max(SESSION_PART, REBALANCE_PART) + REBALANCE_PART + 0.15 < 1


# --- comparing ---


def test_ids_addresses_and_sentences_are_not_compared() -> None:
    names = Names(IDS)
    names.give(MADE, 0, 0)
    told = JoinGroupReply(generation_id=1, leader=MADE, member_id=MADE, members=(JoinGroupMember(MADE, None, b"x"),))
    plain = normal(told, names, "run-")
    assert (plain["leader"], plain["member_id"], plain["members"][0]["member_id"]) == ("c1#1",) * 3
    unnamed = normal(DescribedMember("c4-" + MADE[3:], None, "c4", "/127.0.0.1"), names, "run-")
    assert unnamed["member_id"] == "c4-?"


def test_an_id_is_named_once_and_the_next_one_of_a_client_is_another() -> None:
    names = Names(IDS)
    for member_id in ("a", "b", "a", ""):
        names.give(member_id, 2, 1)
    assert [names.of(one) for one in ("a", "b", "")] == ["c3#1/1", "c3#2/1", None]
    assert names.client_of("b") == 2


def test_topics_have_their_names_and_groups_of_other_runs_are_left_out() -> None:
    reply = OffsetCommitReply((OffsetCommitTopicReply("", (), IDS["differential-b"]),))
    assert normal(reply, Names(IDS), "run-")["topics"][0]["topic_id"] == "differential-b"
    listed = ListGroupsReply(groups=(ListedGroup("run-g0", "consumer", "Empty"), ListedGroup("x-g0", "", "Empty")))
    assert [one["group_id"] for one in normal(listed, Names(IDS), "run-")["groups"]] == ["g0"]


def test_differences_say_where_they_are_and_the_order_of_lists_is_none() -> None:
    assert list(unlike({"a": [1, {"b": 2}]}, {"a": [1, {"b": 3}]})) == [Unlike("a.b", 2, 3)]
    assert list(unlike({"a": 1}, UNANSWERED)) == [Unlike("the answer", {"a": 1}, UNANSWERED)]
    one, other = JoinGroupMember("i-1", None, b""), JoinGroupMember("i-2", None, b"")
    both = [normal(JoinGroupReply(members=members), Names(IDS), "") for members in ((one, other), (other, one))]
    assert list(unlike(*both)) == []
    assert brief("\x00\x03topic\xff") == ".topic."
    assert brief(both[0]) == "NONE" and brief({"error_code": "NONE", "generation_id": 3}) == "NONE generation 3"


NO_FACTS = Facts()
JOIN, SYNC, BEAT = Join(version=9), Sync(version=5), Beat(version=4)
KEPT = Facts(leaders_before=("c1#1", "c1#1"), leaders=("c1#1", "c2#1"))
CHOSEN = Facts(leaders_before=("c1#1", "c1#1"), leaders=("c2#1", "c3#1"))
RANGE_FIRST, ROUND_FIRST = ("range", "roundrobin"), ("roundrobin", "range")


def offering(*protocols: tuple[str, ...]) -> Facts:
    everybody = frozenset(range(len(protocols)))
    profiles = tuple(Profile(instance=f"i{number}", protocols=one) for number, one in enumerate(protocols))
    return Facts(rosters=(everybody, everybody), profiles=profiles)


def whole(ask: Any, kafka: str, muster: str, facts: Facts = NO_FACTS, **known: Any) -> Case:
    """Answers that differ in their errors, or in whether there is one."""
    theirs, ours = (one if one == UNANSWERED else {"error_code": one} for one in (kafka, muster))
    (difference,) = unlike(theirs, ours)
    return Case(ask, difference, theirs, ours, facts)._replace(**known)


def field(ask: Any, path: str, kafka: Any, muster: Any, facts: Facts = NO_FACTS) -> Case:
    return Case(ask, Unlike(path, kafka, muster), {"error_code": "NONE"}, {"error_code": "NONE"}, facts)


def shown(kafka: str, muster: str, *members: Any) -> Case:
    theirs, ours = ({"groups": [{"group_state": state, "members": list(members)}]} for state in (kafka, muster))
    (difference,) = unlike(theirs, ours)
    return Case(Describe(version=6), difference, theirs, ours)


CASES: Mapping[str, tuple[Case, Case]] = {
    "another leader is chosen": (
        field(JOIN, "leader", "c2#1", "c3#1", CHOSEN),
        field(JOIN, "leader", "c1#1", "c2#1", KEPT),  # Kafka kept the leader: musterd should have
    ),
    "a leader that only one server has syncs": (
        whole(SYNC, "NONE", UNANSWERED, CHOSEN),
        whole(SYNC, "NONE", "ILLEGAL_GENERATION", CHOSEN),
    ),
    "a tie between protocols": (
        field(JOIN, "protocol_name", "range", "roundrobin", offering(RANGE_FIRST, ROUND_FIRST)),
        field(JOIN, "protocol_name", "range", "roundrobin", offering(RANGE_FIRST, RANGE_FIRST, ROUND_FIRST)),
    ),
    "a tie between protocols once a static member is back": (
        whole(JOIN, "NONE", UNANSWERED, offering(RANGE_FIRST, ROUND_FIRST), is_return=True),
        whole(JOIN, "NONE", UNANSWERED, offering(RANGE_FIRST, RANGE_FIRST), is_return=True),
    ),
    "a session and a rebalance that end together": (
        shown("PreparingRebalance", "Empty"),
        shown("PreparingRebalance", "Empty", {"member_id": "c1#1"}),
    ),
    "a second JoinGroup or SyncGroup of the same member": (
        whole(JOIN, UNANSWERED, "REBALANCE_IN_PROGRESS", is_superseded=True),
        whole(JOIN, UNANSWERED, "REBALANCE_IN_PROGRESS"),
    ),
    "a parked SyncGroup of a member that was removed": (
        whole(SYNC, UNANSWERED, "UNKNOWN_MEMBER_ID"),
        whole(SYNC, "NONE", "UNKNOWN_MEMBER_ID"),
    ),
    "a static member restarts into a full group": (
        whole(JOIN, "GROUP_MAX_SIZE_REACHED", "NONE", is_return=True),
        whole(JOIN, "GROUP_MAX_SIZE_REACHED", "NONE"),
    ),
    "a full group turns a member away that the others wait for": (
        whole(JOIN, UNANSWERED, "NONE", Facts(turned_away=True)),
        whole(JOIN, "NONE", UNANSWERED, Facts(turned_away=True)),
    ),
    "a static member is replaced before it has synced": (
        whole(SYNC, "REBALANCE_IN_PROGRESS", "UNKNOWN_MEMBER_ID", Facts(owes_sync=True)),
        whole(SYNC, "REBALANCE_IN_PROGRESS", "UNKNOWN_MEMBER_ID"),
    ),
    "the client id of a replaced static member": (
        field(Describe(version=6), "groups.members.client_id", "c1", "c2", Facts(replaced=True)),
        field(Describe(version=6), "groups.members.client_id", "c1", "c2"),
    ),
    "a member id that has not joined leaves": (
        whole(BEAT, "REBALANCE_IN_PROGRESS", "NONE", Facts(pending_left=True)),
        whole(BEAT, "REBALANCE_IN_PROGRESS", "NONE"),
    ),
    "a commit of which nothing is stored": (
        field(Describe(version=6), "groups.group_state", "Empty", "Dead", Facts(nothing_stored=True)),
        field(Describe(version=6), "groups.group_state", "Empty", "Dead"),
    ),
    "topics of a member that is just joining, or is back": (
        field(DeleteOffsets(version=0), "topics.e", "NONE", "GROUP_SUBSCRIBED_TO_TOPIC", Facts(is_joining=True)),
        field(DeleteOffsets(version=0), "topics.e", "NONE", "GROUP_SUBSCRIBED_TO_TOPIC"),
    ),
    "the session of a static member that missed a rebalance": (
        whole(BEAT, "NONE", "UNKNOWN_MEMBER_ID", Facts(missed_rebalance=True)),
        whole(BEAT, "NONE", "UNKNOWN_MEMBER_ID"),
    ),
}


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_a_rule_allows_what_it_is_for_and_nothing_beside_it(rule: Rule) -> None:
    allowed, forbidden = CASES[rule.name]
    assert first_that_holds(allowed) is rule
    assert first_that_holds(forbidden) is None


def test_a_commit_of_nobody_finds_the_group_that_a_refused_commit_left_at_kafka() -> None:
    path, here, there = "topics.partitions.error_code", "UNKNOWN_MEMBER_ID", "GROUP_ID_NOT_FOUND"
    allowed = first_that_holds(field(Commit(version=9), path, here, there, Facts(nothing_stored=True)))
    assert allowed is not None
    assert allowed.name == "a commit of which nothing is stored"
    assert first_that_holds(field(Commit(version=9), path, here, there)) is None
    assert first_that_holds(field(Commit(version=9), path, there, here, Facts(nothing_stored=True))) is None


def test_no_rule_allows_an_error_where_there_is_none() -> None:
    assert first_that_holds(whole(Commit(version=8), "NONE", "ILLEGAL_GENERATION", CHOSEN)) is None


# --- members ---


def asked(ask: Ask, one: Member) -> Any:
    """The request, typed loosely, since each test knows which it is."""
    return ask.request(one)


def member(profile: Profile = PLAIN) -> Member:
    return Member(profile, Names(IDS), 0, 0, ("g0", "g1"))


def test_a_member_goes_on_by_what_it_is_answered() -> None:
    one, go_on = member(), GoOn(client=0, join_version=9, sync_version=5, heartbeat_version=4)
    assert go_on.ask(one) == Join(client=0, version=9)
    one.hears(JoinGroupReply(error_code=ErrorCode.MEMBER_ID_REQUIRED, member_id=MADE))
    assert asked(Join(version=9), one).member_id == MADE
    one.asks(JoinGroup("g0", 1))
    assert go_on.ask(one) is None
    line = JoinGroupMember(MADE, None, b"")
    one.name(MADE)
    one.hears(JoinGroupReply(generation_id=4, leader=MADE, member_id=MADE, members=(line,)))
    sync = go_on.ask(one)
    assert isinstance(sync, Sync)
    request = sync.request(one)
    assert isinstance(request, SyncGroup)
    assert [share.assignment for share in request.assignments] == [b"c1#1 in 4"]
    one.hears(SyncGroupReply())
    assert (one.phase, go_on.ask(one)) == (Phase.MEMBER, Beat(client=0, version=4))
    one.hears(HeartbeatReply(ErrorCode.REBALANCE_IN_PROGRESS))
    assert (one.phase, one.member_id) == (Phase.OUT, MADE)
    one.hears(JoinGroupReply(error_code=ErrorCode.UNKNOWN_MEMBER_ID))
    assert (one.phase, one.member_id) == (Phase.OUT, "")


def test_a_member_names_its_instance_only_once_it_has_joined_with_it() -> None:
    one = member(Profile(instance="i1"))
    one.asks(asked(Join(version=4), one))
    assert asked(Beat(version=4), one).group_instance_id is None
    one.asks(asked(Join(version=5), one))
    assert asked(Beat(version=4), one).group_instance_id == "i1"
    assert asked(Beat(version=2), one).group_instance_id is None
    left = Leave(version=5, by="instance", whom=(Who.OWN,)).request(one)
    assert isinstance(left, LeaveGroup)
    assert [(gone.member_id, gone.group_instance_id) for gone in left.members] == [("", "i1")]


# --- playing ---


class Answering(Connections):
    """A server that answers each request by a function; None leaves it unanswered."""

    def __init__(self, answer: Callable[[Message], Message | None]) -> None:
        super().__init__(("nowhere", 0))
        self._answer = answer

    async def ask(self, client_id: str, message: Message, version: int, heard: Callable[[Any], None]) -> None:
        reply = self._answer(message)
        if reply is not None:
            heard(reply)


def told(history: History, kafka: Callable[[Message], Message | None], muster: Any) -> Outcome:
    sides = [Side(Answering(answer), IDS, history, "run-") for answer in (kafka, muster)]
    return asyncio.run(Player(history, (sides[0], sides[1]), "run-").play())


def shows(heartbeat_ms: int) -> Callable[[Message], Message | None]:
    """A server that accepts every setting, and shows this one."""
    shown = DescribedConfig("consumer.heartbeat.interval.ms", str(heartbeat_ms))

    def answer(message: Message) -> Message:
        if isinstance(message, IncrementalAlterConfigs):
            return IncrementalAlterConfigsReply()
        if isinstance(message, Heartbeat):
            return HeartbeatReply()
        assert isinstance(message, DescribeConfigs)
        return DescribeConfigsReply((DescribedConfigs(ResourceType.GROUP, "g", configs=(shown,)),))

    return answer


@pytest.mark.parametrize("theirs", [5_000, 3_000])
def test_a_run_in_which_kafka_does_not_show_a_setting_in_time_says_nothing(theirs: int) -> None:
    altered = history(Configure(version=1, settings=(("consumer.heartbeat.interval.ms", "3000"),)))
    outcome = told(altered, shows(theirs), shows(3_000))
    assert outcome.is_late == (theirs != 3_000)
    assert not outcome.seen


def beats(error: ErrorCode) -> Callable[[Message], Message | None]:
    return lambda message: HeartbeatReply(error if getattr(message, "member_id", "") != "barrier" else ErrorCode.NONE)


def history(*steps: Step) -> History:
    return History(0, (PLAIN,) * CLIENTS, steps)


def test_a_difference_that_nothing_explains_ends_a_run() -> None:
    outcome = told(history(BEAT, BEAT), beats(ErrorCode.NONE), beats(ErrorCode.ILLEGAL_GENERATION))
    assert outcome.ended == 0
    assert outcome.unexplained is not None
    assert outcome.unexplained.kind == "Heartbeat, error_code: Kafka NONE, Muster ILLEGAL_GENERATION"
    assert outcome.lines == ("0: c1 Heartbeat: Kafka NONE, Muster ILLEGAL_GENERATION",)


def test_a_run_without_differences_goes_to_its_end() -> None:
    outcome = told(history(BEAT, BEAT), beats(ErrorCode.NONE), beats(ErrorCode.NONE))
    assert (outcome.ended, outcome.seen, outcome.asked) == (None, (), {"Heartbeat": 2})


def test_an_answer_that_one_server_alone_gives_is_a_difference() -> None:
    def silent(message: Message) -> Message | None:
        return None if getattr(message, "member_id", "") != "barrier" else HeartbeatReply()

    outcome = told(history(BEAT), beats(ErrorCode.NONE), silent)
    assert outcome.unexplained is not None
    assert outcome.unexplained.unlike.text() == "the answer: Kafka NONE, Muster no answer"


# --- shrinking and reporting ---


def test_a_history_is_shrunk_to_the_steps_it_needs() -> None:
    needed = [Beat(client=3, version=1), Beat(client=5, version=2)]
    others: list[Step] = [Describe(version=number % 7) for number in range(20)]
    long = history(*others, needed[0], *others, Wait(), needed[1], *others)

    async def shows(tried: History) -> int | None:
        places = [number for number, step in enumerate(tried.steps) if step in needed]
        return places[-1] if len(places) == len(needed) else None

    found = asyncio.run(shrunk(long, shows))
    assert found is not None
    assert found.steps == tuple(needed)


def test_what_does_not_come_again_is_not_shrunk() -> None:
    async def never(_: History) -> int | None:
        return None

    assert asyncio.run(shrunk(history(BEAT), never)) is None


def test_the_report_names_what_is_explained_and_what_is_not() -> None:
    rule = RULES[0]
    odd = Seen(0, "Heartbeat", 4, Unlike("error_code", "NONE", "ILLEGAL_GENERATION"), None)
    meant = Seen(0, "JoinGroup", 9, Unlike("leader", "c1#1", "c2#1"), rule)
    lines = ("0: c1 Heartbeat: Kafka NONE, Muster ILLEGAL_GENERATION",)
    examples = {one.kind: Example(one, history(BEAT), lines) for one in (odd, meant)}
    result = Result(7, {"Heartbeat": 9}, {odd.kind: 2, rule.name: 1}, examples, 4, [5], ["gone (seed 3)"])
    report = text(result, "command")
    assert "1 kinds of differences that are meant, 1 that are not" in report
    assert f"NOT EXPLAINED, in 2 histories: {odd.kind}" in report
    assert f"{rule.name}: in 1 history\n  {rule.reason}" in report
    assert "0. c1 Beat version=4\n       c1 Heartbeat: Kafka NONE, Muster ILLEGAL_GENERATION" in report
    assert "gone (seed 3)" in report
    assert [one.seen for one in result.unexplained] == [odd]
