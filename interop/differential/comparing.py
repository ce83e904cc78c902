"""Comparison of what two servers said since the last step, and the facts about groups that rules ask for."""

import re
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from interop.differential.allowed import RULES, Case, Rule, first_that_holds
from interop.differential.answers import Unlike, brief, normal, unlike
from interop.differential.consumer.steps import DescribeMembers
from interop.differential.exchanges import Exchange, Side, is_own
from interop.differential.facts import Facts
from interop.differential.steps import ABOUT_GROUPS, Join
from interop.differential.views import GROUPS, Phase, Profile
from protocol.errors import ErrorCode
from protocol.messages import Message
from protocol.messages.consumer_groups import (
    JOINING,
    LEAVING,
    ConsumerGroupHeartbeat,
    ConsumerGroupHeartbeatReply,
)
from protocol.messages.groups import Heartbeat, HeartbeatReply, JoinGroupReply, SyncGroup, SyncGroupReply
from protocol.messages.offsets import OffsetCommitReply


class Seen(NamedTuple):
    """A difference: the step it showed at, the API and its version, and the rule that allows it, if one does."""

    step: int
    api: str
    version: int
    unlike: Unlike
    rule: Rule | None

    @property
    def kind(self) -> str:
        """The same for differences that have one cause, most likely."""
        if self.rule is not None:
            return self.rule.name
        return f"{self.api}, {re.sub(r'[0-9]+', 'N', self.unlike.text())}"


