"""Tables `commits`, `ends`, `groups`, `notes` and `topics`: options, tasks, rows; a node made of dictionaries."""

import pickle
import re
from datetime import UTC, datetime
from typing import Any

import pytest
from msgspec.structs import replace
from pyspark.sql.datasource import InputPartition
from pyspark.sql.types import StructType

from muster.blocking import cluster
from protocol.errors import ErrorCode
from protocol.messages.groups import ListedGroup, ListedNote, OffsetChange, Origin, PreviousHolder, SlowestMember
from protocol.messages.offsets import EndSample, ExpiringOffset
from protocol.record_batch import encode_batch
from pyspark_muster.errors import NoSuchGroup, OptionError
from pyspark_muster.source import DefaultSource
from pyspark_muster.tables.columns import COLUMNS, TableName, ddl
from pyspark_muster.tables.options import TABLES, TableOptions
from pyspark_muster.tables.reader import GROUPS_A_TASK, TablePartition, TableReader, plan_tasks
from tests.architecture.tree import ROOT
from tests.cli.fake_node import FakeDriver, FakeNode

NATIVE = "127.0.0.1:9390"
AT_MS = 1_700_000_000_000
OF_GROUPS = [table for table in TABLES if table != "topics"]


def at(ms: int) -> datetime:
    return datetime.fromtimestamp(ms / 1000, UTC)


@pytest.fixture
def node(monkeypatch: pytest.MonkeyPatch) -> FakeNode:
    node = FakeNode()
    monkeypatch.setattr(cluster, "CallerDriver", lambda where, *_: FakeDriver(node, where))
    return node


def rows(table: TableName, **given: str) -> list[dict[str, Any]]:
    """Read a table as Spark does: the reader and its tasks are pickled in between."""
    reader = DefaultSource({"table": table, "bootstrap": NATIVE} | given).reader(StructType())
    tasks = [pickle.loads(pickle.dumps(task)) for task in reader.partitions()]
    found = [row for task in tasks for row in reader.read(task)]
    return [dict(zip(COLUMNS[table], row, strict=True)) for row in found]


# -- options


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        (
            {"table": "commit"},
            "'table' is 'commit': it must be 'commits' or 'ends' or 'groups' or 'notes' or 'topics'; did you mean",
        ),
        ({"table": ""}, "'table' is '': it must be"),
        ({"group": "g"}, "'group' means nothing with the table 'commits': it joins no group; 'groups' chooses some"),
        ({"kafka.group.id": "g"}, "'group' means nothing with the table 'commits'"),
        ({"topics": "t"}, "'topics' means nothing with the table 'commits'"),
        ({"subscribe": "t"}, "'topics' means nothing with the table 'commits'"),
        ({"startingOffsets": "earliest"}, "'startingOffsets' means nothing with the table 'commits'"),
        ({"minPartitions": "3"}, "'minPartitions' means nothing with the table 'commits'"),
        ({"startingTimestamp": "7"}, "'startingTimestamp' means nothing with the table 'commits'"),
        ({"table": "topics", "groups": "g"}, "'groups' means nothing with the table 'topics'"),
        ({"table": "notes", "startingTimestamp": "today"}, "'startingTimestamp' is 'today': it must be milliseconds"),
        ({"groups": " , "}, "'groups' is '': it must be names"),
        ({"grups": "g"}, "'grups' is unknown; did you mean 'groups'"),
        ({"zzz": "g"}, "'zzz' is unknown; a table has table, bootstrap, groups, startingTimestamp, clientId"),
        ({"bootstrap": ""}, "'bootstrap' is needed"),
        ({"bootstrap": "h:nine"}, "'bootstrap' is 'h:nine'"),
        ({"muster.ssl.ca.lokation": "x"}, "'muster.ssl.ca.lokation' is unknown"),
        (
            {"table": "notes", "bootstrap": "kafka://h:9092"},
            "'notes', and 'bootstrap' is 'kafka://h:9092': Kafka's pro",
        ),
    ],
)
def test_a_wrong_option_of_a_table_is_refused_by_name_before_anything_connects(
    wrong: dict[str, str], sentence: str
) -> None:
    with pytest.raises(OptionError, match=re.escape(sentence)):
        DefaultSource({"table": "commits", "bootstrap": NATIVE} | wrong).schema()


