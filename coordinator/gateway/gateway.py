"""The gateway: a `Node` in front of an existing cluster.

Groups and offsets are the node's, records and topics the cluster's.
"""

from collections.abc import Mapping
from functools import partial

from msgspec.structs import replace

from coordinator.clock import Moment
from coordinator.cluster_node.cluster_shards import ClusterShards
from coordinator.config.config import Config
from coordinator.config.keys import UpstreamOffsets
from coordinator.core.core import HTTP, INTERNAL, Core
from coordinator.facts.views import describe_node
from coordinator.gateway.broker_timeout import BrokerTimeouts
from coordinator.gateway.brokers import Brokers, GatewayPlacement
from coordinator.gateway.cluster.transactions import TransactionCalls
from coordinator.gateway.cluster_topics import UpstreamTopics
from coordinator.gateway.commit_order import CommitOrder
from coordinator.gateway.deleted_topics import DeletedTopics
from coordinator.gateway.effects import AbandonUpstream
from coordinator.gateway.events import (
    BrokersFound,
    UpstreamReply,
    UpstreamUnreachable,
)
from coordinator.gateway.handlers import REJECTED, Handler, named_partitions, topic_handlers
from coordinator.gateway.migration import GroupRequest, Migration
from coordinator.gateway.migration_lookup import (
    OFFSETS_TOPIC,
    MigrationLookup,
    NextRequests,
    continue_lookup,
    start_lookup,
)
from coordinator.gateway.native import FORWARDED_APIS, forwarded_reply, is_local, unavailable
from coordinator.gateway.offline import describe_cluster
from coordinator.gateway.offset_cleanup import OffsetCleanup
from coordinator.gateway.offsets.lookups import OffsetLookups
from coordinator.gateway.proxied_connections import ProxiedConnections
from coordinator.gateway.relayed.session import RelayedSession
from coordinator.gateway.server_driven import refuse_without_topics
from coordinator.gateway.session.session import ProxySession
from coordinator.gateway.upstream_requests import (
    BrokerRequest,
    Continuation,
    DelayedUpstreamRequest,
    UpstreamRequestDone,
    UpstreamRequests,
)
from coordinator.handlers.audited import audited
from coordinator.handlers.table import HANDLERS
from coordinator.node.build import Ids
from coordinator.node.dialects import make_dialects
from coordinator.node.effects import LogError
from coordinator.node.events import Opened
from coordinator.node.member_ownership import MemberOwnership
from coordinator.node.node import Node
from coordinator.tasks import end_sampling
from partition_log.store.log_store import LogStore
from protocol.messages import Message
from protocol.messages.consumer_groups import ConsumerGroupHeartbeat
from protocol.messages.groups import JoinGroup
from protocol.messages.node import DescribeCluster, DescribeNode
from protocol.messages.offsets import ListOffsets, OffsetCommit, OffsetFetch, TxnOffsetCommit
from protocol.messages.topics import Metadata
from protocol.messages.transactions import AddOffsetsToTxn
from protocol.native.session import NativeDialect
from protocol.session import RequestRef, Session

_UPSTREAM_TASK, _CHECK_EVERY_MS = "upstream", 1_000
_CLEANUP_TASK = "offset cleanup"

MIGRATED: tuple[type[Message], ...] = (JoinGroup, ConsumerGroupHeartbeat, OffsetCommit, OffsetFetch)
"""Requests that wait until the group's offsets are copied from the cluster."""


