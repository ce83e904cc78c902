"""`muster groups reset`, `delete-offsets`, `evict`, `export`, `import` and `muster undo`."""

import json
from pathlib import Path

import msgspec
import pytest
from msgspec.structs import replace

from diagnosis.offset_plan import existing_partitions
from muster.cli.failures import ExitCode
from muster.cli.operating import carrying_out, draining, offset_targets
from muster.errors import Refused
from protocol.errors import ErrorCode
from protocol.messages import Message
from protocol.messages.groups import ApplyOffsets, DescribedGroup, OffsetChange, ReportedFact
from protocol.messages.node import ErrorReply
from protocol.messages.topics import MetadataPartitionReply, MetadataTopicReply
from protocol.record_batch import encode_batch, stamp
from tests.cli.conftest import Shell
from tests.cli.fake_node import ORDERS, FakeNode

T0, T1, T2 = ("flights", 0), ("flights", 1), ("flights", 2)


@pytest.fixture(autouse=True)
def stopped(node: FakeNode, shell: Shell) -> None:
    """A group without members, which is at 1 and 2 of three partitions; the first has three records."""
    node.groups["orders"] = msgspec.structs.replace(ORDERS, members=(), group_state="Empty")
    node.make_topic("flights", 3)
    batch = encode_batch([(None, b"record")] * 3, timestamp_ms=1)
    node.topics["flights"][0].append(stamp(batch, 0))
    node.committed = {T0: 1, T1: 0}


def test_a_plan_shows_old_new_and_lag_and_changes_nothing(shell: Shell, node: FakeNode) -> None:
    before = dict(node.committed)

    lines = shell.lines("groups", "reset", "orders", "--to-latest", "--all-topics")

    assert [line.split() for line in lines[:3]] == [
        ["TOPIC", "PARTITION", "OLD", "NEW", "LAG", "BEFORE", "LAG", "AFTER"],
        ["flights", "0", "1", "3", "2", "0"],
        ["flights", "1", "0", "0", "0", "0"],
    ]
    assert lines[-1] == "Nothing was changed: add --execute to do it."
    assert node.committed == before


def test_a_reset_is_undone_by_the_id_it_prints(shell: Shell, node: FakeNode) -> None:
    before = dict(node.committed)
    done = shell.lines("groups", "reset", "orders", "--to-latest", "--topic", "flights", "--execute")
    assert node.committed == {T0: 3, T1: 0, T2: 0}

    undo = done[-1].removeprefix("Done. To undo it: muster ").split()
    shell.run(*undo)

    assert node.committed == before
    assert "has no act 0 that changed offsets" in shell.complaint("undo", "orders:0", code=3)
    assert "is no id" in shell.complaint("undo", "orders:²", code=2)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (["--to-earliest"], 0),
        (["--to-latest"], 3),
        (["--to-current"], 1),
        (["--to-offset", "2"], 2),
        (["--to-offset", "99"], 3),
        (["--shift-by", "1"], 2),
        (["--shift-by", "-5"], 0),
    ],
)
def test_each_target_says_where(shell: Shell, options: list[str], expected: int) -> None:
    (line,) = shell.json("groups", "reset", "orders", *options, "--topic", "flights:0")["plan"]
    assert (line["previous_offset"], line["offset"]) == (1, expected)


def test_a_stale_plan_is_refused_whole_and_ends_with_4(shell: Shell, node: FakeNode, tmp_path: Path) -> None:
    plan = tmp_path / "plan.json"
    document = shell.json("groups", "reset", "orders", "--to-earliest", "--topic", "flights:0")
    plan.write_text(json.dumps(document))
    node.committed[T0] = 2

    said = shell.complaint("groups", "reset", "orders", "--plan", str(plan), "--execute", code=ExitCode.REFUSED)

    assert "the plan is stale, nothing was changed: flights-0 is at 2 by now" in said
    assert node.committed[T0] == 2
    node.committed[T0] = 1
    shell.run("groups", "reset", "orders", "--plan", str(plan), "--execute")
    assert node.committed[T0] == 0
    assert "not for 'others'" in shell.complaint("groups", "reset", "others", "--plan", str(plan))


