"""Every limit and default of the service, in one frozen object.

`load_config` is pure: it takes the arguments, the environment and a function that reads a file. It returns a `Config`
or raises a `ConfigError` with a sentence for the person who started the daemon. Flags win over `--set`, that over the
environment (`MUSTER_` and the key in upper case, `_` for `.`), that over the file, that over the defaults here.

A key is the field with `.` for `_`; Kafka's own key where Kafka has one (docs/spec/group-protocol.md#7.1). The help
text, the sample file and the checks are made from the `Meta` beside a field.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Annotated, Any

from msgspec import structs

from coordinator.config.accounts import check_accounts, token_warnings
from coordinator.config.cluster import ClusterConfig, check_cluster
from coordinator.config.consumer_groups import check_consumer_groups
from coordinator.config.keys import (
    INT_MAX,
    LONG_MAX,
    Address,
    Addresses,
    BackwardCommits,
    ConfigError,
    Hosts,
    Key,
    Names,
    Ports,
    UnguardedKinds,
    UpstreamOffsets,
    about,
    is_loopback,
    keys_of,
    whole,
)
from coordinator.config.security import check_security, security_warnings
from coordinator.config.sources import Given, from_arguments, from_environment, from_file, resolve, warnings_for

__all__ = ["FLAGS", "KEYS", "Address", "Config", "ConfigError", "Key", "load_config"]

KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30

FLAGS: Mapping[str, str] = {
    "--data-dir": "data.dir",
    "--native": "native",
    "--kafka": "kafka",
    "--http": "http",
    "--advertised": "advertised",  # KIND=HOST:PORT, short for advertised.KIND
    "--upstream": "upstream.servers",
    "--open-to-network": "open.to.network",  # takes no value
}


class Config(ClusterConfig, frozen=True, kw_only=True):
    """Configuration of the daemon. `Config()` has the defaults; `load_config` checks values."""

    # Where things are.
    data_dir: Annotated[
        str, about("Folder of everything durable; one daemon a folder.", section="Where things are")
    ] = "./muster-data"
    native: Annotated[Address | None, about("Where the native protocol listens, or off. Port 0 takes a free one.")] = (
        Address("127.0.0.1", 9390)
    )
    kafka: Annotated[Address | None, about("Where Kafka's clients are served, or off. Port 0 takes a free one.")] = (
        Address("127.0.0.1", 9092)
    )
    http: Annotated[
        Address | None, about("Where the HTTP API and /metrics listen, or off. Port 0 takes a free one.")
    ] = Address("127.0.0.1", 9391)
    advertised_native: Annotated[
        Address | None, about("Address that clients of the native protocol are told to connect to, if it differs.")
    ] = None
    advertised_kafka: Annotated[
        Address | None, about("Address that clients of Kafka's protocol are told to connect to, if it differs.")
    ] = None
    advertised_http: Annotated[
        Address | None, about("Address that users of HTTP are told to connect to, if it differs.")
    ] = None
    open_to_network: Annotated[
        bool, about("Allow addresses off loopback where clients need no certificate (tls.client.ca.location).")
    ] = False
    node_id: Annotated[int, whole("This node's number, as clients see it.")] = 1
    cluster_id: Annotated[
        str | None, about("Name of the cluster. Default: made at the first start and kept in the data folder.")
    ] = None

    # Groups.
    group_min_session_timeout_ms: Annotated[
        int, whole("A join that names a shorter session timeout is refused.", section="Groups")
    ] = 6_000
    group_max_session_timeout_ms: Annotated[int, whole("A join that names a longer session timeout is refused.")] = (
        1_800_000
    )
    group_initial_rebalance_delay_ms: Annotated[
        int, whole("How long the first rebalance of an empty group waits for more members.")
    ] = 3_000
    group_max_size: Annotated[int, whole("Members one group may have.", lowest=1)] = INT_MAX
    server_balance_interval_ms: Annotated[
        int, whole("How often the coordinator assigns the partitions of server-balanced groups again.", 1_000)
    ] = 30_000
    group_forbidden_topics: Annotated[
        Names, about("Topics that client-balanced groups may not read; a group may have a list of its own.")
    ] = Names()
    group_forbidden_filters: Annotated[
        Names, about("Filters that members of client-balanced groups may not have; a group may have a list of its own.")
    ] = Names()
    group_offsets_backward: Annotated[
        BackwardCommits,
        about("Commits below the previous offset; flagged: noted. A group may have its own value."),
    ] = BackwardCommits.FLAGGED
    group_offsets_pinned: Annotated[
        bool, about("Keep offsets and groups from expiring. A group may have its own value.")
    ] = False
    group_max_metadata_bytes: Annotated[
        int, whole("Bytes of subscriptions and other protocol metadata that the members of one group may hold.", 1_024)
    ] = 16 * MIB
    max_groups: Annotated[int, whole("Groups the node keeps; a new one beyond them is refused.", lowest=1)] = 1_000_000
    max_pending_ids_per_group: Annotated[
        int, whole("Member ids handed out in one group and not yet used to join.", lowest=1)
    ] = 10_000
    journal_notes_per_group: Annotated[
        int, whole("Notes on why a group rebalanced that are kept for each group.", lowest=1)
    ] = 200
    journal_retention_bytes: Annotated[
        int,
        whole(
            "Bytes of notes kept of all groups together, on disk and again in memory; a start reads all of them.",
            MIB,
            LONG_MAX,
        ),
    ] = 32 * MIB

    # Offsets.
    offset_metadata_max_bytes: Annotated[
        int,
        # In UTF-8 up to three times as many bytes, for which a record has a length of two bytes.
        whole("Bytes of text a client may keep with a committed offset.", 0, 10_922, section="Offsets"),
    ] = 4_096
    offsets_topic_num_partitions: Annotated[
        int, whole("Shards of the offsets log. Must not change once the data folder is in use.", 1, 10_000)
    ] = 50
    offsets_topic_segment_bytes: Annotated[
        int,
        whole("Bytes of one segment file of the offsets log; kept small for fast compaction and loading.", 16 * KIB),
    ] = 100 * MIB
    offsets_topic_max_message_bytes: Annotated[
        int, whole("Bytes of the largest batch in the offsets log; below wal.segment.bytes.", 16 * KIB, GIB)
    ] = 16 * MIB
    offsets_retention_minutes: Annotated[
        int, whole("How long the offsets of a group without members are kept (docs/spec/group-protocol.md#4.4).", 1)
    ] = 10_080
    offsets_retention_check_interval_ms: Annotated[int, whole("How often expired offsets are looked for.", 1)] = 600_000
    ends_sample_interval_ms: Annotated[
        int,
        whole("How often committed offsets and the ends of their logs are sampled, for the history of lag; 0: never."),
    ] = 60_000

    # Embedded topics.
    num_partitions: Annotated[
        int,
        whole("Partitions of a topic that is created without naming a number.", 1, 10_000, section="Embedded topics"),
    ] = 1
    auto_create_topics_enable: Annotated[
        bool, about("Create a topic when a client requests its metadata with the flag to create it.")
    ] = True
    message_max_bytes: Annotated[
        int, whole("Bytes of the largest batch a producer may send; below wal.segment.bytes.", 1, GIB)
    ] = 1_048_588
    log_segment_bytes: Annotated[int, whole("Bytes of one segment file of a topic.", 16 * KIB)] = GIB
    log_retention_ms: Annotated[
        int | None,
        whole("How long records of a topic are kept, before log.retention.minutes; -1: for ever.", -1, LONG_MAX),
    ] = None
    log_retention_minutes: Annotated[
        int | None, whole("The same in minutes, before log.retention.hours; -1: for ever.", -1)
    ] = None
    log_retention_hours: Annotated[int, whole("The same in hours; -1: for ever.", -1)] = 168
    log_retention_bytes: Annotated[int, whole("Bytes kept of each partition; -1: no limit.", -1, LONG_MAX)] = -1
    log_retention_check_interval_ms: Annotated[int, whole("How often old segments are looked for.", 1, LONG_MAX)] = (
        300_000
    )
    producer_id_expiration_ms: Annotated[
        int, whole("How long a partition remembers an idempotent producer that writes nothing to it.", 1)
    ] = 86_400_000
    max_producers_per_partition: Annotated[
        int,
        whole("Idempotent producers a partition remembers; one more replaces the one silent longest.", 1),
    ] = 5_000
    fetch_max_bytes: Annotated[
        int, whole("Bytes of records in the answer to one fetch, whatever it asks for.", 1_024)
    ] = 55 * MIB
    fetch_max_wait_ms: Annotated[int, whole("The longest a fetch may wait for records, whatever it asks for.")] = 60_000

    # Compaction.
    log_cleaner_min_cleanable_ratio: Annotated[
        float, about("The part of a compacted log that must be new before it is cleaned.", section="Compaction")
    ] = 0.5
    log_cleaner_delete_retention_ms: Annotated[
        int, whole("How long cleaning keeps a tombstone that it has seen.", 0, LONG_MAX)
    ] = 86_400_000
    log_cleaner_min_compaction_lag_ms: Annotated[
        int, whole("How long a record of a compacted topic is kept from cleaning at least.", 0, LONG_MAX)
    ] = 0
    log_cleaner_max_compaction_lag_ms: Annotated[
        int, whole("How long a record of a compacted log may wait to be cleaned, whatever is new.", 1, LONG_MAX)
    ] = LONG_MAX
    log_cleaner_backoff_ms: Annotated[int, whole("How long cleaning waits after it found nothing to clean.", 1)] = (
        15_000
    )
    log_cleaner_dedupe_buffer_size: Annotated[
        int, whole("Bytes that the keys of one pass may take; those of one segment are always taken.", MIB, LONG_MAX)
    ] = 128 * MIB
    cleaning_slice_bytes: Annotated[
        int, whole("Bytes that one slice of cleaning reads before other work continues.", 4 * KIB)
    ] = 64 * KIB

    # Beside real brokers.
    upstream_servers: Annotated[
        Addresses | None,
        about(
            "Some brokers of the Kafka cluster behind this node; its topics replace embedded ones.",
            section="Beside real brokers",
        ),
    ] = None
    upstream_listener_ports: Annotated[
        Ports, about("Ports of the listeners in front of the brokers, one a broker, on the host of the Kafka listener.")
    ] = Ports(9100, 9199)
    upstream_offsets: Annotated[
        UpstreamOffsets, about("Whether a group that is new here continues at its offsets in the cluster.")
    ] = UpstreamOffsets.ADOPT
    upstream_refresh_ms: Annotated[int, whole("How often the cluster is asked for its brokers.", 100)] = 5_000
    upstream_metadata_max_age_ms: Annotated[int, whole("How often the cluster is asked for its topics.", 100)] = 30_000
    upstream_topic_deleted_after_ms: Annotated[
        int,
        whole("Offsets of a topic are deleted after all brokers denied it for so long; -1: never.", -1),
    ] = 300_000
    upstream_ask_timeout_ms: Annotated[
        int, whole("How long a request waits for the cluster's answer before it continues without.", 1)
    ] = 5_000
    upstream_request_timeout_ms: Annotated[
        int, whole("A connection is closed if its broker owes a reply and sends nothing for so long.", 1_000)
    ] = 120_000
    upstream_unguarded_listeners: Annotated[
        UnguardedKinds | None,
        about(
            "Listeners that open without logins although the cluster has ACLs, which do not apply there. Listeners "
            "with tls.client.ca.location open anyway; clients of others log in at brokers that require logins."
        ),
    ] = None

    # Connections.
    max_connections: Annotated[int, whole("Connections open at once.", lowest=1, section="Connections")] = 10_000
    http_max_connections: Annotated[
        int, whole("HTTP connections open at once; counted apart from max.connections.", lowest=1)
    ] = 256
    http_metrics_max_series: Annotated[
        int, whole("Partitions of groups, and as many of topics, with series of their own in /metrics.", lowest=1)
    ] = 10_000
    http_allowed_hosts: Annotated[
        Hosts, about("Host names that HTTP serves, besides localhost, addresses and advertised names.")
    ] = Hosts()
    connections_max_idle_ms: Annotated[
        int,
        whole(
            "A connection without an unanswered request on which no byte moved for so long is closed; -1: never.", -1
        ),
    ] = 600_000
    max_requests_per_connection: Annotated[
        int, whole("Requests of one connection that may wait for their answer; more are refused.", lowest=1)
    ] = 1_024
    max_entries_per_request: Annotated[
        int,
        whole(
            "Partitions, members or groups that one request may name, or have listed; more are refused, since all "
            "other clients wait meanwhile.",
            1_000,
        ),
    ] = 20_000
    max_unsent_bytes: Annotated[
        int, whole("Bytes of replies a slow reader may leave unread before its connection is closed.", 64 * KIB)
    ] = 64 * MIB
    max_total_unsent_bytes: Annotated[
        int,
        whole(
            "Bytes of replies that all clients together may leave unread: fetches return less as the total grows; "
            "beyond it the connections of the slowest readers are closed.",
            MIB,
            LONG_MAX,
        ),
    ] = 512 * MIB
    max_unfinished_bytes: Annotated[
        int,
        whole(
            "Bytes of requests that are incomplete, or wait to be served, of all connections together; beyond "
            "them the connections with most such bytes are closed.",
            MIB,
            LONG_MAX,
        ),
    ] = 512 * MIB
    native_max_frame_bytes: Annotated[
        int,
        whole("Bytes of the largest request of the native protocol; a larger one closes its connection.", 1_024, GIB),
    ] = 16 * MIB
    socket_request_max_bytes: Annotated[
        int, whole("Bytes of the largest request of the Kafka dialect; a larger one closes its connection.", 1_024)
    ] = 100 * MIB

    # The node.
    max_watched_operations: Annotated[
        int, whole("Waiting operations (sessions, joins, fetches) of the node.", 1_000, section="The node")
    ] = 2_000_000
    max_watched_partitions: Annotated[
        int, whole("Partitions of all waiting fetches together; beyond them a fetch does not wait.", 1_000)
    ] = 500_000
    max_metadata_bytes: Annotated[
        int,
        whole("Bytes of protocol metadata that the members of all groups may hold; a join beyond is refused.", MIB),
    ] = GIB
    max_held_replies: Annotated[int, whole("Replies that may wait for the disk; more requests are refused.", 1)] = (
        100_000
    )
    max_unflushed_bytes: Annotated[
        int, whole("Bytes that may wait to be synced; more writes are refused.", MIB, LONG_MAX)
    ] = 256 * MIB
    wal_segment_bytes: Annotated[
        int, whole("Bytes of one segment of the write-ahead log, written full of zeros beforehand.", MIB, 2 * GIB)
    ] = 32 * MIB
    wal_checkpoint_bytes: Annotated[
        int, whole("Bytes of write-ahead log after which a checkpoint syncs the partition logs.", MIB, LONG_MAX)
    ] = 64 * MIB
    warnings: tuple[str, ...] = ()
    """Warnings for the log: keys of Kafka's that were given and are not honoured. Not a key itself."""

    @property
    def relays_logins(self) -> bool:
        """True if native clients log in at the cluster's brokers, as nothing else tells there who a client is."""
        return _relays_logins(self, "native")

    @property
    def relays_http_logins(self) -> bool:
        """True if users of HTTP log in at the cluster's brokers, where the cluster has ACLs."""
        return _relays_logins(self, "http")

    @property
    def retention_ms(self) -> int | None:
        """Retention of a topic's records, from the first of the three keys that is set; None is for ever."""
        if self.log_retention_ms is not None:
            chosen = self.log_retention_ms
        elif self.log_retention_minutes is not None:
            chosen = self.log_retention_minutes * 60_000
        else:
            chosen = self.log_retention_hours * 3_600_000
        return chosen if chosen >= 0 else None


