"""Subscriptions of a consumer: topics or a pattern, assigned by its group, or partitions of its own choice."""

from abc import abstractmethod
from collections.abc import Iterable
from typing import Any

from membership.checks import check_partitions
from membership.events import AssignedByHand, RejoinAsked, Subscribed, SubscribedToPattern, SubscribedToRegex
from membership.topic_partition import TopicPartition
from muster.client.commits import CommitProcedures
from muster.client.interceptors import ConsumerInterceptors
from muster.client.member import Listener, MemberProcedures, listeners
from muster.client.steps import Procedure
from muster.core.consumer_state import ConsumerState, SubscriptionKind
from muster.core.subscriptions import check_regex, topic_names


class SubscriptionProcedures(CommitProcedures):
    """Subscriptions and assignments by hand, which exclude each other (docs/spec/consumer-client.md#A9)."""

    def __init__(
        self,
        runner: Any,
        consuming: ConsumerState,
        membership: MemberProcedures | None,
        interceptors: ConsumerInterceptors,
    ) -> None:
        super().__init__(runner, consuming, membership, interceptors)
        self._listeners = listeners()
        self._is_letting_go = False

    def subscribe(
        self,
        topics: Iterable[str] = (),
        *,
        pattern: str | None = None,
        exclude_internal_topics: bool = True,
        on_assigned: Listener | None = None,
        on_revoked: Listener | None = None,
        on_lost: Listener | None = None,
    ) -> None:
        """Read these topics, or all whose whole name matches `pattern`, from the next poll on; they replace those of an
        earlier call. No topic at all is `unsubscribe`. The listeners are called from `poll` and `close`, with the new
        or revoked partitions; without `on_lost`, `on_revoked` is called instead. Raises WrongSubscription, ValueError.
        """
        names = topic_names(topics, pattern)
        with self._runner.entered(), self._runner.locked():
            self._consuming.give_back()
            group = self._group
        if pattern is None and not names:
            self._read_nothing("topics")
            return
        with self._runner.entered(), self._runner.locked():
            self._consuming.choose(SubscriptionKind.TOPICS if pattern is None else SubscriptionKind.PATTERN)
            self._listeners = listeners(on_assigned, on_revoked, on_lost)
            if pattern is None:
                group.feed(Subscribed(names))
                self._consuming.drop_other_topics(names)
            else:
                group.feed(SubscribedToPattern(pattern, not exclude_internal_topics))

    def subscribe_pattern(
        self,
        pattern: str,
        *,
        on_assigned: Listener | None = None,
        on_revoked: Listener | None = None,
        on_lost: Listener | None = None,
    ) -> None:
        """Read all topics whose whole name the coordinator finds to match `pattern`, by RE2's rules and internal ones
        too, from the next poll on. For `group_protocol` "consumer" or "auto"; otherwise as `subscribe`. For an invalid
        pattern `poll` raises an error. Raises WrongSubscription, ValueError.
        """
        with self._runner.entered(), self._runner.locked():
            self._consuming.give_back()
            group = self._group
            regex = check_regex(pattern, group.settings.group_protocol)
            self._consuming.choose(SubscriptionKind.PATTERN)
            self._listeners = listeners(on_assigned, on_revoked, on_lost)
            group.feed(SubscribedToRegex(regex))

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Read these and no others, without assignment by the group; no partition at all is `unsubscribe`. Positions
        begin at the group's committed offsets, if there is a group. Raises WrongSubscription.
        """
        chosen = check_partitions(partitions)
        with self._runner.entered(), self._runner.locked():
            self._consuming.give_back()
        if not chosen:
            self._read_nothing("partitions")
            return
        with self._runner.entered(), self._runner.locked():
            self._consuming.choose(SubscriptionKind.BY_HAND)
            self._commit_if_due()
            if self._membership is not None:
                self._membership.feed(AssignedByHand(chosen))
            self._consuming.assigned(chosen, self._driver.now_ms())
            self._consuming.subscription.callback_returned()

    @abstractmethod
    def _read_nothing(self, what: str) -> None:
        """Unsubscribe because no topics, or no partitions, were named; raise an error if that must be awaited."""

    def _unsubscribe(self) -> Procedure[None]:
        self._consuming.give_back()
        if self._membership is not None:
            by_hand = self._consuming.kind is SubscriptionKind.BY_HAND
            self._membership.feed(AssignedByHand(()) if by_hand else Subscribed(()))
        self._is_letting_go = True
        try:
            if self._membership is not None:
                yield from self._membership.serve()
        finally:  # even if a listener raises
            self._is_letting_go = False
            self._consuming.fetcher.assign(())
            self._consuming.kind = SubscriptionKind.NOTHING

    def enforce_rebalance(self, reason: str = "the application asked for it") -> None:
        """Request a rebalance of the group, from the next poll on."""
        with self._runner.entered(), self._runner.locked():
            self._group.feed(RejoinAsked(reason))
