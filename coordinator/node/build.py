"""Construction of a node's parts from the disk; only its groups are loaded later, shard by shard."""

from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from typing import Any, Protocol

import msgspec
from msgspec.structs import replace
from sortedcontainers import SortedDict

from coordinator.accounts.accounts import Accounts
from coordinator.accounts.audit import AuditTrail
from coordinator.accounts.authorizer import Authorizer
from coordinator.accounts.oauth import TokenSettings, TokenVerifier
from coordinator.clock import Moment
from coordinator.config.config import Config
from coordinator.config.principals import ANONYMOUS, LOOPBACK, NODE_ITSELF
from coordinator.core.core import Core
from coordinator.groups.classic.subscriptions import SubscriptionCache
from coordinator.groups.consumer.topics import TopicImage
from coordinator.groups.outcome import IdSource
from coordinator.placement import Placement
from coordinator.runtime.group import Group
from coordinator.runtime.group_configs import CONFIGS_LOG, GroupConfigs
from coordinator.runtime.journal import Journal, decode_note
from coordinator.runtime.loader import Loadings
from coordinator.runtime.outbox import Outbox
from coordinator.runtime.shard import Shard, ShardState, ShardTools
from coordinator.runtime.shard_log import LocalLog
from coordinator.runtime.slices import SlicedRequests
from coordinator.runtime.topic_image import EmbeddedTopicImage
from coordinator.tasks.end_sampling import ENDS_LOG, EndSampling
from coordinator.tasks.end_sampling import POLICY as ENDS_POLICY
from coordinator.tasks.expiration import Expiry
from coordinator.tasks.retention import Retention
from coordinator.topics.embedded import EmbeddedTopics, TopicIdSource
from coordinator.topics.embedded import settings_from as topic_settings_from
from coordinator.topics.offsets_topic import offsets_topic
from coordinator.topics.produce import ProducerIdSource
from coordinator.topics.records import TOPICS_LOG
from coordinator.topics.rules import OFFSETS_TOPIC
from partition_log.cleanup_policy import Compact, Retain
from partition_log.compaction.cleaner import Cleaner
from partition_log.store.log_store import LogStore
from protocol.record_batch import decode_batch
from purgatory.purgatory import DelayedOperationPurgatory

_NOTES_LOG = "__muster_notes-0"


class Ids(IdSource, TopicIdSource, ProducerIdSource, Protocol):
    """All sources of unguessable ids."""


MakeShards = Callable[[int, ShardTools], list[Shard]]
"""Factory of the given number of shards, each with its log."""


def local_shards(store: LogStore, policy: Compact, count: int, tools: ShardTools) -> list[Shard]:
    """Make shards whose logs are in the store, to be loaded."""
    logs = [store.log(f"{OFFSETS_TOPIC}-{index}", policy) for index in range(count)]
    return [Shard(index, LocalLog(store, log), tools) for index, log in enumerate(logs)]