@pytest.mark.parametrize("is_stale", [True, False])
def test_a_plan_that_fails_after_its_first_step_names_what_was_changed(
    shell: Shell, node: FakeNode, monkeypatch: pytest.MonkeyPatch, is_stale: bool
) -> None:
    monkeypatch.setattr(carrying_out, "CHANGES_A_REQUEST", 1)
    apply, asked = node.ApplyOffsets, []

    def apply_and_interfere(message: ApplyOffsets) -> Message:
        asked.append(message)
        if len(asked) == 3 and is_stale:
            node.committed[T2] = 2
        elif len(asked) == 3:
            return ErrorReply(ErrorCode.NOT_COORDINATOR, "the shard is elsewhere")
        return apply(message)

    monkeypatch.setattr(node, "ApplyOffsets", apply_and_interfere)
    node.committed = {T0: 1}
    reset = ["groups", "reset", "orders", "--to-latest", "--topic", "flights", "--execute"]

    said = shell.complaint(*reset, code=ExitCode.REFUSED)

    why = "the rest of the plan is stale: flights-2 is at 2 by now; 1 partition in all"
    assert said.startswith(f"muster: {why if is_stale else 'ApplyOffsets was refused: the shard'}")
    assert said.endswith(
        "; 2 of 3 partitions were changed before: undo with muster undo orders:3, muster undo orders:2\n"
    )
    assert "nothing was changed" not in said
    shell.run("undo", "orders:3")
    shell.run("undo", "orders:2")
    assert {T0: node.committed[T0], T1: node.committed.get(T1)} == {T0: 1, T1: None}


@pytest.mark.parametrize("command", [["reset", "--to-earliest"], ["delete-offsets"]])
def test_a_group_that_is_not_there_has_nothing_to_change(shell: Shell, node: FakeNode, command: list[str]) -> None:
    node.committed = {}
    said = shell.complaint("groups", *command, "nobody", "--all-topics", code=ExitCode.NOT_THERE)
    assert "there is no group 'nobody'" in said
    assert shell.lines("groups", *command, "orders", "--all-topics") == ["There is nothing to change."]


def test_a_live_group_is_refused_by_its_members_names(shell: Shell, node: FakeNode) -> None:
    node.groups["orders"] = ORDERS
    for command in (["reset", "orders", "--to-earliest"], ["delete-offsets", "orders"]):
        said = shell.complaint("groups", *command, "--topic", "flights:0", "--execute", code=ExitCode.REFUSED)
        assert "group 'orders' has members: stop them first: app-1, app-2" in said


def test_a_plan_is_written_and_read_in_kafkas_form(shell: Shell, node: FakeNode, tmp_path: Path) -> None:
    file = tmp_path / "offsets.csv"
    file.write_text(shell.run("groups", "reset", "orders", "--to-current", "--all-topics", "--export").stdout)
    assert file.read_text() == "flights,0,1\nflights,1,0\n"

    file.write_text("flights,0,2\n")
    shell.run("groups", "reset", "orders", "--from-file", str(file), "--execute")
    assert node.committed == {T0: 2, T1: 0}


@pytest.mark.parametrize(
    "line",
    [
        "flights,zero,2",
        "flights,0,²",
        "flights,²,2",
        "flights,0,-1",
        f"flights,0,{2**63}",
        f"flights,{2**31},2",
        f"flights,0,{'9' * 5_000}",
        "flights,0",
    ],
)
def test_a_line_with_a_number_that_is_none_is_named(shell: Shell, tmp_path: Path, line: str) -> None:
    file = tmp_path / "offsets.csv"
    file.write_text(f"flights,0,2\n{line}\n")
    said = shell.complaint("groups", "reset", "orders", "--from-file", str(file))
    assert "line 2 is not TOPIC,PARTITION,OFFSET" in said


@pytest.mark.parametrize(
    ("lines", "topics", "missing"),
    [
        ("typo,0,1\nflights,0,2\ntypo,1,1\n", (), "2 partitions, as typo-0"),
        ("flights,0,2\nflights,7,1\n", (), "1 partition, as flights-7"),
        ("flights,0,2\nflights,7,1\n", ("--topic", "flights"), "1 partition, as flights-7"),
        ("typo,0,1\nflights,0,2\n", ("--topic", "flights"), ""),
        ("flights,0,2\nflights,7,1\n", ("--topic", "flights:0"), ""),
    ],
)
def test_a_line_of_a_partition_that_is_not_there_is_refused_unless_others_are_wanted(
    shell: Shell, node: FakeNode, tmp_path: Path, lines: str, topics: tuple[str, ...], missing: str
) -> None:
    file = tmp_path / "offsets.csv"
    file.write_text(lines)
    reset = ["groups", "reset", "orders", "--from-file", str(file), *topics, "--execute"]
    if missing:
        assert f"not here: {missing}" in shell.complaint(*reset, code=ExitCode.NOT_THERE)
        assert node.committed[T0] == 1
    else:
        shell.run(*reset)
        assert node.committed[T0] == 2


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--to-offset", "99"], "99 is beyond the end of flights-0: its new offset is 3"),
        (["--shift-by", "-5"], "-4 is before the start of flights-0: its new offset is 0"),
        (["--from-file", "FILE"], "7 is beyond the end of flights-0: its new offset is 3"),
        (["--to-offset", "2"], ""),
        (["--to-latest"], ""),
        (["--to-current"], ""),
    ],
)
def test_an_offset_outside_the_log_is_warned_of(shell: Shell, tmp_path: Path, options: list[str], said: str) -> None:
    file = tmp_path / "offsets.csv"
    file.write_text("flights,0,7\n")
    found = shell.run(
        "groups", "reset", "orders", *[str(file) if one == "FILE" else one for one in options], "--topic", "flights:0"
    )
    assert found.stderr == (f"muster: warning: {said}\n" if said else "")