def test_options_are_read_in_any_case_and_by_the_names_of_sparks_own_source() -> None:
    given = {"TABLE": "Commits", "kafka.bootstrap.servers": "k1:9092", "GROUPS": "a, b,a", "kafka.client.id": "x"}
    options = TableOptions.parse(given)
    assert options == TableOptions(table="commits", bootstrap="kafka://k1:9092", groups=("a", "b"), client_id="x")
    assert not options.is_native
    assert TableOptions.parse({"table": "notes", "bootstrap": NATIVE, "startingTimestamp": "5"}).since_ms == 5


def test_a_table_is_no_stream_and_takes_no_rows() -> None:
    source = DefaultSource({"table": "notes", "bootstrap": NATIVE})
    with pytest.raises(OptionError, match="'table' is 'notes': a table is a batch"):
        source.streamReader(StructType())
    with pytest.raises(OptionError, match="'table' is unknown"):
        source.writer(StructType(), overwrite=False)


@pytest.mark.parametrize("table", TABLES)
def test_the_schema_is_that_of_the_page(table: TableName) -> None:
    page = (ROOT / "docs" / "spark.md").read_text().partition("\n## Tables\n")[2].partition("\n## ")[0]
    listed = re.findall(rf"^\| `{table}` \|[^|]*\| ([^|]*) \|$", page, re.MULTILINE)
    assert re.findall(r"`(\w+)`", re.sub(r"\([^)]*\)", "", listed[0])) == list(COLUMNS[table])
    assert DefaultSource({"table": table, "bootstrap": NATIVE}).schema() == ddl(table)


# -- tasks


def test_groups_are_split_into_tasks() -> None:
    listed = [ListedGroup(f"g{number}", "consumer", "Stable") for number in range(GROUPS_A_TASK + 1)]
    tasks = plan_tasks(TableOptions(table="notes", bootstrap=NATIVE), listed, AT_MS)
    assert all(isinstance(task, TablePartition) for task in tasks)
    assert [len(task.groups) for task in tasks if isinstance(task, TablePartition)] == [GROUPS_A_TASK, 1]
    options = TableOptions(table="notes", bootstrap=NATIVE)
    assert plan_tasks(options, [], AT_MS) == []
    assert list(TableReader(options).read(InputPartition(None))) == []  # what Spark reads where there is no task


def test_only_the_named_groups_are_read_and_one_that_is_not_there_is_named(node: FakeNode) -> None:
    node.groups["late"] = replace(node.groups["orders"], group_id="late", members=())
    assert [row["group"] for row in rows("groups", groups="late")] == ["late"]
    assert [row["group"] for row in rows("groups")] == ["late", "orders"]
    for table in OF_GROUPS:
        with pytest.raises(NoSuchGroup, match="'ghost'"):
            rows(table, groups="orders,ghost")


def test_the_notes_of_a_group_that_is_gone_can_be_read_by_its_name(node: FakeNode) -> None:
    node.notes["gone"] = (ListedNote(0, 3, "group deleted", "", AT_MS, kind="admin"),)
    assert [row["cause"] for row in rows("notes", groups="gone")] == ["group deleted"]
    assert {row["group"] for row in rows("notes")} == {"orders"}


# -- rows


