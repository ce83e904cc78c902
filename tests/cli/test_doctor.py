"""`muster doctor`."""

import shlex

import msgspec
import pytest

from diagnosis.problem import Kind
from muster.cli.failures import ExitCode
from muster.cli.operating import doctor
from protocol.errors import ErrorCode
from protocol.messages.groups import DescribedGroup, DescribedMember, RefusedRequest
from protocol.record_batch import encode_batch
from tests.cli.conftest import Shell
from tests.cli.fake_node import NOW_MS, ORDERS, FakeNode

GONE = DescribedMember(
    "m-2", None, "app-2", "/10.0.0.2", client_port=40_002, heard_ago_ms=12_400, session_timeout_ms=45_000,
    session_left_ms=32_600, is_connected=False, disconnected_ms=11_000,
)  # fmt: skip


def test_no_problem_is_said_and_ends_with_0(shell: Shell, node: FakeNode) -> None:
    assert shell.lines("doctor") == ["No problem in 1 group."]
    assert shell.json("doctor") == {"problems": []}


def test_groups_are_looked_at_for_users_without_rights_on_the_cluster(shell: Shell, node: FakeNode) -> None:
    node.may_describe_cluster = False
    assert shell.lines("doctor") == ["No problem in 1 group."]


def test_a_problem_names_its_culprit_first_and_ends_with_6(shell: Shell, node: FakeNode) -> None:
    node.groups["orders"] = msgspec.structs.replace(ORDERS, members=(ORDERS.members[0], GONE))

    lines = shell.lines("doctor", code=ExitCode.PROBLEM)

    assert lines[0] == "orders: silent_member, app-2 at 10.0.0.2:40002"
    assert "connection closed 11 s ago" in lines[1]
    assert lines[2].endswith(", 11 s")
    assert lines[-1] == "  muster groups evict orders --member m-2"
    (document,) = shell.json("doctor", "orders", code=6)["problems"]
    assert (document["kind"], document["client_id"], document["client_port"]) == ("silent_member", "app-2", 40_002)
    assert document["since_ms"] == NOW_MS - 11_000


def test_the_command_for_offsets_below_the_logs_start_sets_those_alone(shell: Shell, node: FakeNode) -> None:
    node.groups["orders"] = msgspec.structs.replace(ORDERS, group_state="Empty", members=())
    node.make_topic("flights", 3)
    node.topics["flights"] = [[encode_batch([(None, b"record")] * 9, timestamp_ms=NOW_MS)] for _ in range(3)]
    node.begins = {("flights", 0): 5, ("flights", 2): 7}
    node.committed = {("flights", 0): 3, ("flights", 1): 2, ("flights", 2): 0}

    (problem,) = shell.json("doctor", code=6)["problems"]

    assert (problem["kind"], problem["partitions"], problem["records"]) == ("offsets_out_of_range", 2, 9)
    program, *arguments = shlex.split(problem["command"])
    assert program == "muster"
    plan = shell.json(*arguments)["plan"]
    assert [(one["partition"], one["offset"]) for one in plan] == [(0, 5), (2, 7)]


@pytest.mark.parametrize("name", ["it's $(halt)", "a; halt #", "-x", "--bootstrap=elsewhere:9390", "two words"])
def test_a_command_for_a_group_of_any_name_is_run_as_it_stands(shell: Shell, node: FakeNode, name: str) -> None:
    gone = msgspec.structs.replace(GONE, member_id=name)
    node.groups = {name: msgspec.structs.replace(ORDERS, group_id=name, members=(gone,))}

    last = shell.lines("doctor", code=ExitCode.PROBLEM)[-1]

    program, *arguments = shlex.split(last)
    assert (program, arguments[:2]) == ("muster", ["groups", "evict"])
    assert sorted(arguments[2:]) == sorted([name, "--member", name, *(["--"] if name.startswith("-") else [])])
    shell.run(*arguments)
    assert [one.member_id for one in node.left] == [name]


def test_a_refused_member_of_a_group_that_is_not_there_is_a_problem(shell: Shell, node: FakeNode) -> None:
    code = ErrorCode.INVALID_SESSION_TIMEOUT
    node.refusals = (
        RefusedRequest("new", "JoinGroup", code, "app", "/10.0.0.3", 5, detail="too short\x1b", wall_ms=NOW_MS),
    )
    assert shell.lines("doctor", code=6)[:2] == [
        "new: join_refused, app at 10.0.0.3:5",
        "  app at 10.0.0.3:5 may not join (INVALID_SESSION_TIMEOUT): too short\\x1b",
    ]


def test_a_group_that_is_not_there_is_a_complaint(shell: Shell, node: FakeNode) -> None:
    assert "there is no group 'nobody'" in shell.complaint("doctor", "nobody", code=3)


def test_a_group_that_rebalances_at_a_kafka_is_looked_at_twice(
    shell: Shell, node: FakeNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    node.groups = {"slow": DescribedGroup("slow", group_state="PreparingRebalance", protocol_type="consumer")}
    looks: list[float] = []

    def wait(seconds: float) -> int:
        looks.append(seconds)
        return 11_000

    monkeypatch.setattr(doctor, "wait", wait)

    lines = shell.lines("--bootstrap", "kafka://h:9", "doctor", code=6)

    assert looks == [10.0]
    assert lines[0] == f"slow: {Kind.JOIN_HELD_UP.value}"
    assert lines[1].startswith("  PreparingRebalance for 11 s at least; this server does not report which")
