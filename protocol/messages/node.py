"""The node itself: greeting, discovery, and what it says of its own health."""

from protocol.errors import ErrorCode
from protocol.messages import Int32, Message, Text


class Hello(Message):
    """Optional first request of a native connection; names the client for people who look at members later."""

    client_name: Text = ""
    client_version: Text = ""
    mechanism: Text | None = None
    token: str | None = None


class HelloReply(Message):
    server_name: str
    server_version: str
    node_id: int
    methods: tuple[str, ...]
    limits: dict[str, int]


class FindCoordinator(Message):
    """`key_type` 0: groups."""

    coordinator_keys: tuple[Text, ...]
    key_type: Int32 = 0


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


class DescribeNodeReply(Message):
    """`counters` only grow while the process lives; `gauges` are as of now. Names are those of `/metrics`."""

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


class Refused(Message):
    """The reply to a request that no group or topic ever saw: a gate, or the wire, refused it as a whole."""

    error_code: ErrorCode
    error_message: str = ""
