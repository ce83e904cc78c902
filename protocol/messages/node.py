"""The node itself: greeting, discovery and health."""

from protocol.errors import ErrorCode
from protocol.messages import GroupId, Int8, Int32, Message, Text


class Hello(Message):
    """Optional first request of a native connection, which names the client in descriptions of members."""

    client_name: Text = ""
    client_version: Text = ""
    mechanism: Text | None = None
    token: str | None = None


class Login(Message):
    """One step of a SASL login: the mechanism, and its next bytes. Repeated until the reply has `done`. A listener with
    logins closes a connection that sends any other request than Hello before that."""

    mechanism: Text
    auth_bytes: bytes = b""


class LoginReply(Message):
    """`session_lifetime_ms`: lifetime of the login; 0: unlimited. The client may log in again on the same connection,
    by the same mechanism."""

    auth_bytes: bytes = b""
    done: bool = False
    session_lifetime_ms: int = 0
    error_code: ErrorCode = ErrorCode.NONE
    error_message: str = ""


class HttpLoginReply(Message):
    """Reply to a login over HTTP, only within the process. `session` is the secret of the session that was opened, if
    one was; `session_lifetime_ms`: its longest lifetime."""

    principal: str = ""
    session: str = ""
    session_lifetime_ms: int = 0
    error_code: ErrorCode = ErrorCode.NONE

    def __repr__(self) -> str:
        return f"HttpLoginReply(principal={self.principal!r}, error_code={self.error_code!r}, hidden)"


class HelloReply(Message):
    server_name: str
    server_version: str
    node_id: int
    methods: tuple[str, ...]
    limits: dict[str, int]


class FindCoordinator(Message):
    """Find the coordinators of keys. `key_type` 0: groups."""

    coordinator_keys: tuple[GroupId, ...]
    key_type: Int8 = 0


class FoundCoordinator(Message):
    key: str
    node_id: int = -1
    host: str = ""
    port: int = -1
    error_code: ErrorCode = ErrorCode.NONE
    error_message: str | None = None


class FindCoordinatorReply(Message):
    coordinators: tuple[FoundCoordinator, ...] = ()
    throttle_time_ms: int = 0


class DescribeNode(Message):
    pass


class LoadProgress(Message):
    """Progress of loading the shards; after loading, its totals. Bytes are bytes of logs and snapshots to be read.
    `left_ms` is -1 if unknown.
    """

    is_loading: bool
    records: int
    bytes_done: int
    bytes_total: int
    bytes_per_second: int
    elapsed_ms: int
    left_ms: int
    from_snapshots: int


class FailedShard(Message):
    """Shard that is not served, and the problem of its log."""

    shard: int
    reason: str


class DescribeNodeReply(Message):
    """State of the node. `counters` only grow while the process lives; `gauges` are current. Names are those of
    `/metrics`. `upstream_problem`: reason why the cluster of brokers is unreachable."""

    node_id: int
    cluster_id: str
    version: str
    started_wall_ms: int
    shards_total: int
    shards_loaded: int
    addresses: dict[str, str]
    group_states: dict[str, int]
    rebalances_by_cause: dict[str, int]
    counters: dict[str, int]
    gauges: dict[str, int]
    loading: LoadProgress | None = None
    failed_shards: tuple[FailedShard, ...] = ()
    upstream_problem: str = ""
    waiting: dict[str, int] = {}
    """Numbers of operations in the purgatory, by kind."""
    wall_ms: int = -1
    """The node's clock when it answered."""
    log_problems: tuple[str, ...] = ()
    """Problems of the log of groups and offsets that make it unsafe, if it is in the Kafka cluster."""


class ErrorReply(Message):
    """Reply to a request that admission or the wire rejected as a whole, before any group or topic."""

    error_code: ErrorCode
    error_message: str = ""


class DescribeCluster(Message):
    """Describe the cluster. `endpoint_type` 1: brokers, 2: controllers."""

    include_cluster_authorized_operations: bool = False
    endpoint_type: Int8 = 1
    include_fenced_brokers: bool = False


class DescribedBroker(Message):
    broker_id: int
    host: str
    port: int
    rack: str | None = None
    is_fenced: bool = False


class DescribeClusterReply(Message):
    cluster_id: str = ""
    controller_id: int = -1
    brokers: tuple[DescribedBroker, ...] = ()
    error_code: ErrorCode = ErrorCode.NONE
    error_message: str | None = None
    endpoint_type: int = 1
    cluster_authorized_operations: int = -2147483648
    throttle_time_ms: int = 0


class ApiVersions(Message):
    """Request the server's APIs and versions; Kafka's clients send it first."""

    client_software_name: Text = ""
    client_software_version: Text = ""


class ApiVersion(Message):
    api_key: int
    min_version: int
    max_version: int


class SupportedFeature(Message):
    name: str
    min_version: int
    max_version: int


class FinalizedFeature(Message):
    name: str
    max_version_level: int
    min_version_level: int


class ApiVersionsReply(Message):
    error_code: ErrorCode = ErrorCode.NONE
    api_keys: tuple[ApiVersion, ...] = ()
    supported_features: tuple[SupportedFeature, ...] = ()
    finalized_features_epoch: int = -1
    finalized_features: tuple[FinalizedFeature, ...] = ()
    zk_migration_ready: bool = False
    throttle_time_ms: int = 0


class SaslHandshake(Message):
    mechanism: Text


class SaslHandshakeReply(Message):
    error_code: ErrorCode = ErrorCode.NONE
    mechanisms: tuple[str, ...] = ()


class SaslAuthenticate(Message):
    auth_bytes: bytes


class SaslAuthenticateReply(Message):
    error_code: ErrorCode = ErrorCode.NONE
    error_message: str | None = None
    auth_bytes: bytes = b""
    session_lifetime_ms: int = 0


class Measure(Message):
    """Request counts by group, of at most `limit` groups, and distributions of durations, both since the start."""

    limit: Int32 = 10_000


class GroupTally(Message):
    """Counts of a group. `phase_ms`: completed time in each state."""

    group_id: str
    rebalances: int
    takeovers: int
    refusals: int
    fenced_commits: int
    phase_ms: dict[str, int]


class MeasuredDurations(Message):
    """Distribution of `what` (`request`, by API; `sync`; `loop lag`): the number in each bucket, and the sum."""

    what: str
    api: str
    counts: tuple[int, ...]
    sum_ms: float


class MeasureReply(Message):
    groups: tuple[GroupTally, ...] = ()
    durations: tuple[MeasuredDurations, ...] = ()
