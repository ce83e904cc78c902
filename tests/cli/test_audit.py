"""`muster audit`."""

from protocol.messages.groups import AuditedNote, ListedNote, Origin, PreviousHolder
from tests.cli.conftest import Shell
from tests.cli.fake_node import FakeNode

NOTE = ListedNote(
    7, 3, "offsets reset", "", 1_700_000_001_234, "orders-0 from 9 to 2, by app at 10.9.9.9", kind="admin", act="reset",
    origin=Origin("app", "/10.9.9.9", 51_515, "kafka", "alice"),
)  # fmt: skip


def test_acts_are_shown_with_who_did_them_and_an_id_to_undo_them(shell: Shell, node: FakeNode) -> None:
    node.audited = (AuditedNote("orders", NOTE),)

    header, line = shell.lines("audit", "--since", "7d")
    (document,) = shell.json("audit")

    assert header.split() == ["WHEN", "ID", "ACT", "BY", "WHAT"]
    assert "orders:7  reset  alice, app at 10.9.9.9:51515  offsets reset: orders-0 from 9 to 2" in line
    assert (document["id"], document["origin"]["principal"]) == ("orders:7", "alice")


def test_a_takeover_is_shown_with_the_process_that_is_fenced(shell: Shell, node: FakeNode) -> None:
    note = ListedNote(
        8, 3, "static member replaced", "m-2", 1_700_000_001_234, "instance i came back; old at 10.0.0.1 is fenced",
        kind="replaced", act="takeover", times=4, origin=Origin("new", "/10.0.0.2", 51_516, "kafka", "alice"),
        previous=PreviousHolder("m-1", "old", "/10.0.0.1", 120),
    )  # fmt: skip
    node.audited = (AuditedNote("orders", note),)

    line = shell.lines("audit")[1]

    assert "takeover  alice, new at 10.0.0.2:51516  static member replaced: instance i came back; old at" in line
    assert line.endswith("is fenced, 4 times")
    (document,) = shell.json("audit")
    assert document["origin"]["client_host"] == "10.0.0.2"
    assert document["previous"]["client_host"] == "10.0.0.1"


def test_no_act_is_said_and_a_time_that_is_none_is_a_usage_error(shell: Shell, node: FakeNode) -> None:
    assert shell.lines("audit", "--since", "12h") == ["No act on any group in the last 12h."]
    assert "'yesterday' is no time" in shell.run("audit", "--since", "yesterday", code=2).stderr
