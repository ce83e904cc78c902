"""Differences on purpose in groups that the coordinator balances: each a predicate with its reason
(docs/kafka-differences.md)."""

import re
from typing import Any

from interop.differential.allowed import Case, Rule
from interop.differential.answers import UNANSWERED
from interop.differential.consumer.steps import DescribeMembers, Epoch, MemberBeat, MemberFetch, Owned
from interop.differential.steps import Beat, Commit, Delete, DeleteOffsets, Describe, Join, Leave, List, Sync
from interop.differential.views import Who
from protocol.consumer_protocol import decode_assignment
from protocol.errors import ProtocolViolation

_MADE_ID = re.compile(r"[\w-]{22}")
_TELL_EPOCHS = (MemberBeat, DescribeMembers, List, DeleteOffsets, Sync, Beat)
_TELL_SHARES = (MemberBeat, DescribeMembers, Sync, Join, Describe)
_ASSIGNED = (
    "assignment",
    "generation_id",
    "member_epoch",
    "groups.members.assignment",
    "groups.members.member_assignment",
    "groups.members.target_assignment",
)


_ABOUT_MEMBERS = (MemberBeat, DescribeMembers, Beat, Sync, Join, Leave, Describe, List)
_REFUSALS = {"UNKNOWN_MEMBER_ID", "ILLEGAL_GENERATION", "STALE_MEMBER_EPOCH"}
_ERRORS_OF_MEMBERS = {"NONE", *_REFUSALS}


def _error(answer: Any) -> str:
    return str(answer.get("error_code", "")) if isinstance(answer, dict) else str(answer)


def _is_commit_of_members(case: Case) -> bool:
    """A group without members takes commits that one with members refuses, or looks at their metadata."""
    told = {str(case.unlike.kafka), str(case.unlike.muster)} if isinstance(case.ask, Commit) else set()
    return bool(told & _REFUSALS) and told <= {*_ERRORS_OF_MEMBERS, "OFFSET_METADATA_TOO_LARGE"}


def _is_fetch_refused_by_one(case: Case) -> bool:
    """An OffsetFetch that is refused as a member's has no topics."""
    sides = ((case.unlike.kafka, case.kafka), (case.unlike.muster, case.muster))
    is_refused = any(topics == [] and _errors_of_groups(answer) & _REFUSALS for topics, answer in sides)
    return isinstance(case.ask, MemberFetch) and case.unlike.path == "groups.topics" and is_refused


def _errors_of_groups(answer: Any) -> set[str]:
    groups = answer.get("groups", ()) if isinstance(answer, dict) else ()
    return {_error(group) for group in groups}


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


def _last_one_goes_over(case: Case) -> bool:
    told = _error(case.kafka), _error(case.muster)
    is_own = isinstance(case.ask, Join) and case.ask.who is Who.OWN
    is_join = is_own and case.ends_balanced and told == ("NONE", "NONE") and case.unlike.path == "generation_id"
    is_later = isinstance(case.ask, _ABOUT_MEMBERS) or _is_commit_of_members(case) or _is_fetch_refused_by_one(case)
    return is_join or (case.facts.went_classic and is_later)  # the epoch may be the same


def _replaced_before_others_have_moved(case: Case) -> bool:
    told = _error(case.kafka), _error(case.muster)
    return case.ends_balanced and told == ("NONE", UNANSWERED)


def _refused_upgrade(case: Case) -> bool:
    told = _error(case.kafka), _error(case.muster)
    return isinstance(case.ask, Join | Sync) and told == ("REBALANCE_IN_PROGRESS", UNANSWERED)


def _sessions_end_together(case: Case) -> bool:
    if isinstance(case.ask, Describe) and case.unlike.path == "groups.members" and case.facts.balanced:
        kept = [{one["member_id"] for one in members} for members in (case.unlike.kafka, case.unlike.muster)]
        return kept[0] < kept[1] or kept[1] < kept[0]
    told = {str(case.unlike.kafka), str(case.unlike.muster)}
    if told == {"UNKNOWN_MEMBER_ID", "ILLEGAL_GENERATION"}:
        is_fetch = isinstance(case.ask, MemberFetch) and case.facts.balanced and case.facts.owes_step
        return isinstance(case.ask, Beat | Sync) or is_fetch
    # The time of a classic member that has to sync may end with that session, too.
    shown = {
        Sync: {"UNKNOWN_MEMBER_ID", "REBALANCE_IN_PROGRESS"},
        MemberBeat: {"UNKNOWN_MEMBER_ID", "GROUP_ID_NOT_FOUND"},
        DescribeMembers: {"NONE", "GROUP_ID_NOT_FOUND"},
    }
    return told == shown.get(type(case.ask)) and case.facts.owes_step and case.facts.balanced


def _order_of_topics(case: Case) -> bool:
    if not case.unlike.path.endswith("assignment"):
        return False
    try:
        told = [decode_assignment(str(one).encode("latin-1")) for one in (case.unlike.kafka, case.unlike.muster)]
    except (ProtocolViolation, UnicodeEncodeError):
        return False
    return sorted(told[0].partitions) == sorted(told[1].partitions) and told[0].user_data == told[1].user_data


