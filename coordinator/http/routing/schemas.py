"""Short builders of JSON Schemas for answers. Pure."""

from typing import Final

import msgspec

from coordinator.http.routing.route import Schema
from coordinator.http.shapes import Json
from diagnosis.offset_plan import PlannedOffset
from diagnosis.problem import Kind
from protocol.messages.groups import DescribedMember, ListedNote
from protocol.messages.node import FailedShard, LoadProgress
from protocol.messages.offsets import CommitOrigin
from protocol.messages.ownership import OwnedPartition

TEXT: Final[Json] = {"type": "string"}
WHOLE: Final[Json] = {"type": "integer"}
TRUTH: Final[Json] = {"type": "boolean"}
NUMBER: Final[Json] = {"type": "number"}
TEXT_OR_NULL: Final[Json] = {"type": ["string", "null"]}
WHOLE_OR_NULL: Final[Json] = {"type": ["integer", "null"]}
NUMBER_OR_NULL: Final[Json] = {"type": ["number", "null"]}
TRUTH_OR_NULL: Final[Json] = {"type": ["boolean", "null"]}
COUNTS: Final[Json] = {"type": "object", "additionalProperties": WHOLE}
TEXTS: Final[Json] = {"type": "array", "items": TEXT}


def record(title: str, /, optional: tuple[str, ...] = (), *, is_open: bool = False, **fields: Schema) -> Json:
    """Return the schema of an object. All fields are required except the `optional` ones; `is_open`: additional fields
    are allowed."""
    return {
        "title": title,
        "type": "object",
        "required": [name for name in fields if name not in optional],
        "properties": fields,
        **({"additionalProperties": True} if is_open else {}),
    }


def several(items: Schema) -> Json:
    """Return the schema of a list."""
    return {"type": "array", "items": items}


def with_nulls(title: str, kind: type[msgspec.Struct], without: tuple[str, ...] = (), /, **more: Schema) -> Json:
    """Return the schema of a message as a page shows it: unknown values are null; the fields `without` are omitted,
    `more` are added."""
    own = msgspec.json.schema_components([kind], ref_template="#/components/schemas/{name}")[1][kind.__name__]
    fields = {name: _or_null(one) for name, one in own["properties"].items() if name not in without}
    return record(title, tuple(fields), is_open=True, **{**fields, **more})


def _or_null(one: Json) -> Json:
    if one.get("type") in ("integer", "string"):
        return {"type": [one["type"], "null"]}
    return {name: value for name, value in one.items() if name != "default"}