def _relays_logins(config: Config, kind: str) -> bool:
    named = config.upstream_unguarded_listeners
    is_unguarded = config.asks_who(kind) or (named is not None and kind in named.all)
    return config.upstream_servers is not None and config.upstream_sasl_username is not None and not is_unguarded


KEYS: Mapping[str, Key] = keys_of(Config)
"""Every key, in the order of the sample file."""


def load_config(arguments: Sequence[str], environment: Mapping[str, str], read_file: Callable[[str], bytes]) -> Config:
    """Return the configuration, or raise a ConfigError whose sentence names the key, the value, its origin and the
    allowed values.

    `read_file` returns a file's bytes or raises OSError; it is called for `--config` alone. `--help` and `--version`
    are not arguments in this sense: `help.asked` looks for them first.
    """
    path, from_flags = from_arguments(arguments, FLAGS)
    given = [
        *(from_file(path, read_file) if path is not None else ()),
        *from_environment(environment),
        *from_flags,
    ]
    chosen = resolve(given, KEYS)
    values: dict[str, Any] = {KEYS[name].field: value for name, (value, _) in chosen.items()}
    config = Config(**values, warnings=warnings_for(given, KEYS))
    _check_together(config, {name: source for name, (_, source) in chosen.items()})
    return structs.replace(
        config, warnings=config.warnings + security_warnings(config) + token_warnings(config) + _idle(config, chosen)
    )