def notes_policy(config: Config) -> Retain:
    """Retention of the notes log: the journal is read at each start, so its size is bounded."""
    most = config.journal_retention_bytes
    return Retain(retention_bytes=most, segment_bytes=most // 8)


def authorizer_from(config: Config) -> Authorizer:
    """Build the authorizer that the configuration selects, without bindings."""
    return Authorizer(
        is_on=config.authorizer_class_name is not None,
        super_users=config.super_users.all | {NODE_ITSELF},
        allow_if_no_acl=config.allow_everyone_if_no_acl_found,
    )


def tokens_from(config: Config) -> TokenVerifier | None:
    """Build the token verifier that the configuration selects, without keys."""
    if not config.accepts_tokens:
        return None
    return TokenVerifier(
        TokenSettings(
            config.sasl_oauthbearer_expected_audience.all,
            config.sasl_oauthbearer_expected_issuer,
            config.sasl_oauthbearer_clock_skew_seconds,
            config.sasl_oauthbearer_sub_claim_name,
        )
    )


def make_core(
    config: Config,
    store: LogStore,
    ids: Ids,
    addresses: Mapping[str, tuple[str, int]],
    started: Moment,
    image: TopicImage | None = None,
    make_shards: MakeShards | None = None,
) -> Core:
    """Build the core of a `Node`. `image`: the topics of consumer groups; None: the embedded ones. `make_shards`: where
    shards have their logs; None: in `store`. Raises the errors of topics, accounts and journal for content that cannot
    have been written."""
    purgatory: DelayedOperationPurgatory[Any] = DelayedOperationPurgatory(started.monotonic_ms)
    journal = Journal(config.journal_notes_per_group, config.journal_retention_bytes)
    outbox = Outbox(store.flushed)
    notes_log = store.log(_NOTES_LOG, notes_policy(config))
    directory: SortedDict[str, Group] = SortedDict()
    group_configs = GroupConfigs(store, config)
    group_configs.load()
    placement = Placement(config.node_id, config.offsets_topic_num_partitions, dict(addresses))
    topics = EmbeddedTopics(store, topic_settings_from(config), ids, placement)
    slices = SlicedRequests()
    tools = ShardTools(
        purgatory=purgatory,
        journal=journal,
        notes_log=LocalLog(store, notes_log, is_deferred=True),
        outbox=outbox,
        ids=ids,
        settings=group_configs.settings,
        overrides=group_configs.overrides,
        max_batch_bytes=config.offsets_topic_max_message_bytes,
        directory=directory,
        broker_id=config.node_id,
        offsets_retention_ms=config.offsets_retention_minutes * 60_000,
        consumer_settings=group_configs.consumer_settings,
        take_settings=group_configs.take,
        topics=EmbeddedTopicImage(topics) if image is None else image,
        slices=slices,
    )
    own_policy = Compact(
        delete_retention_ms=config.log_cleaner_delete_retention_ms,
        min_dirty_ratio=config.log_cleaner_min_cleanable_ratio,
        max_lag_ms=config.log_cleaner_max_compaction_lag_ms,
    )
    accounts = Accounts(store, ids, authorizer_from(config), own_policy)
    accounts.load()
    if make_shards is None:
        offsets_policy = replace(own_policy, segment_bytes=config.offsets_topic_segment_bytes)
        make_shards = partial(local_shards, store, offsets_policy)
    shards = make_shards(config.offsets_topic_num_partitions, tools)
    offsets_logs = [shard.log.files for shard in shards if shard.log.files is not None]
    subscriptions = SubscriptionCache()
    core = Core(
        config=config,
        placement=placement,
        store=store,
        topics=topics,
        embedded=topics,
        purgatory=purgatory,
        journal=journal,
        outbox=outbox,
        slices=slices,
        shards=shards,
        cluster_id=store.identity.cluster_id,
        started=started,
        directory=directory,
        ids=ids,
        producer_ids=ids,
        group_configs=group_configs,
        loads=Loadings([shard for shard in shards if shard.state is ShardState.LOADING], started),
        end_sampling=EndSampling(
            LocalLog(store, store.log(ENDS_LOG, ENDS_POLICY), is_deferred=True), config.ends_sample_interval_ms
        ),
        retention=Retention(config.log_retention_check_interval_ms),
        cleaner=Cleaner(
            store,
            slice_bytes=config.cleaning_slice_bytes,
            map_bytes=config.log_cleaner_dedupe_buffer_size,
            backoff_ms=config.log_cleaner_backoff_ms,
        ),
        own_logs=(store.log(TOPICS_LOG, own_policy), store.log(CONFIGS_LOG, own_policy), accounts.log),
        accounts=accounts,
        tokens=tokens_from(config),
        audit=AuditTrail(is_on=config.audit_log_location is not None),
        anonymous=accounts.authorizer.of(ANONYMOUS, LOOPBACK),
        expiry=Expiry(
            config.offsets_retention_minutes * 60_000,
            config.offsets_retention_check_interval_ms,
            config.offsets_topic_max_message_bytes,
            subscriptions,
        ),
        subscriptions=subscriptions,
    )
    topics.load()
    topics.show(offsets_topic(offsets_logs, topics.settings, placement, started.wall_ms))
    for _header, data in notes_log.batches_from(notes_log.start_offset):
        for entry in decode_batch(bytes(data)):
            if entry.value is not None:
                with suppress(msgspec.DecodeError):  # a note of a later version must not prevent the start
                    journal.load(decode_note(entry.value))
    return core
