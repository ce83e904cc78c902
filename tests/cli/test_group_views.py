"""`muster groups describe` of several groups, and its views."""

import csv
import json
from typing import Any

import msgspec
import pytest

from protocol.errors import ErrorCode
from protocol.messages import Message
from protocol.messages.groups import DescribedGroup, DescribedMember
from tests.cli.conftest import Shell
from tests.cli.fake_node import FakeNode
from tests.cli.test_balanced import rig  # noqa: F401
from tests.cli.test_groups import server_driven
from tests.groups.balanced.group_rig import GroupRig


@pytest.fixture(autouse=True)
def groups(node: FakeNode) -> None:
    """`orders` has two members and a lag of three; `idle` has none, and the same commit."""
    node.make_topic("flights", 3)
    node.committed = {("flights", 1): 4}
    node.groups["idle"] = DescribedGroup("idle", group_state="Empty", protocol_type="consumer")


def rows(shell: Shell, *arguments: str, **options: Any) -> list[list[str]]:
    return [line.split() for line in shell.lines("groups", "describe", *arguments, **options)]


def test_offsets_are_a_line_a_partition_of_every_group(shell: Shell, node: FakeNode) -> None:
    shell.run("produce", "flights", "--key-separator", ":", typed="".join(f"{n}:\n" for n in range(60)))
    end = sum(len(batch) for batch in node.records("flights")[1:2])

    found = rows(shell, "--all-groups", "--offsets")

    assert found[0] == ["GROUP", "TOPIC", "PARTITION", "COMMITTED", "END", "LAG", "MEMBER", "HOST", "CLIENT"]
    assert ["idle", "flights", "1", "4", str(end), str(end - 4), "-", "-", "-"] in found
    assert ["orders", "flights", "1", "4", str(end), str(end - 4), "m-1", "10.0.0.1", "app-1"] in found
    assert ["orders", "flights", "5", "-", "-", "-", "m-1", "10.0.0.1", "app-1"] in found
    assert len(found) == 1 + 3 + 4  # partitions that exist; orders is assigned one that does not
    assert rows(shell, "orders", "--offsets") == [found[0], *(row for row in found if row[0] == "orders")]
    (line,) = [one for one in shell.json("groups", "describe", "idle", "--offsets") if one["partition"] == 1]
    assert (line["group_id"], line["lag"], line["member_id"], line["client_id"]) == ("idle", end - 4, None, None)