def test_commits_have_their_logs_and_expiry(node: FakeNode) -> None:
    node.make_topic("flights", 2)
    node.topics["flights"][0] = [encode_batch([(None, b"x")], timestamp_ms=AT_MS)]
    node.committed = {("flights", 0): 0, ("flights", 1): 5, ("dropped", 0): 9}
    node.expiring = [
        ExpiringOffset("dropped", 0, 9, AT_MS, AT_MS + 60_000),
        ExpiringOffset("flights", 0, 0, AT_MS, kept_because="a member subscribes to the topic"),
        ExpiringOffset("flights", 1, 5, AT_MS, 2**62),
    ]
    dropped, first, second = rows("commits")
    assert (dropped["topic"], dropped["exists"], dropped["log_end"], dropped["lag"]) == ("dropped", False, None, None)
    assert (dropped["offset"], dropped["expires_at"]) == (9, at(AT_MS + 60_000))
    assert (first["topic"], first["partition"], first["exists"]) == ("flights", 0, True)
    assert (first["log_start"], first["log_end"], first["lag"]) == (0, 1, 1)
    assert (first["expires_at"], first["kept_because"]) == (None, "a member subscribes to the topic")
    assert (second["log_end"], second["lag"]) == (0, 0)  # the group is beyond the log's end
    assert (second["expires_at"], second["committed_at"]) == (None, None)  # in thousands of years; not told
    assert {row["group"] for row in (dropped, first, second)} == {"orders"}
    assert dropped["read_at"].tzinfo is UTC


def test_at_kafkas_listener_commits_have_no_expiry_and_nobody_is_asked_for_it(node: FakeNode) -> None:
    node.make_topic("flights", 1)
    node.committed = {("flights", 0): 0}
    node.expiring = [ExpiringOffset("flights", 0, 0, AT_MS, AT_MS)]
    (row,) = rows("commits", bootstrap="kafka://127.0.0.1:9092")
    assert (row["offset"], row["log_end"], row["expires_at"], row["kept_because"]) == (0, 0, None, None)


def test_a_group_that_is_deleted_while_it_is_read_is_left_out(node: FakeNode) -> None:
    readers = [TableReader(TableOptions(table=table, bootstrap=NATIVE)) for table in OF_GROUPS]
    tasks = [reader.partitions()[0] for reader in readers]
    node.groups.clear()
    node.notes.clear()
    node.committed = {("flights", 0): 0}
    for reader, task in zip(readers, tasks, strict=True):
        assert list(reader.read(task)) == []


def test_another_error_of_a_group_ends_the_read(node: FakeNode) -> None:
    node.refused = ErrorCode.GROUP_AUTHORIZATION_FAILED
    with pytest.raises(Exception, match="GROUP_AUTHORIZATION_FAILED"):
        rows("groups")


def test_groups_have_their_members_with_what_they_hold(node: FakeNode) -> None:
    (row,) = rows("groups")
    assert (row["group"], row["state"], row["protocol"], row["generation"]) == ("orders", "Stable", "range", 4)
    assert (row["state_since"], row["type"], row["phase"], row["phase_ms"]) == (at(AT_MS), "classic", None, None)
    first, second = row["members"]
    assert (first["member"], first["client"], first["host"]) == ("m-1", "app-1", "10.0.0.1")
    assert first["partitions"] == [{"topic": "flights", "partition": part} for part in (0, 1, 2, 5)]
    assert (second["instance"], second["partitions"]) == ("box-2", [])  # its bytes are no assignment


def test_members_of_a_group_that_the_coordinator_balances_have_epochs(node: FakeNode) -> None:
    group = node.groups["orders"]
    driven = replace(group.members[0], group_protocol="consumer", member_epoch=3, client_host="/10.0.0.1")
    node.groups["orders"] = replace(group, members=(driven, group.members[1]), target_epoch=4)
    first, second = rows("groups")[0]["members"]
    assert (first["host"], first["group_protocol"], first["epoch"]) == ("10.0.0.1", "consumer", 3)
    assert (second["group_protocol"], second["epoch"]) == (None, None)