class Gateway:
    """A node in front of a cluster. It wraps a `Node` and takes part in its steps by handlers, events and tasks of its
    own, with the cluster's topics in place of embedded ones. `shards`: those whose logs are in the cluster; None: all
    logs are in `store`."""

    def __init__(
        self,
        config: Config,
        store: LogStore,
        ids: Ids,
        addresses: Mapping[str, tuple[str, int]],
        started: Moment,
        shards: ClusterShards | None = None,
    ) -> None:
        is_server_driven = "consumer" in config.group_coordinator_rebalance_protocols.all
        self.brokers = Brokers(
            config.socket_request_max_bytes,
            2 * config.max_entries_per_request,
            requires_sasl=config.upstream_sasl_username is not None,
            is_server_driven=is_server_driven,
            is_transactional=shards is not None,
        )
        self.brokers.since_ms = started.monotonic_ms
        deleted = DeletedTopics(config.upstream_topic_deleted_after_ms, config.upstream_metadata_max_age_ms)
        self.topics = UpstreamTopics(self.brokers, deleted)
        make_shards = None if shards is None else shards.make
        node = self.node = Node(config, store, ids, addresses, started, self.topics.image, make_shards)
        core = self.core = node.core
        self.loads, self.snapshots, self.step, self.step_many = node.loads, node.snapshots, node.step, node.step_many
        self._effects = node.effects
        core.placement = GatewayPlacement(core.placement, self.brokers)
        core.topics = self.topics
        self._offset_cleanup = OffsetCleanup()
        self._commit_order = CommitOrder()
        self.upstream_requests = UpstreamRequests(config.upstream_ask_timeout_ms, self._effects.append)
        lookups = OffsetLookups(core, self.topics, self.upstream_requests, self._request_upstream)
        self._topic_handlers: dict[type[Message], Handler] = {
            **topic_handlers(self.topics),
            ListOffsets: lookups.list_offsets,
        }
        migrated, transactions = MIGRATED, dict[type[Message], Handler]()
        if shards is not None:
            calls = TransactionCalls(core, shards, self._ask_broker)
            transactions[AddOffsetsToTxn] = calls.add_offsets
            self._topic_handlers[TxnOffsetCommit] = calls.commit
            migrated = (*MIGRATED, TxnOffsetCommit)
        self._list_every_ms = config.upstream_metadata_max_age_ms
        self._is_listing_topics = False
        self._refreshed_ms = started.monotonic_ms - _CHECK_EVERY_MS
        self.migration = Migration(core, config.upstream_offsets is UpstreamOffsets.ADOPT)
        self.proxied = ProxiedConnections(
            node,
            self.topics,
            BrokerTimeouts(config.upstream_request_timeout_ms, _CHECK_EVERY_MS),
            config.upstream_ask_timeout_ms,
            _of_owners(
                core,
                {
                    **HANDLERS,
                    **REJECTED,
                    **dict.fromkeys(self._topic_handlers, self._after_topics_known),
                    **dict.fromkeys(migrated, self._after_migration),
                    **transactions,
                    **dict.fromkeys(FORWARDED_APIS, self._forward_to_cluster),
                    Metadata: self._after_fresh_metadata,
                    DescribeCluster: partial(describe_cluster, self.topics),
                    DescribeNode: self._describe_node,
                },
            ),
        )
        self._dialects = {relays: make_dialects(config, relays_logins=relays) for relays in (False, True)}
        node.serving.open_session = self._open_session
        node.handlers |= {
            BrokersFound: self._on_brokers_found,
            UpstreamUnreachable: self._on_unreachable,
            UpstreamReply: self._on_upstream_reply,
        }
        node.tasks |= {_UPSTREAM_TASK: self._check_upstream, _CLEANUP_TASK: self._clean_up_offsets}
        node.tasks[end_sampling.TASK] = lookups.sample_ends
        node.completions[UpstreamRequestDone] = self._on_request_done
        core.schedule(_UPSTREAM_TASK, started.monotonic_ms + _CHECK_EVERY_MS)
        if shards is not None:
            shards.take_part(node, self.brokers.share)
            self.step, self.step_many = shards.step, shards.step_many

    @property
    def next_deadline_ms(self) -> int | None:
        """See `Node`."""
        return self.node.next_deadline_ms

    @property
    def is_loaded(self) -> bool:
        """See `Node`."""
        return self.node.is_loaded

    def _open_session(self, event: Opened) -> Session:
        if event.broker is not None:
            return self.brokers.open(event.broker)
        is_http = event.dialect == HTTP
        dialect = self._dialects[is_http or self.proxied.logins.is_required]["native" if is_http else event.dialect]
        if (is_http or self.core.config.relays_logins) and isinstance(dialect, NativeDialect):
            return RelayedSession(dialect, self.brokers.version_of, self.core.config.socket_request_max_bytes)
        return dialect.open()

    # ------------------------------------------------------------------------------------------------------ the cluster

    def _on_brokers_found(self, event: BrokersFound, moment: Moment) -> None:
        was_unreachable = not self.brokers.is_reachable
        self.brokers.found(event.brokers, moment.monotonic_ms)
        self.proxied.set_guarded(has_authorizer=event.has_authorizer)
        if was_unreachable:
            self._list_topics(moment)

    def _on_unreachable(self, event: UpstreamUnreachable, moment: Moment) -> None:
        self.brokers.unreachable(event.reason)
        self.proxied.authorization.on_unreachable(moment)
        for number in self.proxied.timeouts.watched:
            session = self.core.connections[number].session
            if isinstance(session, ProxySession) and session.awaits_rewritten_reply:
                # The client repeats the request on a new connection, where it is answered here.
                self._effects.append(AbandonUpstream(number, f"no broker can be reached: {event.reason}"))

    def _list_topics(self, moment: Moment) -> None:
        if not self._is_listing_topics:
            self._is_listing_topics = True
            self._request_upstream(((Metadata(None), None),), None, Metadata(None), moment, self._on_topics_listed)

    def _refresh_topics(self, moment: Moment) -> None:
        """List the topics because known leaders are outdated; once a second at most."""
        now_ms = moment.monotonic_ms
        if self.brokers.is_reachable and now_ms - self._refreshed_ms >= _CHECK_EVERY_MS:
            self._refreshed_ms = now_ms
            self._list_topics(moment)

    def _check_upstream(self, moment: Moment) -> None:
        """List topics when they are old, confirm deletions, and expire queries and silent brokers."""
        now_ms = moment.monotonic_ms
        listed_ms = self.topics.listed_ms
        if self.brokers.is_reachable and (listed_ms is None or now_ms - listed_ms >= self._list_every_ms):
            self._list_topics(moment)
        self._ask_for_absent(moment)
        self.proxied.authorization.expire(moment)
        self._effects += self.proxied.timeouts.expired(self.core.connections, now_ms)
        self.core.schedule(_UPSTREAM_TASK, now_ms + _CHECK_EVERY_MS)

    def _ask_for_absent(self, moment: Moment) -> None:
        """Ask every broker for the absent topics by id, as often as topics are listed."""
        can_ask = self.brokers.is_reachable and self.brokers.known and not self.upstream_requests.is_full
        if can_ask and (request := self.topics.deleted.to_ask(moment.monotonic_ms)) is not None:
            requests = tuple((request, broker) for broker in self.brokers.known)
            self._request_upstream(requests, None, request, moment, self._on_deletions_confirmed)

    def _on_deletions_confirmed(self, delayed: DelayedUpstreamRequest, moment: Moment) -> None:
        deleted = self.topics.deleted
        assert isinstance(delayed.message, Metadata)
        deleted.answered(delayed.message, list(delayed.answers.values()), moment.monotonic_ms)
        self.topics.image.drop_absent(lambda topic: deleted.is_denied(topic.topic_id))
        if self._offset_cleanup.add(deleted.take_deleted()):
            self._clean_up_offsets(moment)

    def _clean_up_offsets(self, moment: Moment) -> None:
        """Delete a slice of the offsets of deleted topics."""
        delay_ms = self._offset_cleanup.run(self.core.shards, moment)
        if delay_ms is not None:
            self.core.schedule(_CLEANUP_TASK, moment.monotonic_ms + delay_ms)

    def _describe_node(self, core: object, ref: RequestRef, message: Message, moment: Moment) -> None:
        """Answer with the node's gauges and those of the cluster."""
        known = replace(describe_node(self.core), wall_ms=moment.wall_ms)
        gauges = self.brokers.gauges(moment.monotonic_ms) | {"upstream_topics_missed": len(self.topics.deleted)}
        self.core.outbox.send(ref, replace(known, gauges=known.gauges | gauges, upstream_problem=self.brokers.reason))

    # ------------------------------------------------------------------------------------------------ groups to migrate

    def _after_migration(self, core: object, ref: RequestRef, message: GroupRequest, moment: Moment) -> None:
        """Serve the request once its group is migrated."""
        if not self.topics.image.is_known and refuse_without_topics(self.core, ref, message, moment):
            return
        group_id = self.migration.group_to_migrate(ref, message, moment)
        if group_id is None:
            if isinstance(message, JoinGroup):
                HANDLERS[JoinGroup](self.core, ref, message, moment)
            else:
                self._after_topics_known(core, ref, message, moment)
        elif not self.brokers.is_reachable or self.upstream_requests.is_full:
            self._log(self.migration.reject_unreachable(group_id, ref, message, moment))
        elif self.migration.enqueue(group_id, ref, message):
            has_offsets = self.topics.id_of(OFFSETS_TOPIC) is not None
            self._send_lookup(start_lookup(group_id, self.brokers.known, has_offsets=has_offsets), moment)

    def _send_lookup(self, step: NextRequests, moment: Moment) -> None:
        self._request_upstream(step.requests, None, step.lookup, moment, self._on_lookup_replies)

    def _on_lookup_replies(self, delayed: DelayedUpstreamRequest, moment: Moment) -> None:
        lookup = delayed.message
        assert isinstance(lookup, MigrationLookup)
        result = continue_lookup(lookup, list(delayed.answers.values()))
        if isinstance(result, NextRequests):
            self._send_lookup(result, moment)
            return
        waiting, line = self.migration.complete(lookup.group_id, result, self.topics, moment)
        self._log(line)
        for ref, message in waiting:
            self._after_migration(self.core, ref, message, moment)

    def _log(self, line: str) -> None:
        if line:
            self._effects.append(LogError(line))

    # ------------------------------------------------------------------------------------------------ upstream requests

    def _after_topics_known(self, core: object, ref: RequestRef, message: Message, moment: Moment) -> None:
        """Serve the request once the cluster has been asked for the unknown topics that it names."""
        missing: tuple[Metadata, ...] = ()
        if not self.upstream_requests.is_full:
            needs_ids = isinstance(message, OffsetCommit | OffsetFetch)
            missing = self.topics.to_ask(named_partitions(message), moment.monotonic_ms, needs_ids=needs_ids)
        if missing:
            self._commit_order.start(ref, message)
            self._request_topics(missing, ref, message, moment)
        elif not self._commit_order.enqueue_behind(ref, message):
            self._serve(ref, message, moment)

    def _after_fresh_metadata(self, core: object, ref: RequestRef, message: Metadata, moment: Moment) -> None:
        """Answer Metadata once the cluster has described the topics again, since leaders move."""
        can_ask = ref.connection != INTERNAL and not self.upstream_requests.is_full
        stale = self.topics.news_of(message, moment.monotonic_ms) if can_ask else ()
        if stale:
            self._request_topics(stale, ref, message, moment)
        else:
            self._after_topics_known(core, ref, message, moment)

    def _request_topics(self, queries: tuple[Metadata, ...], ref: RequestRef, message: Message, moment: Moment) -> None:
        requests = tuple((query, None) for query in queries)
        self._request_upstream(requests, ref, message, moment, self._on_topics_received)

    def _forward_to_cluster(self, core: object, ref: RequestRef, message: Message, moment: Moment) -> None:
        """Forward the request to a broker, unless it is about groups."""
        if is_local(message):
            HANDLERS[type(message)](self.core, ref, message, moment)
        elif self.proxied.logins.forward(ref, message, partial(forwarded_reply, self.topics, message)):
            return
        elif self.brokers.is_reachable and not self.upstream_requests.is_full:
            self._request_upstream(((message, None),), ref, message, moment, self._on_forwarded_reply)
        else:
            self.core.outbox.send(ref, unavailable(self.brokers, message))

    def _serve(self, ref: RequestRef, message: Message, moment: Moment) -> None:
        self._topic_handlers[type(message)](self.core, ref, message, moment)

    def _request_upstream(
        self,
        requests: tuple[tuple[Message, int | None], ...],
        ref: RequestRef | None,
        message: Message,
        moment: Moment,
        continuation: Continuation,
        joined: tuple[int, ...] = (),
    ) -> DelayedUpstreamRequest:
        delayed = self.upstream_requests.send(requests, ref, message, moment, joined)
        delayed.continuation = continuation
        self.core.purgatory.try_complete_else_watch(delayed)
        return delayed

    def _ask_broker(
        self, request: BrokerRequest, ref: RequestRef, message: Message, moment: Moment, continuation: Continuation
    ) -> bool:
        """Send one request of a client's; return false if the cluster cannot be asked now."""
        if not self.brokers.is_reachable or self.upstream_requests.is_full:
            return False
        self._request_upstream((request,), ref, message, moment, continuation)
        return True

    def _on_upstream_reply(self, event: UpstreamReply, moment: Moment) -> None:
        answered, waiting = self.upstream_requests.on_reply(event)
        if answered is not None and not self.topics.ends.learn(answered, event.reply, moment.monotonic_ms):
            self._refresh_topics(moment)
        for delayed in waiting:
            for completed in self.core.purgatory.check_and_complete(delayed.key):
                self.node.complete(completed, moment)

    def _on_topics_listed(self, delayed: DelayedUpstreamRequest, moment: Moment) -> None:
        self._is_listing_topics = False
        self.topics.on_answers(delayed.exchanges, moment.monotonic_ms)
        if not self.topics.is_unanswered:
            self.topics.watch_absent(self._offset_cleanup.stored(self.core.shards), moment.monotonic_ms)

    def _on_topics_received(self, delayed: DelayedUpstreamRequest, moment: Moment) -> None:
        self.topics.on_answers(delayed.exchanges, moment.monotonic_ms)
        assert delayed.ref is not None
        for ref, message in self._commit_order.finish(delayed.ref, delayed.message):
            self._serve(ref, message, moment)

    def _on_forwarded_reply(self, delayed: DelayedUpstreamRequest, moment: Moment) -> None:
        assert delayed.ref is not None
        self.core.outbox.send(delayed.ref, forwarded_reply(self.topics, *delayed.single_exchange, moment.monotonic_ms))

    def _on_request_done(self, event: UpstreamRequestDone, moment: Moment) -> None:
        delayed = self.upstream_requests.on_done(event)
        delayed.continuation(delayed, moment)


def _of_owners(core: Core, handlers: dict[type[Message], Handler]) -> dict[type[Message], Handler]:
    """Return the handlers, audited; if the brokers require logins, with checks of the members' principals."""
    if core.config.upstream_sasl_username is None:
        return audited(handlers)
    return MemberOwnership(core).guarded(audited(handlers))