def test_what_the_server_tells_of_a_commit_is_in_the_long_form(
    shell: Shell, node: FakeNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = node.answer

    def answer(message: Message) -> Message:
        reply = asked(message)
        if type(message).__name__ != "OffsetFetch":
            return reply
        group = reply.groups[0]  # type: ignore[attr-defined]
        part = group.topics[0].partitions[0]
        part = msgspec.structs.replace(part, committed_leader_epoch=7, commit_timestamp_ms=1_700_000_000_000)
        topic = msgspec.structs.replace(group.topics[0], partitions=(part,))
        return msgspec.structs.replace(reply, groups=(msgspec.structs.replace(group, topics=(topic,)),))

    monkeypatch.setattr(node, "answer", answer)

    found = rows(shell, "idle", "--offsets", "--verbose")

    assert found[0][-6:] == ["LEADER", "EPOCH", "COMMITTED", "AT", "END", "AGE"]
    assert found[2][-4:] == ["7", "2023-11-14", "22:13:20.000", "-"]
    assert found[1][-3:] == ["-", "-", "-"]
    (line,) = [one for one in shell.json("groups", "describe", "idle", "--offsets") if one["partition"] == 1]
    assert (line["leader_epoch"], line["committed_at"]) == (7, "2023-11-14T22:13:20.000Z")


def test_members_are_a_line_each_and_have_epochs_and_times_in_the_long_form(shell: Shell, node: FakeNode) -> None:
    node.groups["driven"] = msgspec.structs.replace(server_driven(), group_id="driven")

    found = rows(shell, "--all-groups", "--members")

    assert found[0] == ["GROUP", "MEMBER", "INSTANCE", "HOST", "CLIENT", "PARTITIONS"]
    assert found[1:] == [
        ["driven", "A", "-", "10.0.0.1", "app-a", "2"],
        ["driven", "B", "box", "10.0.0.2", "app-b", "0"],
        ["orders", "m-1", "-", "10.0.0.1", "app-1", "4"],
        ["orders", "m-2", "box-2", "10.0.0.2", "app-2", "0"],
    ]
    table = csv.DictReader(shell.lines("groups", "describe", "driven", "--members", "--verbose", "--csv"))
    first, second = table
    assert (first["ASSIGNED"], first["EPOCH"], first["TARGET"], first["TO REVOKE"], first["HEARD"]) == (
        "flights 0-1",
        "2",
        "flights 0-1",
        "flights 2-3",
        "3.0 s ago",
    )
    assert (second["EPOCH"], second["ASSIGNED"], second["SESSION LEFT"]) == ("away", "", "")
    documents = shell.json("groups", "describe", "driven", "orders", "--members")
    assert [(one["group_id"], one["member_id"]) for one in documents][:2] == [("driven", "A"), ("driven", "B")]
    assert documents[0]["to_revoke"] == [{"topic": "flights", "partition": number} for number in (2, 3)]


def test_the_state_is_a_line_a_group(shell: Shell, node: FakeNode) -> None:
    waiting = DescribedMember("m-2", None, "app-2", "/10.0.0.2", heard_ago_ms=12_000)
    node.groups["held"] = DescribedGroup(
        "held", group_state="PreparingRebalance", phase="join", phase_ms=12_000, phase_left_ms=18_000,
        waiting_for=("m-2",), members=(waiting,), generation_id=9,
    )  # fmt: skip

    assert rows(shell, "--all-groups", "--state") == [
        ["GROUP", "COORDINATOR", "ASSIGNOR", "STATE", "MEMBERS"],
        ["held", "h:9", "(1)", "-", "PreparingRebalance", "1"],
        ["idle", "h:9", "(1)", "-", "Empty", "0"],
        ["orders", "h:9", "(1)", "range", "Stable", "2"],
    ]
    (held,) = csv.DictReader(shell.lines("groups", "describe", "held", "--state", "--verbose", "--csv"))
    assert (held["GENERATION"], held["TARGET EPOCH"], held["SINCE"]) == ("9", "", "")
    assert held["PHASE"] == "join for 12 s, at most 18 s more"
    assert held["WAITING FOR"].startswith("app-2 at 10.0.0.2 (last heard 12 s ago")
    (told,) = shell.json("groups", "describe", "held", "--state")
    assert told["coordinator"] == {"node_id": 1, "host": "h", "port": 9}
    assert (told["phase"], told["waiting_for"], told["members"]) == ("join", ["m-2"], 1)


def test_pages_come_one_after_the_other_and_as_a_list(shell: Shell, node: FakeNode) -> None:
    pages = shell.run("groups", "describe", "--all-groups").stdout.split("\n\n\n")

    assert [page.split()[:2] for page in pages] == [["Group", "idle"], ["Group", "orders"]]
    assert pages[1].rstrip("\n") == shell.run("groups", "describe", "orders").stdout.rstrip("\n")
    documents = shell.json("groups", "describe", "orders", "idle", "orders")
    assert [one["group_id"] for one in documents] == ["orders", "idle"]
    assert documents[0] == shell.json("groups", "describe", "orders")


def test_values_for_spreadsheets_are_offsets_unless_told(shell: Shell) -> None:
    found = list(csv.reader(shell.lines("groups", "describe", "idle", "--csv")))
    assert found[0][:4] == ["GROUP", "TOPIC", "PARTITION", "COMMITTED"]
    assert found[1] == ["idle", "flights", "0", "", "0", "0", "", "", ""]


def test_no_groups_are_a_sentence_an_empty_table_and_an_empty_list(shell: Shell, node: FakeNode) -> None:
    node.groups.clear()
    assert shell.lines("groups", "describe", "--all-groups") == ["There are no groups."]
    assert rows(shell, "--all-groups", "--state") == [["GROUP", "COORDINATOR", "ASSIGNOR", "STATE", "MEMBERS"]]
    assert shell.json("groups", "describe", "--all-groups") == []
    assert shell.json("groups", "describe", "--all-groups", "--members") == []


@pytest.mark.parametrize("view", [(), ("--members",), ("--state",)])
def test_one_group_that_is_missing_does_not_hide_the_others(
    shell: Shell, node: FakeNode, view: tuple[str, ...]
) -> None:
    result = shell.run("groups", "describe", "nobody", "orders", "none", *view, "--json", code=3)

    assert {one["group_id"] for one in json.loads(result.stdout)} == {"orders"}
    told = json.loads(result.stderr)["error"]
    assert told["message"].count("there is no group") == 2
    assert told["groups"] == ["nobody", "orders", "none"]

    node.refused = ErrorCode.GROUP_AUTHORIZATION_FAILED
    assert "GROUP_AUTHORIZATION_FAILED" in shell.complaint("groups", "describe", "orders", "idle", *view, code=4)


def test_a_group_that_goes_while_all_are_described_is_left_out(
    shell: Shell, node: FakeNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = node.ListGroups

    def leave(message: Any) -> Message:
        reply = asked(message)
        del node.groups["idle"]
        return reply

    monkeypatch.setattr(node, "ListGroups", leave)
    assert [row[0] for row in rows(shell, "--all-groups", "--state")[1:]] == ["orders"]


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        ((), "GROUP..., or --all-groups"),
        (("orders", "--all-groups"), "GROUP..., or --all-groups"),
        (("orders", "--members", "--state"), "one of --offsets, --members and --state"),
        (("orders", "--csv", "--json"), "one of --csv and --json"),
    ],
)
def test_what_excludes_each_other_is_misuse(shell: Shell, arguments: tuple[str, ...], why: str) -> None:
    assert why in shell.complaint("groups", "describe", *arguments, code=2)


def test_client_balanced_groups_have_the_same_columns(shell: Shell, rig: GroupRig) -> None:  # noqa: F811
    assert [row for row in rows(shell, "g", "--members") if row[1] == "app-2"] == [
        ["g", "app-2", "-", "10.0.0.1", "-", "1"]
    ]
    assert rows(shell, "g", "--offsets")[1:] == [
        ["g", "demo", "0", "0", "0", "0", "app-0", "10.0.0.1", "-"],
        ["g", "demo", "1", "-", "0", "0", "-", "-", "-"],
        ["g", "demo", "2", "0", "7", "7", "app-2", "10.0.0.1", "-"],
    ]
    (line,) = [one for one in shell.json("groups", "describe", "g", "--members") if one["member_id"] == "app-0"]
    assert line["partitions"] == [{"topic": "demo", "partition": 0}]
    (state,) = shell.json("groups", "describe", "g", "--state")
    assert (state["group_id"], state["members"]) == ("g", 2)
    assert shell.json("groups", "describe", "--all-groups") == [shell.json("groups", "describe", "g")]
