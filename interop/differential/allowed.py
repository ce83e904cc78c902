"""Differences on purpose: each a predicate with its reason (docs/kafka-differences.md)."""

from collections.abc import Callable
from typing import Any, NamedTuple

from interop.differential.answers import UNANSWERED, Unlike
from interop.differential.facts import Facts
from interop.differential.steps import ABOUT_GROUPS, Ask, Commit, DeleteOffsets, Describe, Join, Sync

_SUBSCRIBED = {"NONE", "GROUP_SUBSCRIBED_TO_TOPIC"}
_COMMITS_OF_NOBODY = {
    ("UNKNOWN_MEMBER_ID", "GROUP_ID_NOT_FOUND"),
    ("UNKNOWN_MEMBER_ID", "ILLEGAL_GENERATION"),  # before version 9
}
_FULL = "GROUP_MAX_SIZE_REACHED"
_TIED = {"protocol_name", "groups.protocol_data", "groups.members.member_metadata"}


class Case(NamedTuple):
    """One difference, what was asked, both whole answers, and the group it was asked of. `is_return`: a static
    member joins whose instance had joined before. `is_superseded`: the same member asked the same again before this was
    answered. `ends_balanced`: a classic member joins in place of an instance that the coordinator balanced.
    `is_told_elsewhere`: musterd tells a member its assignment, and told it last on another client's connection."""

    ask: Ask
    unlike: Unlike
    kafka: Any
    muster: Any
    facts: Facts = Facts()
    is_return: bool = False
    is_superseded: bool = False
    ends_balanced: bool = False
    is_told_elsewhere: bool = False


class Rule(NamedTuple):
    """`ends`: what follows cannot be compared, as the two groups are in different states from there on."""

    name: str
    reason: str
    holds: Callable[[Case], bool]
    ends: bool = False


def _error(answer: Any) -> str:
    """An answer's error; UNANSWERED for none."""
    return str(answer.get("error_code", "")) if isinstance(answer, dict) else str(answer)


def _leader_chosen_anew(case: Case) -> bool:
    """Kafka did not simply keep the leader that both had."""
    if not isinstance(case.ask, Join) or case.unlike.path not in {"leader", "members", "skip_assignment"}:
        return False
    kafka = case.facts.leaders[0]
    kept = case.facts.leaders_before[0] == case.facts.leaders_before[1] == kafka
    return case.facts.leaders_differ and not kept


def _leader_syncs_apart(case: Case) -> bool:
    """One server waits for the SyncGroup of its leader, the other had that of its own."""
    errors = {_error(case.kafka), _error(case.muster)}
    return isinstance(case.ask, Sync) and case.facts.leaders_differ and UNANSWERED in errors


def _votes_tie(case: Case) -> bool:
    if case.unlike.path not in _TIED:
        return False
    kafka, muster = case.unlike.kafka, case.unlike.muster
    return case.unlike.path != "protocol_name" or case.facts.votes_tie(kafka, muster)


def _votes_would_tie(case: Case) -> bool:
    """A static member that comes back keeps the generation if the protocol stays what it is."""
    if {_error(case.kafka), _error(case.muster)} != {"NONE", UNANSWERED}:
        return False
    is_back = isinstance(case.ask, Join) and case.is_return
    return is_back and case.facts.votes_tie("range", "roundrobin", case.ask.client)


def _deadlines_fall_together(case: Case) -> bool:
    """By what is shown of the group: without members, and only one server waits for an id that was given out."""
    if not isinstance(case.ask, Describe) or case.unlike.path != "groups.group_state":
        return False
    if {case.unlike.kafka, case.unlike.muster} != {"PreparingRebalance", "Empty"}:
        return False
    return not any(group["members"] for answer in (case.kafka, case.muster) for group in answer["groups"])


def _asked_twice(case: Case) -> bool:
    is_told = _error(case.muster) == "REBALANCE_IN_PROGRESS" and _error(case.kafka) == UNANSWERED
    return case.is_superseded and is_told


def _sync_of_one_removed(case: Case) -> bool:
    told = _error(case.kafka), _error(case.muster)
    return isinstance(case.ask, Sync) and told == (UNANSWERED, "UNKNOWN_MEMBER_ID")


