"""Differences on purpose in groups that the coordinator balances: each a predicate with its reason
(docs/kafka-differences.md)."""

from typing import Any

from interop.differential.allowed import Case, Rule
from interop.differential.consumer.steps import DescribeMembers, MemberBeat, MemberFetch
from interop.differential.steps import Beat, Join, Sync

_TELL_SHARES = (MemberBeat, DescribeMembers, Sync, Join)
_ASSIGNED = (
    "assignment",
    "generation_id",
    "member_epoch",
    "groups.members.assignment",
    "groups.members.target_assignment",
)


def _error(answer: Any) -> str:
    return str(answer.get("error_code", "")) if isinstance(answer, dict) else str(answer)


def _shares_of_made_ids(case: Case) -> bool:
    """Classic members see by REBALANCE_IN_PROGRESS that they have a share to give up or to take."""
    is_about_shares = isinstance(case.ask, _TELL_SHARES) and case.unlike.path.startswith(_ASSIGNED)
    told = {_error(case.kafka), _error(case.muster)}
    is_told = isinstance(case.ask, Beat | Sync) and told == {"NONE", "REBALANCE_IN_PROGRESS"}
    return (is_about_shares or is_told) and case.facts.made_ids


def _never_told(case: Case) -> bool:
    told = _error(case.kafka), _error(case.muster)
    return isinstance(case.ask, Beat) and told == ("NONE", "REBALANCE_IN_PROGRESS")


def _last_one_replaced(case: Case) -> bool:
    is_join = isinstance(case.ask, Join) and _error(case.kafka) == "NONE"
    return is_join and isinstance(case.kafka, dict) and case.kafka.get("generation_id") == 0


def _unreadable(case: Case) -> bool:
    told = _error(case.kafka), _error(case.muster)
    return isinstance(case.ask, MemberBeat) and told == ("UNKNOWN_SERVER_ERROR", "GROUP_ID_NOT_FOUND")


def _forgotten_by_join(case: Case) -> bool:
    is_about_epochs = case.unlike.path in {"member_epoch", "groups.group_epoch", "groups.assignment_epoch"}
    return is_about_epochs and case.facts.refused_join


def _went_over(case: Case) -> bool:
    is_gone = _error(case.kafka) == "UNKNOWN_MEMBER_ID" != _error(case.muster)
    return case.facts.went_over and (is_gone or isinstance(case.ask, DescribeMembers | MemberBeat))


def _assignors_tie(case: Case) -> bool:
    is_about_shares = isinstance(case.ask, MemberBeat | DescribeMembers) and case.unlike.path.startswith(
        (*_ASSIGNED, "groups.assignor_name")
    )
    return is_about_shares and len(case.facts.assignors) > 1


def _fetch_without_member(case: Case) -> bool:
    told = case.unlike.kafka, case.unlike.muster
    return isinstance(case.ask, MemberFetch) and told == ("UNKNOWN_SERVER_ERROR", "UNKNOWN_MEMBER_ID")


CONSUMER_RULES: tuple[Rule, ...] = (
    Rule(
        "the last member that the coordinator balances is replaced by a classic one",
        "Kafka answers its JoinGroup with generation 0 if its subscription is another; musterd with the next one",
        _last_one_replaced,
        ends=True,
    ),
    Rule(
        "an upgrade of a group whose assignments cannot be read",
        "in Kafka an internal error; musterd says GROUP_ID_NOT_FOUND",
        _unreadable,
        ends=True,
    ),
    Rule(
        "a refused JoinGroup to a group without members",
        "Kafka has made a classic group of it by then, and the epochs begin anew; in musterd nothing has changed",
        _forgotten_by_join,
        ends=True,
    ),
    Rule(
        "a member that goes over to the consumer protocol before it has synced",
        "Kafka still waits for its SyncGroup, and removes it when the rebalance timeout is over; musterd does not",
        _went_over,
        ends=True,
    ),
    Rule(
        "shares of members whose ids the coordinator made",
        "the order of members in hash tables decides who gets what, and ids are random at both servers",
        _shares_of_made_ids,
        ends=True,
    ),
    Rule(
        "a classic member alone with a target that is due",
        "Kafka computes a target in heartbeats of the new protocol and in JoinGroup alone; musterd in a classic "
        "Heartbeat, too",
        _never_told,
        ends=True,
    ),
    Rule(
        "a tie between assignors",
        "Kafka takes the one that a hash table shows first, which depends on who asked last; musterd the first of its "
        "configuration",
        _assignors_tie,
        ends=True,
    ),
    Rule(
        "a member that joins again with another instance id",
        "in Kafka it keeps the old one too, and has nothing until the next target; in musterd it has the new one "
        "alone, and keeps its partitions",
        lambda case: case.facts.renamed,
        ends=True,
    ),
    Rule(
        "an OffsetFetch with a member epoch and no member id",
        "in Kafka an internal error; musterd says UNKNOWN_MEMBER_ID",
        _fetch_without_member,
    ),
)
