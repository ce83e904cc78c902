"""Columns of the tables, as Spark's types."""

from collections.abc import Mapping
from typing import Any, Literal

TableName = Literal["commits", "ends", "groups", "notes", "topics"]

_PARTITIONS = "array<struct<topic:string,partition:int>>"
_MEMBER = (
    "struct<member:string,instance:string,client:string,host:string,principal:string,software:string,"
    f"session_timeout_ms:int,group_protocol:string,epoch:int,topics:array<string>,partitions:{_PARTITIONS}>"
)
_CHANGE = "struct<topic:string,partition:int,previous_offset:bigint,offset:bigint>"

COLUMNS: Mapping[TableName, Mapping[str, str]] = {
    "commits": {
        "group": "string",
        "topic": "string",
        "partition": "int",
        "offset": "bigint",
        "leader_epoch": "int",
        "metadata": "string",
        "committed_at": "timestamp",
        "expires_at": "timestamp",
        "kept_because": "string",
        "exists": "boolean",
        "log_start": "bigint",
        "log_end": "bigint",
        "lag": "bigint",
        "read_at": "timestamp",
    },
    "ends": {
        "time": "timestamp",
        "group": "string",
        "topic": "string",
        "partition": "int",
        "offset": "bigint",
        "log_end": "bigint",
        "lag": "bigint",
    },
    "groups": {
        "group": "string",
        "state": "string",
        "state_since": "timestamp",
        "type": "string",
        "protocol_type": "string",
        "protocol": "string",
        "generation": "int",
        "leader": "string",
        "phase": "string",
        "phase_ms": "bigint",
        "waiting_for": "array<string>",
        "members": f"array<{_MEMBER}>",
        "read_at": "timestamp",
    },
    "notes": {
        "group": "string",
        "number": "bigint",
        "time": "timestamp",
        "since": "timestamp",
        "times": "int",
        "kind": "string",
        "cause": "string",
        "generation": "int",
        "state": "string",
        "members": "int",
        "duration_ms": "bigint",
        "member": "string",
        "client": "string",
        "host": "string",
        "principal": "string",
        "certificate": "string",
        "awaited_member": "string",
        "awaited_client": "string",
        "awaited_host": "string",
        "awaited_ms": "bigint",
        "joined": "array<string>",
        "previous_member": "string",
        "previous_client": "string",
        "previous_host": "string",
        "idle_ms": "bigint",
        "rebalance_timeout_ms": "bigint",
        "act": "string",
        "changes": f"array<{_CHANGE}>",
        "moved_partitions": "bigint",
        "kept_partitions": "bigint",
        "detail": "string",
    },
    "topics": {
        "topic": "string",
        "internal": "boolean",
        "partitions": "int",
        "records": "bigint",
        "read_at": "timestamp",
    },
}


def ddl(table: TableName) -> str:
    """Return the schema as DDL. All names are quoted, since some are keywords of SQL."""
    return ", ".join(f"`{name}` {kind}" for name, kind in COLUMNS[table].items())


def row(table: TableName, values: Mapping[str, Any]) -> tuple[Any, ...]:
    """Return the values in the order of the columns. Raises `KeyError` for one that is missing."""
    return tuple(values[name] for name in COLUMNS[table])