def _idle(config: Config, chosen: Iterable[str]) -> tuple[str, ...]:
    """Return warnings for keys whose main key is not set: it was left out in error, or they were left in. Defaults in a
    sample file are not counted."""
    defaults = Config()
    fields = [(key, KEYS[key].field) for key in chosen if key.startswith("upstream.")]
    keys = sorted(key for key, field in fields if getattr(config, field) != getattr(defaults, field))
    if config.upstream_servers is not None or not keys:
        return ()
    have, are = ("has", "it is") if len(keys) == 1 else ("have", "they are")
    return (f"{', '.join(keys)} {have} no effect without upstream.servers (--upstream): {are} about a Kafka cluster",)


def _check_together(config: Config, chosen: Mapping[str, Given]) -> None:
    """Check the values that depend on each other."""

    def wrong(key: str, allowed: str) -> ConfigError:
        shown = KEYS[key].show(getattr(config, KEYS[key].field))
        return ConfigError(f"{key} = {shown} ({chosen[key].origin if key in chosen else 'the default'}): {allowed}")

    for key, address in (("native", config.native), ("kafka", config.kafka), ("http", config.http)):
        is_open = address is not None and not is_loopback(address.host) and not config.is_closed(key)
        if is_open and not config.open_to_network:
            raise wrong(
                key,
                "clients would need no login, so an address off loopback needs tls.client.ca.location"
                f" or sasl.enabled.mechanisms{' with TLS' if key == 'http' else ''}, or --open-to-network where the "
                "network is trusted",
            )
    if config.native is None and config.kafka is None and config.http is None:
        raise wrong("native", "native, kafka and http are all off; one of them must listen")
    if config.group_max_session_timeout_ms < config.group_min_session_timeout_ms:
        lowest = config.group_min_session_timeout_ms
        raise wrong("group.max.session.timeout.ms", f"group.min.session.timeout.ms ({lowest}) or more is allowed")
    for key, size in (
        ("offsets.topic.max.message.bytes", config.offsets_topic_max_message_bytes),
        ("message.max.bytes", config.message_max_bytes),
    ):
        if size >= config.wal_segment_bytes:
            raise wrong(key, f"less than wal.segment.bytes ({config.wal_segment_bytes}) is allowed")
    check_consumer_groups(config, wrong)
    check_security(config, chosen, wrong)
    check_cluster(config, wrong, is_beside=config.upstream_servers is not None)
    check_accounts(config, chosen, wrong, is_beside=config.upstream_servers is not None)
    if config.upstream_servers is not None and config.kafka is None:
        raise wrong("kafka", "with upstream.servers there must be a listener for Kafka's clients to begin at")