def _form_of_id(case: Case) -> bool:
    is_made = isinstance(case.unlike.kafka, str) and _MADE_ID.fullmatch(case.unlike.kafka) is not None
    return is_made and case.unlike.path.endswith("member_id") and str(case.unlike.muster).endswith("-?")


def _unreadable(case: Case) -> bool:
    told = _error(case.kafka), _error(case.muster)
    return isinstance(case.ask, MemberBeat) and told == ("UNKNOWN_SERVER_ERROR", "GROUP_ID_NOT_FOUND")


def _forgotten_by_join(case: Case) -> bool:
    is_about_epochs = case.unlike.path in {"member_epoch", "groups.group_epoch", "groups.assignment_epoch"}
    is_of_none = isinstance(case.ask, MemberBeat | DescribeMembers | Commit | Delete | DeleteOffsets) and (
        case.unlike.kafka == "GROUP_ID_NOT_FOUND"
    )
    return case.facts.refused_join and (is_about_epochs or is_of_none or isinstance(case.ask, List))


def _went_over(case: Case) -> bool:
    """Kafka begins a new epoch when it removes the member, whose topics are not subscribed to any more, and the group
    may be classic then: it names the member that it does not know."""
    is_gone = case.unlike.kafka == "UNKNOWN_MEMBER_ID"
    is_classic = isinstance(case.ask, Join) and case.unlike.path == "member_id" and not case.unlike.muster
    is_later = isinstance(case.ask, Join) and case.unlike.path in {"generation_id", "the answer"}
    is_of_members = _is_commit_of_members(case) or _is_fetch_refused_by_one(case)
    is_about_epochs = isinstance(case.ask, _TELL_EPOCHS) or is_of_members
    told = case.unlike.kafka, case.unlike.muster
    is_deleted = isinstance(case.ask, Delete) and told == ("NONE", "NON_EMPTY_GROUP")
    return case.facts.went_over and (is_gone or is_classic or is_later or is_about_epochs or is_deleted)


def _joined_again(case: Case) -> bool:
    """Kafka begins a new epoch when it removes the member."""
    is_removed = case.unlike.kafka == "UNKNOWN_MEMBER_ID"
    return case.facts.joined_again and (is_removed or isinstance(case.ask, _TELL_EPOCHS))


def _owed_join(case: Case) -> bool:
    is_classic = isinstance(case.ask, Beat | Sync)
    return is_classic and case.facts.owed_join and case.unlike.kafka == "UNKNOWN_MEMBER_ID"


def _owed_sync(case: Case) -> bool:
    is_gone = isinstance(case.ask, Leave) and case.unlike.kafka == "UNKNOWN_MEMBER_ID"
    return is_gone and case.facts.owes_step and case.facts.balanced


def _back_to_full_group(case: Case) -> bool:
    told = _error(case.kafka), _error(case.muster)
    return isinstance(case.ask, MemberBeat) and case.is_return and told == ("GROUP_MAX_SIZE_REACHED", "NONE")


def _assignors_tie(case: Case) -> bool:
    is_about_shares = isinstance(case.ask, MemberBeat | DescribeMembers) and case.unlike.path.startswith(
        (*_ASSIGNED, "groups.assignor_name")
    )
    return is_about_shares and len(case.facts.assignors) > 1


def _changed_to_unmatched_pattern(case: Case) -> bool:
    """The epoch is later in musterd, and who asks at the same moment may be told of another share."""
    kafka, muster = case.unlike.kafka, case.unlike.muster
    if "epoch" in case.unlike.path and isinstance(kafka, int) and isinstance(muster, int):
        is_later = muster > kafka
    else:
        is_later = isinstance(case.ask, (*_TELL_EPOCHS, *_TELL_SHARES))
    return case.facts.unmatched and is_later


def _fetch_without_member(case: Case) -> bool:
    told = case.unlike.kafka, case.unlike.muster
    return isinstance(case.ask, MemberFetch) and told == ("UNKNOWN_SERVER_ERROR", "UNKNOWN_MEMBER_ID")


def _patterns_come_and_go(case: Case) -> bool:
    is_about_shares = isinstance(case.ask, _TELL_SHARES) and "assignment" in case.unlike.path
    is_about_shares &= "epoch" not in case.unlike.path
    epochs = [one.get("member_epoch") if isinstance(one, dict) else None for one in (case.kafka, case.muster)]
    is_alike = is_about_shares and epochs[0] == epochs[1]
    return (case.facts.is_uneven and is_alike) or (case.facts.lacks_topics and _must_revoke_at_kafka_alone(case))


def _must_revoke_at_kafka_alone(case: Case) -> bool:
    """A member that has partitions to revoke stays at its epoch."""
    if not isinstance(case.ask, MemberBeat) or case.unlike.path != "member_epoch" or not isinstance(case.kafka, dict):
        return False
    return bool(case.unlike.kafka < case.unlike.muster) and case.kafka.get("assignment") is not None


