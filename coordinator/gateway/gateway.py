"""The gateway: a `Node` in front of an existing cluster.

Groups and offsets are the node's, records and topics the cluster's.
"""

from collections.abc import Mapping

from msgspec.structs import replace

from coordinator.clock import Moment
from coordinator.config.config import Config
from coordinator.config.keys import UpstreamOffsets
from coordinator.gateway.broker_timeout import BrokerTimeouts
from coordinator.gateway.brokers import Brokers, GatewayPlacement
from coordinator.gateway.cluster_topics import UpstreamTopics
from coordinator.gateway.commit_order import CommitOrder
from coordinator.gateway.deleted_topics import DeletedTopics
from coordinator.gateway.effects import AbandonUpstream
from coordinator.gateway.events import (
    BrokersFound,
    UpstreamReply,
    UpstreamUnreachable,
)
from coordinator.gateway.handlers import REFUSED, SERVED, places
from coordinator.gateway.migration import Migration
from coordinator.gateway.migration_lookup import OFFSETS_TOPIC, MigrationLookup, NextQuestions, begin, go_on
from coordinator.gateway.native import HANDED_ON, answer, is_ours, not_now
from coordinator.gateway.offline import describe_cluster
from coordinator.gateway.offset_cleanup import OffsetCleanup
from coordinator.gateway.proxying import Proxying
from coordinator.gateway.session.session import ProxySession
from coordinator.gateway.upstream_requests import DelayedUpstreamRequest, Then, UpstreamRequestDone, UpstreamRequests
from coordinator.handlers.core import INTERNAL
from coordinator.handlers.table import HANDLERS
from coordinator.handlers.views import describe_node
from coordinator.node.build import Ids
from coordinator.node.effects import LogError
from coordinator.node.node import Node
from coordinator.topics.embedded import settings_from
from partition_log.store.log_store import LogStore
from protocol.messages import Message
from protocol.messages.groups import JoinGroup
from protocol.messages.node import DescribeCluster, DescribeNode
from protocol.messages.offsets import ListOffsets, OffsetCommit, OffsetFetch
from protocol.messages.topics import Metadata
from protocol.session import RequestRef

_LOOK, _LOOK_EVERY_MS = "upstream", 1_000
_FORGET = "forgetting"