class Comparison:
    """One run: its requests by API, the differences, and a line an answer."""

    def __init__(
        self, profiles: tuple[Profile, ...], sides: tuple[Side, Side], unique: str, rules: tuple[Rule, ...] = RULES
    ) -> None:
        self._rules = rules
        self.asked: Counter[str] = Counter()
        self.seen: list[Seen] = []
        self.lines: list[str] = []
        self._profiles = profiles
        self._sides = sides
        self._unique = unique
        self._missed = [False] * GROUPS
        self._owes_sync = [False] * GROUPS
        self._replaced = [False] * GROUPS
        self._pending_left = [False] * GROUPS
        self._nothing_stored = [False] * GROUPS
        self._made_ids = [False] * GROUPS
        self._renamed = [False] * GROUPS
        self._refused_join = [False] * GROUPS
        self._went_over = [False] * GROUPS
        self._balanced_once = [False] * GROUPS
        self._owed_join = [False] * GROUPS
        self._unmatched = [False] * GROUPS
        self._went_classic = [False] * GROUPS
        self._is_uneven = [False] * GROUPS
        self._lacks_topics = [False] * GROUPS
        self._owing: set[tuple[int, str]] = set()  # that have a step to take
        self._told_to_join: set[tuple[int, str]] = set()
        self._have_synced: set[tuple[int, str]] = set()
        self._joined_again: set[tuple[int, str]] = set()
        self._balanced: set[tuple[int, str | None]] = set()  # group, instance
        self._by_heartbeat: set[tuple[int, str]] = set()  # group, id of a member of the consumer protocol
        self._assignors: list[set[str]] = [set() for _ in range(GROUPS)]
        self._instances: dict[tuple[int, str], str | None] = {}
        self._own_ids = {member_id for profile in profiles for member_id in profile.member_ids}
        self._synced: set[tuple[int, int, str | None]] = set()  # group, generation, instance
        self._generations = [-1] * GROUPS

    def compare(self, number: int, waiting: Sequence[Exchange]) -> bool:
        """At the end of this step, of what was `waiting`; False if the states are apart now."""
        fresh = [exchange for exchange in waiting if any(one is not None for one in exchange.answers)]
        before = [self.leaders(group) for group in range(GROUPS)]
        joining = {one.ask.group for one in waiting if isinstance(one.ask, Join) and is_own(one.ask)}
        for exchange in fresh:
            for index, side in enumerate(self._sides):
                self._learn_ids(exchange, index, side)
        for exchange in fresh:
            for index, side in enumerate(self._sides):
                self._learn(exchange, index, side)
        for exchange in waiting:
            self._replaced[exchange.ask.group] |= exchange.is_return and isinstance(exchange.ask, Join)
        alike = self._look_for_absent(fresh)
        self._look_for_unsynced(fresh)
        for exchange in fresh:
            group, answer = exchange.ask.group, exchange.answers[0]
            self._pending_left[group] |= exchange.names_pending
            if isinstance(answer, ConsumerGroupHeartbeatReply) and answer.member_id:
                self._learn_of_member(exchange, answer.member_id)
            if isinstance(answer, JoinGroupReply):
                self._refused_join[group] |= bool(answer.error_code)
            if isinstance(answer, JoinGroupReply) and not answer.error_code:
                self._learn_of_join(group, answer)
                self._instances[group, answer.member_id] = exchange.instance
                exchange.ends_balanced = (group, exchange.instance) in self._balanced
                self._balanced.discard((group, exchange.instance))
                self._forget_replaced(group, exchange.instance, answer.member_id)
                self._went_classic[group] |= self._is_last_by_heartbeat(group, answer.member_id)
                self._by_heartbeat.discard((group, answer.member_id))
                self._made_ids[group] |= answer.member_id not in self._own_ids
            self._learn_of_step(exchange)
            self._learn_of_assignment(exchange)
            self._balanced_once[group] |= isinstance(answer, ConsumerGroupHeartbeatReply) and not answer.error_code
            self._nothing_stored[group] |= isinstance(answer, OffsetCommitReply) and _is_refused(answer)
        away = {one.ask.group for one in fresh if any(_is_turned_away(answer) for answer in one.answers)}
        facts = [
            self._facts(group, before[group], is_joining=group in joining, turned_away=group in away)
            for group in range(GROUPS)
        ]
        seen: list[Seen] = []
        for exchange in fresh:
            # Some requests are about both groups.
            mine = exchange.ask.group
            seen += self._compare_one(number, exchange, (facts[mine], facts[1 - mine]))
        for group in alike:
            self._missed[group] = False
        # Where a rule says that the states are apart, what else came at that moment follows from it.
        self.seen += [one for one in seen if one.rule is not None and one.rule.ends] or seen
        return not any(one.rule is None or one.rule.ends for one in self.seen)

    def leaders(self, group: int) -> tuple[str | None, str | None]:
        """The group's description at both servers."""
        return self._sides[0].leaders[group], self._sides[1].leaders[group]

    def _facts(
        self, group: int, before: tuple[str | None, str | None], *, is_joining: bool, turned_away: bool
    ) -> Facts:
        return Facts(
            leaders_before=before,
            leaders=self.leaders(group),
            rosters=(self._sides[0].rosters[group], self._sides[1].rosters[group]),
            profiles=self._profiles,
            is_joining=is_joining,
            missed_rebalance=self._missed[group],
            owes_sync=self._owes_sync[group],
            turned_away=turned_away,
            replaced=self._replaced[group],
            pending_left=self._pending_left[group],
            nothing_stored=self._nothing_stored[group],
            made_ids=self._made_ids[group],
            renamed=self._renamed[group],
            refused_join=self._refused_join[group],
            went_over=self._went_over[group],
            balanced=self._balanced_once[group],
            joined_again=any(group == one for one, _ in self._joined_again),
            owed_join=self._owed_join[group],
            unmatched=self._unmatched[group],
            went_classic=self._went_classic[group],
            is_uneven=self._is_uneven[group],
            lacks_topics=self._lacks_topics[group],
            owes_step=any(group == one for one, _ in self._owing),
            assignors=frozenset(self._assignors[group]),
        )

    @staticmethod
    def _learn_ids(exchange: Exchange, index: int, side: Side) -> None:
        answer = exchange.answers[index]
        if isinstance(answer, JoinGroupReply | ConsumerGroupHeartbeatReply) and is_own(exchange.ask):
            side.member(exchange.ask).name(answer.member_id or "")

    def _learn_of_join(self, group: int, answer: JoinGroupReply) -> None:
        """From a JoinGroup that Kafka accepted; the answer of a group that it balances has no leader."""
        one = (group, answer.member_id)
        self._owing.add(one)
        self._owed_join[group] |= bool(answer.leader) and one in self._told_to_join
        self._told_to_join.discard(one)
        if not answer.leader and one in self._have_synced:
            self._joined_again.add(one)

    def _learn_of_step(self, exchange: Exchange) -> None:
        """Note which classic members owe Kafka a SyncGroup or a JoinGroup."""
        request, answer = exchange.requests[0], exchange.answers[0]
        if isinstance(request, SyncGroup | Heartbeat) and isinstance(answer, SyncGroupReply | HeartbeatReply):
            one = (exchange.ask.group, request.member_id)
            if answer.error_code is ErrorCode.REBALANCE_IN_PROGRESS:
                self._owing.add(one)
                self._told_to_join.add(one)
            elif isinstance(answer, SyncGroupReply) and not answer.error_code:
                self._owing.discard(one)
                self._have_synced.add(one)
                self._joined_again.discard(one)

    def _learn_of_assignment(self, exchange: Exchange) -> None:
        """Note which client musterd told the assignment of a member, and whether it was the same."""
        answer, side, client = exchange.answers[1], self._sides[1], exchange.ask.client
        if isinstance(answer, ConsumerGroupHeartbeatReply) and answer.assignment is not None:
            one = (exchange.ask.group, answer.member_id or "")
            before, told = side.told_by.get(one, (client, None))
            exchange.is_told_elsewhere = before != client and told == answer.assignment
            side.told_by[one] = client, answer.assignment

    def _forget_replaced(self, group: int, instance: str | None, member_id: str) -> None:
        """The other ids that the instance had are no members any more."""
        if instance is None:
            return
        named = {one for one in self._by_heartbeat if one[0] == group and self._instances.get(one) == instance}
        self._by_heartbeat -= named - {(group, member_id)}

    def _is_last_by_heartbeat(self, group: int, member_id: str) -> bool:
        return {name for one, name in self._by_heartbeat if one == group} == {member_id}

    def _learn_of_member(self, exchange: Exchange, member_id: str) -> None:
        """From a heartbeat that Kafka accepted."""
        group, request = exchange.ask.group, exchange.requests[0]
        self._went_over[group] |= (group, member_id) in self._owing
        self._joined_again.discard((group, member_id))
        assert isinstance(request, ConsumerGroupHeartbeat)
        self._lacks_topics[group] |= request.subscribed_topic_names == ()
        self._is_uneven[group] |= bool(request.subscribed_topic_regex) or self._lacks_topics[group]
        self._by_heartbeat.add((group, member_id))
        self._made_ids[group] |= member_id not in self._own_ids
        if request.server_assignor is not None:
            self._assignors[group].add(request.server_assignor)
        is_known = (group, member_id) in self._instances or (group, request.instance_id) in self._balanced
        if is_known and request.member_epoch >= JOINING:  # a member that leaves subscribes to nothing
            self._unmatched[group] |= self._matches_nothing(request.subscribed_topic_regex)
        if request.member_epoch == LEAVING:
            self._by_heartbeat.discard((group, member_id))
            self._instances.pop((group, member_id), None)
        elif request.member_epoch == JOINING:
            known = self._instances.get((group, member_id), request.instance_id)
            self._renamed[group] |= request.instance_id not in {None, known}
            if request.instance_id is not None:
                self._balanced.add((group, request.instance_id))
            self._instances[group, member_id] = request.instance_id

    def _matches_nothing(self, pattern: str | None) -> bool:
        if not pattern:
            return False
        return not any(re.fullmatch(pattern, name) for name in self._sides[0].names.topic_ids)

    @staticmethod
    def _learn(exchange: Exchange, index: int, side: Side) -> None:
        answer, ask = exchange.answers[index], exchange.ask
        if exchange.is_superseded and answer is None and side.latest.get((ask.client, ask.group)) is exchange:
            side.member(ask).phase = Phase.OUT  # it gives up waiting, as where it is told to try again
        if not isinstance(answer, Message) or not is_own(ask):
            return
        if side.latest.get((ask.client, ask.group)) is exchange:
            side.member(ask).hears(answer)
        if isinstance(answer, JoinGroupReply) and answer.error_code is ErrorCode.MEMBER_ID_REQUIRED:
            side.pending.add(answer.member_id)
        if isinstance(answer, JoinGroupReply) and answer.generation_id >= 0:
            side.leaders[ask.group] = side.names.of(answer.leader)

    def _look_for_absent(self, fresh: Sequence[Exchange]) -> set[int]:
        """By what leaders are told: members in the generation that were not answered that they are. Returns the groups
        that are alike at both servers from now on: all members have joined the same new generation."""
        told: dict[int, list[tuple[bool, int, frozenset[int]]]] = {}
        for exchange in fresh:
            group = exchange.ask.group
            for side, answer in zip(self._sides, exchange.answers, strict=True):
                if isinstance(answer, JoinGroupReply) and answer.members:
                    is_absent = self._has_absent(side, group, answer)
                    told.setdefault(group, []).append((is_absent, answer.generation_id, side.rosters[group]))
        for group, rosters in told.items():
            self._missed[group] |= any(is_absent for is_absent, _, _ in rosters)
        return {
            group
            for group, rosters in told.items()
            if len(rosters) == len(self._sides) and rosters[0] == rosters[1]
            if not rosters[0][0] and rosters[0][1] != self._generations[group]
        }

    @staticmethod
    def _has_absent(side: Side, group: int, answer: JoinGroupReply) -> bool:
        known = {line.member_id: side.names.client_of(line.member_id) for line in answer.members}
        clients = {member_id: client for member_id, client in known.items() if client is not None}
        side.rosters[group] = frozenset(clients.values())
        members = {member_id: side.members[client][group] for member_id, client in clients.items()}
        return any(
            (member.member_id, member.generation_id) != (member_id, answer.generation_id)
            for member_id, member in members.items()
        )

    def _look_for_unsynced(self, fresh: Sequence[Exchange]) -> None:
        """Static members that came back into a generation which they had not synced in."""
        for exchange in fresh:
            group, answer = exchange.ask.group, exchange.answers[1]
            member = self._sides[1].member(exchange.ask)
            if isinstance(answer, SyncGroupReply) and not answer.error_code and member.instance is not None:
                self._synced.add((group, member.generation_id, member.instance))
            if not isinstance(answer, JoinGroupReply) or answer.generation_id < 0:
                continue
            generation = answer.generation_id
            if generation == self._generations[group] and exchange.is_return:
                is_synced = (group, generation, exchange.instance) in self._synced
                self._owes_sync[group] = self._owes_sync[group] or not is_synced
        told = [(one.ask.group, one.answers[1]) for one in fresh]
        for group, answer in told:
            if isinstance(answer, JoinGroupReply) and answer.generation_id >= 0:
                self._generations[group] = answer.generation_id

    def _compare_one(self, number: int, exchange: Exchange, facts: tuple[Facts, ...]) -> list[Seen]:
        ask, api = exchange.ask, type(exchange.ask).api.__name__
        self.asked[api] += 1
        kafka, muster = (
            normal(answer, side.names, self._unique) for answer, side in zip(exchange.answers, self._sides, strict=True)
        )
        said = brief(kafka) if brief(kafka) == brief(muster) else f"Kafka {brief(kafka)}, Muster {brief(muster)}"
        later = "" if exchange.step == number else f" (asked at {exchange.step})"
        self.lines.append(f"{number}: c{ask.client + 1} {api}{later}: {said}")
        seen = []
        for difference in unlike(kafka, muster):
            known = (exchange.is_return, exchange.is_superseded, exchange.ends_balanced, exchange.is_told_elsewhere)
            cases = [Case(ask, difference, kafka, muster, one, *known) for one in facts]
            rule = first_that_holds(cases[0], self._rules)
            if rule is None and isinstance(ask, (*ABOUT_GROUPS, DescribeMembers)):
                rule = first_that_holds(cases[1], self._rules)
            seen.append(Seen(number, api, ask.version, difference, rule))
        return seen


def _is_refused(reply: OffsetCommitReply) -> bool:
    errors = {part.error_code for topic in reply.topics for part in topic.partitions}
    return ErrorCode.OFFSET_METADATA_TOO_LARGE in errors and ErrorCode.NONE not in errors


def _is_turned_away(answer: Message | str | None) -> bool:
    return isinstance(answer, JoinGroupReply) and answer.error_code is ErrorCode.GROUP_MAX_SIZE_REACHED