_PLACE: Final = record("TopicPartition", topic=TEXT, partition=WHOLE)
PLACES: Final = several(_PLACE)
MEMBER: Final = with_nulls(
    "Member",
    DescribedMember,
    ("member_metadata", "member_assignment", "target_assignment", "pending_revocation"),
    partitions=PLACES,
    reported={"type": "object", "additionalProperties": TEXT},
    target=PLACES,
    to_revoke=PLACES,
)
NOTES: Final = record("Notes", group_id=TEXT, notes=several(ListedNote), next_after=WHOLE)
EXPIRING: Final = record(
    "Expiring",
    group_id=TEXT,
    group_state=TEXT,
    retention_ms=WHOLE,
    next_run_ms=WHOLE,
    group_expires_ms=WHOLE_OR_NULL,
    group_kept_because=TEXT_OR_NULL,
    offsets=several(
        record(
            "Expiry",
            topic=TEXT,
            partition=WHOLE,
            committed_offset=WHOLE_OR_NULL,
            committed_ms=WHOLE_OR_NULL,
            expires_ms=WHOLE_OR_NULL,
            kept_because=TEXT_OR_NULL,
        )
    ),
    next_page_token=TEXT_OR_NULL,
)
OWNERSHIP: Final = record("Ownership", group_id=TEXT, partitions=several(OwnedPartition), next_page_token=TEXT_OR_NULL)
_COMMITTER: Final = with_nulls("Committer", CommitOrigin, ("partition_index", "previous_offset", "repeated_since_ms"))
COMMITS: Final = record(
    "Commits",
    group_id=TEXT,
    offsets=several(
        record(
            "CommittedOffset",
            topic=TEXT,
            partition=WHOLE,
            offset=WHOLE,
            metadata=TEXT_OR_NULL,
            committed_ms=WHOLE_OR_NULL,
            previous_offset=WHOLE_OR_NULL,
            repeated_since_ms=WHOLE_OR_NULL,
            committed_by={"anyOf": [_COMMITTER, {"type": "null"}]},
        )
    ),
    next_page_token=TEXT_OR_NULL,
)
PROBLEM_OF_GROUP: Final = record(
    "GroupProblem",
    is_open=True,
    kind={"enum": [kind.value for kind in Kind]},
    group_id=TEXT,
    sentence=TEXT,
    member_id=TEXT_OR_NULL,
    client_id=TEXT_OR_NULL,
    client_host=TEXT_OR_NULL,
    client_port=WHOLE_OR_NULL,
    since_ms=WHOLE_OR_NULL,
    seen_ms=WHOLE_OR_NULL,
    partitions=WHOLE,
    records=WHOLE,
    command=TEXT_OR_NULL,
)
UNAVAILABLE: Final = record(
    "Unavailable",
    nodes=several(record("SilentNode", node_id=WHOLE, why=TEXT)),
    shards=several(WHOLE),
)
"""Parts of the cluster that are missing in an answer; the field is omitted if there are none."""
PROBLEMS: Final = record("Problems", ("unavailable",), problems=several(PROBLEM_OF_GROUP), unavailable=UNAVAILABLE)
CHANGED: Final = record("Changed", group_id=TEXT, id=TEXT, changed=WHOLE, left_out=WHOLE)
PLAN: Final = record("Plan", group_id=TEXT, plan=several(PlannedOffset))
GROUP_IDS: Final = record(
    "Groups",
    ("next_page_token", "unavailable"),
    groups=TEXTS,
    next_page_token=TEXT_OR_NULL,
    unavailable=UNAVAILABLE,
)
_BALANCED_MEMBER: Final = record(
    "BalancedMember",
    is_open=True,
    consumer_id=TEXT,
)
GROUP: Final = record(
    "Group",
    is_open=True,
    group=TEXT,
    mode={"enum": ["client", "server"]},
    state=TEXT,
    member_count=WHOLE,
    members={"type": "array", "items": {"anyOf": [MEMBER, _BALANCED_MEMBER]}},
)
BALANCED_PARTITION: Final = record(
    "BalancedPartition",
    key=TEXT,
    subscribable=TRUTH,
    reason=TEXT_OR_NULL,
    owner=TEXT_OR_NULL,
    node_id=WHOLE_OR_NULL,
    reg_epoch=WHOLE_OR_NULL,
    since_ms=WHOLE_OR_NULL,
    committed=WHOLE_OR_NULL,
    in_flight=WHOLE_OR_NULL,
    end=WHOLE_OR_NULL,
    lag=WHOLE_OR_NULL,
    level=WHOLE_OR_NULL,
    lag_seconds=NUMBER_OR_NULL,
    commit_age_seconds=NUMBER_OR_NULL,
)
BALANCED_PARTITIONS: Final = record("BalancedPartitions", group=TEXT, partitions=several(BALANCED_PARTITION))
BALANCED_LAG: Final = record(
    "BalancedLag",
    total=WHOLE,
    unowned=WHOLE,
    by_node=COUNTS,
    by_topic=COUNTS,
    max_lag_seconds=NUMBER_OR_NULL,
    commit_age_seconds=NUMBER_OR_NULL,
)
READERS: Final = record(
    "Readers",
    ("unavailable",),
    topic=TEXT,
    groups=several(record("Reader", group=TEXT, member_count=WHOLE)),
    unavailable=UNAVAILABLE,
)
FROM_MAX: Final = record("ConsumeFromMax", group=TEXT, from_max_id=WHOLE)
HEALTH: Final = record("Health", healthy=TRUTH)
READINESS: Final = record(
    "Readiness",
    ("shards_to_read", "disk_full", "failed_shards", "loading", "log_problems", "upstream"),
    ready=TRUTH,
    shards_loaded=WHOLE,
    shards_total=WHOLE,
    shards_to_read=WHOLE,
    disk_full=TRUTH,
    failed_shards=several(FailedShard),
    loading=LoadProgress,
    log_problems=TEXTS,
    upstream=record("Upstream", ("why",), reachable=TRUTH, age_ms=WHOLE, why=TEXT),
)
INDEX: Final = record("Index", service=TEXT, paths=TEXTS)
WHAT_IF: Final = record(
    "WhatIf",
    group_id=TEXT,
    assignor=TEXT,
    members=several(record("NextShare", member_id=TEXT, partitions=PLACES, next_partitions=PLACES)),
    moved=several(
        record("MovedPartition", topic=TEXT, partition=WHOLE, member_id=TEXT_OR_NULL, next_member_id=TEXT_OR_NULL)
    ),
)
HELD: Final = record("Held", group_id=TEXT, hold_left_ms=WHOLE)
_CHANGED_MEMBERS: Final = several(record("ChangedMember", member_id=TEXT, error=TEXT_OR_NULL))
EVICTED: Final = record("Evicted", group_id=TEXT, members=_CHANGED_MEMBERS)
DRAINED: Final = record("Drained", group_id=TEXT, members=_CHANGED_MEMBERS)
