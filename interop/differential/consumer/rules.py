"""Differences on purpose in groups that the coordinator balances: each a predicate with its reason
(docs/kafka-differences.md)."""

from interop.differential.allowed import Case, Rule
from interop.differential.consumer.steps import DescribeMembers, MemberBeat, MemberFetch

_ASSIGNED = ("assignment", "member_epoch", "groups.members.assignment", "groups.members.target_assignment")


def _shares_of_made_ids(case: Case) -> bool:
    is_about_shares = isinstance(case.ask, MemberBeat | DescribeMembers) and case.unlike.path.startswith(_ASSIGNED)
    return is_about_shares and case.facts.made_ids


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
        "shares of members whose ids the coordinator made",
        "the order of members in hash tables decides who gets what, and ids are random at both servers",
        _shares_of_made_ids,
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