class Gateway:
    """A node in front of a cluster. It wraps a `Node` and takes part in its steps by handlers, events and
    tasks of its own, with the topics of the cluster in place of embedded ones."""

    def __init__(
        self,
        config: Config,
        store: LogStore,
        ids: Ids,
        addresses: Mapping[str, tuple[str, int]],
        started: Moment,
    ) -> None:
        node = self.node = Node(config, store, ids, addresses, started)
        core = self.core = node.core
        self.loads = node.loads
        self.snapshots, self.step, self.step_many = node.snapshots, node.step, node.step_many
        self._effects = node.effects
        self.brokers = Brokers(
            config.socket_request_max_bytes,
            2 * config.max_entries_per_request,
            wants_exchange=config.upstream_sasl_username is not None,
        )
        self.brokers.since_ms = started.monotonic_ms
        core.placement = GatewayPlacement(core.placement, self.brokers)
        deleted = DeletedTopics(config.upstream_topic_deleted_after_ms, config.upstream_metadata_max_age_ms, started)
        self.topics = core.topics = UpstreamTopics(
            store, settings_from(config), ids, core.placement, self.brokers, deleted
        )
        self._offset_cleanup = OffsetCleanup()
        self._commit_order = CommitOrder()
        self.upstream_requests = UpstreamRequests(config.upstream_ask_timeout_ms, self._effects.append)
        self._list_every_ms = config.upstream_metadata_max_age_ms
        self._is_listing = False
        self._hurried_ms = started.monotonic_ms - _LOOK_EVERY_MS
        self.migration = Migration(core, config.upstream_offsets is UpstreamOffsets.ADOPT)
        self.proxying = Proxying(
            node,
            self.topics,
            BrokerTimeouts(config.upstream_request_timeout_ms, _LOOK_EVERY_MS),
            config.upstream_ask_timeout_ms,
            {
                **HANDLERS,
                **REFUSED,
                **dict.fromkeys(SERVED, self._when_known),
                **dict.fromkeys((JoinGroup, OffsetCommit, OffsetFetch), self._when_migrated),
                **dict.fromkeys(HANDED_ON, self._hand_on),
                Metadata: self._when_new,
                DescribeCluster: describe_cluster,
                DescribeNode: self._describe,
            },
        )
        open_session = node.serving.open_session
        node.serving.open_session = lambda event: (
            open_session(event) if event.broker is None else self.brokers.open(event.broker)
        )
        node.handlers |= {
            BrokersFound: self._found,
            UpstreamUnreachable: self._unreachable,
            UpstreamReply: self._upstream_answered,
        }
        node.tasks |= {_LOOK: self._look, _FORGET: self._clean_up_offsets}
        node.completions[UpstreamRequestDone] = self._request_done
        core.schedule(_LOOK, started.monotonic_ms + _LOOK_EVERY_MS)

    @property
    def next_deadline_ms(self) -> int | None:
        """See `Node`."""
        return self.node.next_deadline_ms

    @property
    def is_loaded(self) -> bool:
        """See `Node`."""
        return self.node.is_loaded

    # ------------------------------------------------------------------------------------------------- the cluster

    def _found(self, event: BrokersFound, moment: Moment) -> None:
        was_away = not self.brokers.is_reachable
        self.brokers.found(event.brokers, moment.monotonic_ms)
        self.proxying.guard(has_authorizer=event.has_authorizer)
        if was_away:
            self._list_topics(moment)

    def _unreachable(self, event: UpstreamUnreachable, moment: Moment) -> None:
        self.brokers.away(event.reason)
        self.proxying.authorization.away(moment)
        for number in self.proxying.timeouts.watched:
            session = self.core.connections[number].session
            if isinstance(session, ProxySession) and session.awaits_names:
                # Asked again, on a connection of its own, it is answered here.
                self._effects.append(AbandonUpstream(number, f"no broker can be reached: {event.reason}"))

    def _list_topics(self, moment: Moment) -> None:
        if not self._is_listing:
            self._is_listing = True
            self._ask(((Metadata(None), None),), None, Metadata(None), moment, self._listed)

    def _list_topics_soon(self, moment: Moment) -> None:
        """List the topics again, since known leaders are old; once a second at most."""
        now_ms = moment.monotonic_ms
        if self.brokers.is_reachable and now_ms - self._hurried_ms >= _LOOK_EVERY_MS:
            self._hurried_ms = now_ms
            self._list_topics(moment)

    def _look(self, moment: Moment) -> None:
        """At what is old, and who waits for a broker that says nothing."""
        now_ms = moment.monotonic_ms
        listed_ms = self.topics.listed_ms
        if self.brokers.is_reachable and (listed_ms is None or now_ms - listed_ms >= self._list_every_ms):
            self._list_topics(moment)
        self._look_for_gone(moment)
        self.proxying.authorization.look(moment)
        self._effects += self.proxying.timeouts.given_up(self.core.connections, now_ms)
        self.core.schedule(_LOOK, now_ms + _LOOK_EVERY_MS)

    def _look_for_gone(self, moment: Moment) -> None:
        """Every broker is asked whether the topics that are missed are gone, as often as topics are listed."""
        gone = self.topics.gone
        gone.look_at(moment)
        can_ask = self.brokers.is_reachable and self.brokers.known and not self.upstream_requests.is_full
        if can_ask and (question := gone.to_ask()) is not None:
            asks = tuple((question, broker) for broker in self.brokers.known)
            self._ask(asks, None, question, moment, self._confirmed)

    def _confirmed(self, delayed: DelayedUpstreamRequest, moment: Moment) -> None:
        gone = self.topics.gone
        gone.look_at(moment)
        assert isinstance(delayed.message, Metadata)
        gone.answered(delayed.message, list(delayed.answers.values()))
        if self._offset_cleanup.add(gone.take_over()):
            self._clean_up_offsets(moment)

    def _clean_up_offsets(self, moment: Moment) -> None:
        """A slice of what is to be forgotten."""
        delay_ms = self._offset_cleanup.run(self.core.shards, moment)
        if delay_ms is not None:
            self.core.schedule(_FORGET, moment.monotonic_ms + delay_ms)

    def _describe(self, core: object, ref: RequestRef, message: Message, moment: Moment) -> None:
        """The node's health in numbers, and the cluster's as it looks from here."""
        known = describe_node(self.core)
        gauges = self.brokers.gauges(moment.monotonic_ms) | {"upstream_topics_missed": len(self.topics.gone)}
        self.core.outbox.send(ref, replace(known, gauges=known.gauges | gauges, upstream_problem=self.brokers.reason))

    # ------------------------------------------------------------------------------------------- groups not met yet

    def _when_migrated(
        self, core: object, ref: RequestRef, message: JoinGroup | OffsetCommit | OffsetFetch, moment: Moment
    ) -> None:
        """Serve it when it is known what the cluster's own coordinator knows of the group."""
        group_id = self.migration.unmet(ref, message, moment)
        if group_id is None:
            if isinstance(message, JoinGroup):
                HANDLERS[JoinGroup](self.core, ref, message, moment)
            else:
                self._when_known(core, ref, message, moment)
        elif not self.brokers.is_reachable or self.upstream_requests.is_full:
            self._tell(self.migration.put_off(group_id, ref, message, moment))
        elif self.migration.wait(group_id, ref, message):
            has_offsets = self.topics.id_of(OFFSETS_TOPIC) is not None
            self._look_up(begin(group_id, self.brokers.known, has_offsets=has_offsets), moment)

    def _look_up(self, next_one: NextQuestions, moment: Moment) -> None:
        self._ask(next_one.questions, None, next_one.looking, moment, self._looked_up)

    def _looked_up(self, delayed: DelayedUpstreamRequest, moment: Moment) -> None:
        looking = delayed.message
        assert isinstance(looking, MigrationLookup)
        verdict = go_on(looking, list(delayed.answers.values()))
        if isinstance(verdict, NextQuestions):
            self._look_up(verdict, moment)
            return
        waiting, sentence = self.migration.over(looking.group_id, verdict, self.topics, moment)
        self._tell(sentence)
        for ref, message in waiting:
            self._when_migrated(self.core, ref, message, moment)

    def _tell(self, sentence: str) -> None:
        if sentence:
            self._effects.append(LogError(sentence))

    # ---------------------------------------------------------------------------------------------------- questions

    def _when_known(self, core: object, ref: RequestRef, message: Message, moment: Moment) -> None:
        """Serve what names topics when the cluster has been asked for those that are not known."""
        missing = () if self.upstream_requests.is_full else self.topics.to_ask(places(message), moment.monotonic_ms)
        if missing:
            self._commit_order.wait(ref, message)
            self._ask_for_topics(missing, ref, message, moment)
        elif not self._commit_order.is_behind(ref, message):
            self._go_on(ref, message, moment)

    def _when_new(self, core: object, ref: RequestRef, message: Metadata, moment: Moment) -> None:
        """Tell clients where to read when the cluster has said it just now."""
        asks = ref.connection != INTERNAL and not self.upstream_requests.is_full
        news = self.topics.news_of(message, moment.monotonic_ms) if asks else ()
        if news:
            self._ask_for_topics(news, ref, message, moment)
        else:
            self._when_known(core, ref, message, moment)

    def _ask_for_topics(
        self, questions: tuple[Metadata, ...], ref: RequestRef, message: Message, moment: Moment
    ) -> None:
        asks = tuple((question, None) for question in questions)
        self._ask(asks, ref, message, moment, self._heard_of_topics)

    def _hand_on(self, core: object, ref: RequestRef, message: Message, moment: Moment) -> None:
        """Have the cluster do it."""
        if is_ours(message):
            HANDLERS[type(message)](self.core, ref, message, moment)
        elif self.brokers.is_reachable and not self.upstream_requests.is_full:
            self._ask(((message, None),), ref, message, moment, self._handed_on)
        else:
            self.core.outbox.send(ref, not_now(self.brokers, message))

    def _go_on(self, ref: RequestRef, message: Message, moment: Moment) -> None:
        if isinstance(message, ListOffsets):
            self._list_ends(ref, message, moment)
        else:
            SERVED[type(message)](self.core, ref, message, moment)

    def _list_ends(self, ref: RequestRef, message: ListOffsets, moment: Moment) -> None:
        """Where partitions end, which their leaders are asked; what is known serves if it is new enough, or if there is
        nobody to ask."""
        ends, now_ms = self.topics.ends, moment.monotonic_ms
        if self.brokers.is_reachable and not self.upstream_requests.is_full:
            asks, joined = ends.to_ask(message, self.topics.leader_of, self.upstream_requests.under_way, now_ms)
            if asks or joined:
                ends.asked(self._ask(asks, ref, message, moment, self._heard_of_ends, joined))
                return
        self.core.outbox.send(ref, ends.reply(message, None, now_ms, self.topics.partition_count))

    def _ask(
        self,
        questions: tuple[tuple[Message, int | None], ...],
        ref: RequestRef | None,
        message: Message,
        moment: Moment,
        then: Then,
        joined: tuple[int, ...] = (),
    ) -> DelayedUpstreamRequest:
        delayed = self.upstream_requests.ask(questions, ref, message, moment, joined)
        delayed.then = then
        self.core.purgatory.try_complete_else_watch(delayed)
        return delayed

    def _upstream_answered(self, event: UpstreamReply, moment: Moment) -> None:
        asked, waiting = self.upstream_requests.answered(event)
        if asked is not None and not self.topics.ends.learn(asked, event.reply, moment.monotonic_ms):
            self._list_topics_soon(moment)
        for delayed in waiting:
            for done in self.core.purgatory.check_and_complete(delayed.key):
                self.node.complete(done, moment)

    def _listed(self, delayed: DelayedUpstreamRequest, moment: Moment) -> None:
        self._is_listing = False
        self.topics.hear(delayed.heard, moment.monotonic_ms)

    def _heard_of_topics(self, delayed: DelayedUpstreamRequest, moment: Moment) -> None:
        self.topics.hear(delayed.heard, moment.monotonic_ms)
        assert delayed.ref is not None
        for ref, message in self._commit_order.ready(delayed.ref, delayed.message):
            self._go_on(ref, message, moment)

    def _handed_on(self, delayed: DelayedUpstreamRequest, moment: Moment) -> None:
        assert delayed.ref is not None
        self.core.outbox.send(delayed.ref, answer(self.topics, *delayed.sole, moment.monotonic_ms))

    def _heard_of_ends(self, delayed: DelayedUpstreamRequest, moment: Moment) -> None:
        assert delayed.ref is not None
        assert isinstance(delayed.message, ListOffsets)
        ends, now_ms = self.topics.ends, moment.monotonic_ms
        ends.silent(delayed, now_ms)
        self.core.outbox.send(delayed.ref, ends.reply(delayed.message, delayed, now_ms, self.topics.partition_count))

    def _request_done(self, event: UpstreamRequestDone, moment: Moment) -> None:
        delayed = self.upstream_requests.done(event)
        delayed.then(delayed, moment)