def _late_by_another(case: Case) -> bool:
    if not isinstance(case.ask, MemberBeat) or case.ask.who is not Who.OTHER:
        return False
    if case.ask.owned is Owned.UNSAID and case.ask.epoch is not Epoch.JOIN:  # a join reports that it has nothing
        return False
    kafka, muster = case.unlike.kafka, case.unlike.muster
    is_behind = isinstance(kafka, int) and isinstance(muster, int) and muster < kafka
    return case.unlike.path.startswith("assignment") or (case.unlike.path == "member_epoch" and is_behind)


def _told_again(case: Case) -> bool:
    is_told = case.unlike.path == "assignment" and case.unlike.kafka is None and case.unlike.muster is not None
    return isinstance(case.ask, MemberBeat) and case.is_told_elsewhere and is_told


CONSUMER_RULES: tuple[Rule, ...] = (
    Rule(
        "the last member that the coordinator balances is replaced by a classic one",
        "Kafka answers its JoinGroup with generation 0 if its subscription is another; musterd with the next one",
        _last_one_replaced,
        ends=True,
    ),
    Rule(
        "the last member that the coordinator balances becomes classic under its own id and instance",
        "Kafka makes a classic group of it, and answers with an epoch that SyncGroup refuses; in musterd it is a "
        "classic member of the group",
        _last_one_goes_over,
        ends=True,
    ),
    Rule(
        "an instance comes back classic while others have still to give up or get partitions",
        "Kafka answers its JoinGroup at once, with the epoch; musterd when all have joined again: no partition has two "
        "owners",
        _replaced_before_others_have_moved,
        ends=True,
    ),
    Rule(
        "an upgrade of a group whose assignments cannot be read",
        "in Kafka an internal error; musterd says GROUP_ID_NOT_FOUND",
        _unreadable,
        ends=True,
    ),
    Rule(
        "a refused upgrade of a group with parked requests",
        "Kafka has answered them REBALANCE_IN_PROGRESS by then; in musterd they stay parked",
        _refused_upgrade,
        ends=True,
    ),
    Rule(
        "sessions of the last member that the coordinator balances and of a classic one end together",
        "which is looked at first decides whether the group becomes a classic one with the other in it",
        _sessions_end_together,
        ends=True,
    ),
    Rule(
        "the order of topics in a classic member's assignment",
        "the same partitions; Kafka has them in the order of a hash table",
        _order_of_topics,
    ),
    Rule(
        "the form of an id that the coordinator makes",
        "a UUID in base64 in Kafka; in musterd it begins with the client's",
        _form_of_id,
    ),
    Rule(
        "a refused JoinGroup to a group without members",
        "Kafka has made a classic group of it by then, and the epochs begin anew; in musterd nothing has changed",
        _forgotten_by_join,
        ends=True,
    ),
    Rule(
        "a member that goes over to the consumer protocol before it has synced, or joined again",
        "Kafka still waits for that step, and removes it when the rebalance timeout is over; musterd does not",
        _went_over,
        ends=True,
    ),
    Rule(
        "a classic member that joins again for what it has, and does not sync",
        "Kafka removes it when the rebalance timeout is over; in musterd it stays: the JoinGroup may have come late",
        _joined_again,
        ends=True,
    ),
    Rule(
        "a member that had to join again, and did so when the group was classic for a while",
        "for Kafka it has not joined again once the group is a consumer group, and is removed when its time is over",
        _owed_join,
        ends=True,
    ),
    Rule(
        "a member that leaves, and had to sync when the group became classic for a while",
        "Kafka's time goes on, and removes it once the group is a consumer group again; in musterd it has to join "
        "again, and has the whole time",
        _owed_sync,
        ends=True,
    ),
    Rule(
        "an instance that is away comes back to a full group under another id",
        "Kafka refuses it; in musterd it replaces itself: it takes no room",
        _back_to_full_group,
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
        "a member changes to a pattern that matches nothing",
        "in musterd the epoch moves once the pattern is resolved, so that others get what it had; in Kafka it does not",
        _changed_to_unmatched_pattern,
        ends=True,
    ),
    Rule(
        "a pattern, or a member without topics, comes or goes while a target is due",
        "whether subscriptions are alike decides how the assignor deals out; Kafka still counts those of before: as "
        "even, so a member without topics may get partitions",
        _patterns_come_and_go,
        ends=True,
    ),
    Rule(
        "partitions reported on a connection older than the one of the member's last heartbeat",
        "in Kafka a revocation that they leave out counts as acknowledged; in musterd it came late",
        _late_by_another,
        ends=True,
    ),
    Rule(
        "an OffsetFetch with a member epoch and no member id",
        "in Kafka an internal error; musterd says UNKNOWN_MEMBER_ID",
        _fetch_without_member,
    ),
    Rule(
        "a heartbeat on another connection than the one on which its member was told its assignment",
        "musterd tells it again: the other heartbeat may have come late, and its reply is lost",
        _told_again,
        ends=True,
    ),
)