def test_a_group_goes_where_another_is(shell: Shell, node: FakeNode) -> None:
    node.groups["other"] = DescribedGroup("other", group_state="Empty")
    assert len(shell.json("groups", "reset", "orders", "--of-group", "other")["plan"]) == 2
    node.committed.clear()
    for options in ((), ("--all-topics",), ("--topic", "flights")):
        command = ["groups", "reset", "orders", *options, "--of-group"]
        assert shell.lines(*command, "other") == ["There is nothing to change."]
        assert "there is no group 'typo'" in shell.complaint(*command, "typo", code=ExitCode.NOT_THERE)


def test_offsets_are_deleted_and_come_back(shell: Shell, node: FakeNode) -> None:
    done = shell.json("groups", "delete-offsets", "orders", "--topic", "flights", "--execute")
    assert node.committed == {}
    shell.run("undo", done["undo_ids"][0])
    assert node.committed == {T0: 1, T1: 0}


def test_an_undo_of_a_first_act_leaves_out_what_is_gone_and_says_so(shell: Shell, node: FakeNode) -> None:
    """Later notes do not hide number 0."""
    changes = (OffsetChange("flights", 0, 1), OffsetChange("flights", 1, 99), OffsetChange("gone", 0, 3))
    act = replace(node.notes["orders"][0], number=0, act="delete group", changes=changes)
    node.notes["orders"] = (act, *(replace(one, number=one.number + 1) for one in node.notes["orders"]))
    node.committed.clear()

    plan = shell.json("undo", "orders:0", "--plan-only")
    assert (plan["left_out"], [one["offset"] for one in plan["plan"]]) == (2, [1])
    lines = shell.lines("undo", "orders:0")

    assert node.committed == {T0: 1}
    assert "Left out: 2 partitions no longer there, or shorter than the old offset." in lines
    node.committed.clear()
    node.topics.pop("flights")
    assert "is gone, or ends below its old offset" in shell.complaint("undo", "orders:0", code=3)


def test_an_export_is_imported_into_another_group_and_a_damaged_one_refused(
    shell: Shell, node: FakeNode, tmp_path: Path
) -> None:
    file = tmp_path / "orders.jsonl"
    file.write_text(shell.run("groups", "export", "orders").stdout)
    node.committed = {T0: 0}

    assert shell.lines("groups", "import", str(file), "--group", "copy")[-1].startswith("Nothing was changed")
    assert node.committed == {T0: 0}
    shell.run("groups", "import", str(file), "--group", "copy", "--execute")
    assert node.committed == {T0: 1, T1: 0}

    file.write_text(file.read_text().replace('"offset": 1', '"offset": 2'))
    assert "its checksum does not hold" in shell.complaint("groups", "import", str(file))


@pytest.mark.parametrize(
    ("options", "evicted"),
    [(["--client", "app-1"], ["m-1"]), (["--instance", "box-2"], ["m-2"]), (["--member", "m-1"], ["m-1"])],
)
def test_members_are_evicted_by_what_they_are_known_by(
    shell: Shell, node: FakeNode, options: list[str], evicted: list[str]
) -> None:
    node.groups["orders"] = ORDERS
    assert shell.lines("groups", "evict", "orders", *options)[0].endswith(f"{evicted[0]}.")
    assert [one.member_id for one in node.left] == evicted
    assert node.left[0].reason == "evicted by an operator"
    assert "has no such member" in shell.complaint("groups", "evict", "orders", "--member", "nobody", code=3)


