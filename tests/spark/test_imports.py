"""Imports of Spark's Python processes, which each pays for at its start: a task has no member, a member no records."""

import subprocess
import sys
from pathlib import Path

import pytest

_ROOT = Path(__file__).parent.parent.parent
_NOBODY = (
    *("aiohttp", "asyncio", "jinja2", "pandas", "prometheus_client", "rich", "sortedcontainers", "structlog", "typer"),
    *("coordinator", "diagnosis", "partition_log", "purgatory"),
    *("muster.admin", "muster.aio", "muster.balanced", "muster.cli", "muster.streams"),
    *("muster.client.consumer", "muster.client.producer", "muster.core.producing", "muster.core.fetching.fetcher"),
    *("protocol.kafka.schemas", "protocol.messages.transactions"),
    *("pyspark_muster.listener", "pyspark_muster.session", "pyspark_muster.sinks", "pyspark_muster.standalone"),
    *("pyspark_muster.tables.rows", "pyspark_muster.writing"),
)
"""Modules that neither a task nor a member needs."""
_OF_MEMBERS = ("membership.core", "membership.member", "muster.client.group_member", "pyspark_muster.member")
_OF_RECORDS = ("crc32c", "cramjam", "protocol.record_batch", "muster.core.fetching.records", "pyspark_muster.reading")


def imported(sparks_own: str, *ours: str) -> set[str]:
    """Import these modules in a new process; return what they added to those of Spark's own module."""
    program = (
        f"import sys, {sparks_own}; before = set(sys.modules); import {', '.join(ours)}; "
        "print(*(set(sys.modules) - before))"
    )
    done = subprocess.run([sys.executable, "-c", program], cwd=_ROOT, capture_output=True, text=True, check=True)
    return set(done.stdout.split())


def among(found: set[str], unwanted: tuple[str, ...]) -> list[str]:
    return sorted(one for one in found if any(one == name or one.startswith(f"{name}.") for name in unwanted))


def test_the_package_alone_imports_none_of_its_parts() -> None:
    found = imported("pyspark.worker", "pyspark_muster")
    ours = {one for one in found if one.startswith(("muster", "membership", "protocol", "pyspark_muster"))}
    assert ours == {"muster", "muster._installation", "muster._on_demand", "pyspark_muster"}


def test_a_task_imports_no_membership() -> None:
    # The reader, pickled whole, is what a task gets.
    found = imported("pyspark.worker", "pyspark_muster.reader", "pyspark_muster.reading")
    assert {"muster.blocking.range_reader", "protocol.record_batch", "pyspark_muster.decode"} <= found
    assert among(found, (*_NOBODY, *_OF_MEMBERS)) == []


def test_a_querys_member_imports_nothing_that_decodes_records() -> None:
    ours = ("pyspark_muster.source", "pyspark_muster.reader", "pyspark_muster.member")
    found = imported("pyspark.sql.streaming.python_streaming_source_runner", *ours)
    assert {"membership.core", "muster.client.group_member"} <= found
    assert among(found, (*_NOBODY, *_OF_RECORDS)) == []


@pytest.mark.parametrize("unwanted", ["muster.client.group_member", "protocol.record_batch"])
def test_the_modules_that_are_watched_for_exist_and_would_be_seen(unwanted: str) -> None:
    assert unwanted in among(imported("pyspark.worker", "muster.blocking.consumer"), (*_OF_MEMBERS, *_OF_RECORDS))