def _static_into_full_group(case: Case) -> bool:
    is_static = isinstance(case.ask, Join) and case.is_return
    return is_static and _error(case.kafka) == _FULL != _error(case.muster)


def _rest_of_full_group(case: Case) -> bool:
    told = _error(case.kafka), _error(case.muster)
    return isinstance(case.ask, Join) and case.facts.turned_away and told == (UNANSWERED, "NONE")


def _client_of_replaced(case: Case) -> bool:
    return case.facts.replaced and case.unlike.path in {"groups.members.client_id", "groups.members.client_host"}


def _group_of_nothing(case: Case) -> bool:
    told = case.unlike.kafka, case.unlike.muster
    is_commit_of_nobody = isinstance(case.ask, Commit) and told in _COMMITS_OF_NOBODY
    return case.facts.nothing_stored and (isinstance(case.ask, ABOUT_GROUPS) or is_commit_of_nobody)


def _subscription_of_one_joining(case: Case) -> bool:
    said = {str(case.unlike.kafka), str(case.unlike.muster)}
    return (
        isinstance(case.ask, DeleteOffsets) and said == _SUBSCRIBED and (case.facts.is_joining or case.facts.replaced)
    )


RULES: tuple[Rule, ...] = (
    Rule(
        "another leader is chosen",
        "of the members Kafka takes the first in a hash table by their random ids, musterd the one that is in longest",
        _leader_chosen_anew,
    ),
    Rule(
        "a leader that only one server has syncs",
        "follows from another leader: the same member's SyncGroup brings the assignments at one server alone",
        _leader_syncs_apart,
        ends=True,
    ),
    Rule(
        "a tie between protocols",
        "Kafka does not say which it chooses, musterd takes the earliest in the leader's list",
        _votes_tie,
        ends=True,
    ),
    Rule(
        "a tie between protocols once a static member is back",
        "follows from the same: at one server the choice stands, and with it the generation",
        _votes_would_tie,
        ends=True,
    ),
    Rule(
        "a session and a rebalance that end together",
        "JoinGroup v0 has one timeout for both: which is looked at first decides whether a group without members waits",
        _deadlines_fall_together,
        ends=True,
    ),
    Rule(
        "a second JoinGroup or SyncGroup of the same member",
        "Kafka never answers the first; musterd does: a request is answered or its connection closed",
        _asked_twice,
    ),
    Rule(
        "a parked SyncGroup of a member that was removed",
        "Kafka never answers it; musterd says UNKNOWN_MEMBER_ID",
        _sync_of_one_removed,
        ends=True,
    ),
    Rule(
        "a static member restarts into a full group",
        "Kafka refuses it; in musterd it replaces itself: it takes no room",
        _static_into_full_group,
        ends=True,
    ),
    Rule(
        "a full group turns a member away that the others wait for",
        "both drop it; Kafka lets the others wait until the rebalance times out, musterd answers them",
        _rest_of_full_group,
        ends=True,
    ),
    Rule(
        "a static member is replaced before it has synced",
        "in Kafka a rebalance of no use follows; in musterd the new id owes the SyncGroup instead of the old one",
        lambda case: case.facts.owes_sync,
        ends=True,
    ),
    Rule(
        "the client id of a replaced static member",
        "Kafka shows its predecessor's client id and host, musterd its own",
        _client_of_replaced,
    ),
    Rule(
        "a member id that has not joined leaves",
        "Kafka begins a rebalance of no use; in musterd the id is forgotten, and no member hears of it",
        lambda case: case.facts.pending_left,
        ends=True,
    ),
    Rule(
        "a commit of which nothing is stored",
        "in Kafka its group is there and empty until the coordinator moves; in musterd it never was: no record says so",
        _group_of_nothing,
        ends=True,
    ),
    Rule(
        "topics of a member that is just joining, or is back",
        "Kafka computes the subscribed topics at each generation, musterd when asked",
        _subscription_of_one_joining,
        ends=True,
    ),
    Rule(
        "the session of a static member that missed a rebalance",
        "in Kafka it begins anew when the rebalance completes; in musterd it goes on from when it was last heard",
        lambda case: case.facts.missed_rebalance,
        ends=True,
    ),
)


def first_that_holds(case: Case, rules: tuple[Rule, ...] = RULES) -> Rule | None:
    """None for a difference that nobody has explained."""
    return next((rule for rule in rules if rule.holds(case)), None)