@pytest.mark.parametrize("command", ["evict", "drain"])
def test_members_that_are_not_named_are_misuse(shell: Shell, node: FakeNode, command: str) -> None:
    node.groups["orders"] = ORDERS
    assert "say which members: --member ID" in shell.complaint("groups", command, "orders", code=2)
    assert node.left == ()


def test_a_query_is_drained_and_waited_for(shell: Shell, node: FakeNode, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(draining, "_ASK_AGAIN_S", 0)
    reporting = replace(ORDERS.members[0], reported=(ReportedFact("query", "sums"), ReportedFact("batch", "7")))
    node.groups["orders"] = group = replace(ORDERS, members=(reporting, ORDERS.members[1]))

    page = shell.run("groups", "describe", "orders", "--verbose").stdout
    assert "SAYS OF ITSELF" in page
    assert "query sums, batch 7" in page
    (first, second) = json.loads(shell.run("groups", "describe", "orders", "--json").stdout)["members"]
    assert (first["reported"], second["reported"]) == ({"query": "sums", "batch": "7"}, {})

    assert shell.lines("groups", "drain", "orders", "--client", "app-1") == [
        "Draining app-1 at 10.0.0.1, m-1.",
        "app-1 at 10.0.0.1, m-1, has committed what it read and left.",
    ]
    assert [one.member_id for one in node.groups["orders"].members] == ["m-2"]
    assert "has no such member" in shell.complaint("groups", "drain", "orders", "--member", "m-1", code=3)
    said = shell.complaint("groups", "drain", "orders", "--member", "m-2", code=4)
    assert "m-2 cannot drain, since it does not report itself as Spark queries do" in said

    node.groups["orders"], node.stays = group, True
    late = shell.run("groups", "drain", "orders", "--member", "m-1", "--timeout", "0.01", code=4)
    assert "m-1 has not left in 0.01 s" in late.stderr
    told = shell.run("groups", "drain", "orders", "--member", "m-1", "--timeout", "0", "--json").stdout
    assert json.loads(told) == [{"member_id": "m-1", "error": None, "has_left": False}]


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["reset", "orders"], "say one of"),
        (["reset", "orders", "--to-earliest", "--to-latest"], "say one of"),
        (["reset", "orders", "--to-earliest"], "say which, as --topic orders"),
        (["reset", "orders", "--to-earliest", "--topic", "flights:x"], "names no partitions"),
        (["reset", "orders", "--to-datetime", "soon", "--all-topics"], "'soon' is no time"),
        (["reset", "orders", "--by-duration", "2h", "--all-topics"], "'2h' is no duration"),
    ],
)
def test_what_makes_no_sense_is_a_usage_error(shell: Shell, arguments: list[str], sentence: str) -> None:
    assert sentence in shell.run("groups", *arguments, code=2).stderr


def test_a_topic_or_partition_that_is_not_there_is_a_complaint(shell: Shell) -> None:
    for topic, what in (("nowhere", "topic 'nowhere'"), ("flights:7", "partition flights-7")):
        assert what in shell.complaint("groups", "reset", "orders", "--to-earliest", "--topic", topic, code=3)


@pytest.mark.parametrize(("text", "ms"), [("P1D", 86_400_000), ("PT2H30M", 9_000_000), ("PT0.5S", 500)])
def test_durations_are_iso_8601(text: str, ms: int) -> None:
    assert offset_targets.duration_of(text) == ms


def test_times_are_utc_unless_they_say_otherwise() -> None:
    assert offset_targets.time_of("2026-03-01T14:00:00") == offset_targets.time_of("2026-03-01T15:00:00+01:00")


def test_a_broker_is_asked_to_compare_first(shell: Shell, node: FakeNode) -> None:
    node.groups["orders"] = ORDERS
    said = shell.complaint(
        "--bootstrap", "kafka://h:9", "groups", "reset", "orders", "--to-earliest", "--topic", "flights:0", "--execute",
        code=ExitCode.REFUSED,
    )  # fmt: skip
    assert "group 'orders' has members: stop them first: app-1 at 10.0.0.1" in said


def test_a_topic_that_may_exist_is_an_error_and_none_that_is_gone() -> None:
    there = MetadataTopicReply("there", partitions=(MetadataPartitionReply(0, 1), MetadataPartitionReply(1, 1)))
    gone = MetadataTopicReply("gone", error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    hidden = MetadataTopicReply("hidden", error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED)

    def unknown(one: MetadataTopicReply) -> Exception:
        return Refused(one.error_code, one.name or "")

    assert existing_partitions((there, gone), unknown) == {"there": 2}
    with pytest.raises(Refused, match="hidden"):
        existing_partitions((there, hidden), unknown)