def test_notes_have_what_happened_in_fields(node: FakeNode) -> None:
    node.notes["orders"] = (
        ListedNote(
            4,
            2,
            "session expired",
            "m-1",
            AT_MS,
            times=3,
            since_ms=AT_MS - 5_000,
            origin=Origin("app-1", "10.0.0.1", 4, "native", "ann", "CN=ann serial=01"),
            idle_ms=9,
            rebalance_timeout_ms=60_000,
            previous=PreviousHolder("m-0", "app-0", "10.0.0.9"),
        ),
        ListedNote(
            5,
            3,
            "rebalance completed",
            "m-2",
            AT_MS + 1,
            kind="completed",
            since_ms=AT_MS + 1,
            took_ms=1_200,
            slowest=SlowestMember("m-2", "app-2", "10.0.0.2", 1_150),
            joined=("m-2",),
        ),
        ListedNote(6, 3, "offsets reset", "", AT_MS + 2, act="reset", changes=(OffsetChange("t", 1, -1, 7),)),
        ListedNote(
            7, 3, "partitions assigned", "m-2", AT_MS + 3, kind="assigned", moved_partitions=0, kept_partitions=4
        ),
    )
    expired, completed, reset, assigned = rows("notes")
    assert (expired["time"], expired["since"], expired["times"]) == (at(AT_MS), at(AT_MS - 5_000), 3)
    assert (expired["member"], expired["client"], expired["host"]) == ("m-1", "app-1", "10.0.0.1")
    assert (expired["principal"], expired["certificate"]) == ("ann", "CN=ann serial=01")
    assert (expired["idle_ms"], expired["previous_client"]) == (9, "app-0")
    assert (expired["duration_ms"], expired["awaited_ms"]) == (None, None)
    assert (completed["duration_ms"], completed["awaited_client"], completed["awaited_ms"]) == (1_200, "app-2", 1_150)
    assert (completed["awaited_host"], completed["joined"]) == ("10.0.0.2", ["m-2"])
    assert (reset["act"], reset["member"]) == ("reset", None)
    assert reset["changes"] == [{"topic": "t", "partition": 1, "previous_offset": None, "offset": 7}]
    assert [row["number"] for row in rows("notes", startingTimestamp=str(AT_MS + 1))] == [5, 6, 7]
    assert (assigned["kind"], assigned["moved_partitions"], assigned["kept_partitions"]) == ("assigned", 0, 4)
    assert (completed["moved_partitions"], completed["kept_partitions"]) == (None, None)


def test_the_samples_of_all_pages_are_rows(node: FakeNode) -> None:
    node.end_samples = [
        EndSample(AT_MS + number, "orders" if number % 2 else "late", "flights", {0: 5, 1: 9}, {0: 7 + number, 1: 8})
        for number in range(5)
    ]
    found = rows("ends")
    assert [row["log_end"] for row in found if row["partition"] == 0] == [7, 8, 9, 10, 11]
    assert found[1] == {
        "time": at(AT_MS),
        "group": "late",
        "topic": "flights",
        "partition": 1,
        "offset": 9,
        "log_end": 8,
        "lag": 0,
    }
    assert {row["time"] for row in rows("ends", groups="orders")} == {at(AT_MS + 1), at(AT_MS + 3)}
    assert {row["time"] for row in rows("ends", startingTimestamp=str(AT_MS + 3))} == {at(AT_MS + 3), at(AT_MS + 4)}


def test_topics_have_the_sizes_of_their_logs(node: FakeNode) -> None:
    node.make_topic("flights", 2)
    node.make_topic("unread", 1)
    node.topics["flights"][1] = [encode_batch([(None, b"x")] * 3, timestamp_ms=AT_MS)]
    found = rows("topics")
    assert [(row["topic"], row["internal"], row["partitions"], row["records"]) for row in found] == [
        ("flights", False, 2, 3),
        ("unread", False, 1, 0),
    ]
    assert rows("topics", bootstrap="kafka://127.0.0.1:9092")[0]["records"] == 3


def test_a_topic_that_is_deleted_while_it_is_read_is_left_out(node: FakeNode) -> None:
    node.make_topic("flights", 1)
    reader = TableReader(TableOptions(table="topics", bootstrap=NATIVE))
    (task,) = reader.partitions()
    del node.topics["flights"]
    assert list(reader.read(task)) == []
