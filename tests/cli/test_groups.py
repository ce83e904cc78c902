import msgspec
import pytest

from protocol.consumer_protocol import Assignment, TopicPartitions, encode_assignment
from protocol.errors import ErrorCode
from protocol.messages.groups import DescribedGroup, DescribedMember, ListedNote, Origin, RefusedRequest
from protocol.messages.ownership import OwnedPartition
from protocol.streams_protocol import encode_streams_assignment
from tests.cli.conftest import Shell
from tests.cli.fake_node import NOW_MS, ORDERS, FakeNode


def test_groups_are_listed_by_id(shell: Shell, node: FakeNode) -> None:
    node.groups["a"] = DescribedGroup("a", group_state="Empty")

    assert shell.lines("groups", "list") == [
        "GROUP   STATE   PROTOCOL TYPE",
        "a       Empty   -",
        "orders  Stable  consumer",
    ]
    assert shell.json("groups", "list")[1] == {
        "group_id": "orders",
        "state": "Stable",
        "protocol_type": "consumer",
        "type": "classic",
    }


def test_the_long_list_has_members_lag_and_what_is_wrong(shell: Shell, node: FakeNode) -> None:
    node.make_topic("flights", 6)
    node.groups["a"] = DescribedGroup("a", group_state="Empty")
    gone = msgspec.structs.replace(
        node.groups["orders"].members[1], is_connected=False, disconnected_ms=60_000, session_timeout_ms=45_000
    )
    node.groups["orders"] = msgspec.structs.replace(
        node.groups["orders"], members=(node.groups["orders"].members[0], gone)
    )

    assert [line.split() for line in shell.lines("groups", "list", "--verbose")] == [
        ["GROUP", "STATE", "TYPE", "MEMBERS", "LAG", "SINCE", "PROBLEM"],
        ["a", "Empty", "classic", "0", "0", "-", "-"],
        ["orders", "Stable", "classic", "2", "0", "100", "s", "ago", "silent_member"],
    ]
    assert shell.lines("groups", "list", "--verbose", "--csv")[1:] == [
        "a,Empty,classic,0,0,,",
        "orders,Stable,classic,2,0,100 s ago,silent_member",
    ]
    assert shell.json("groups", "list", "--verbose")[1]["problems"] == ["silent_member"]
    assert shell.lines("groups", "list", "--csv")[0] == "GROUP,STATE,PROTOCOL TYPE"


def test_no_groups_are_an_empty_document_and_a_sentence(shell: Shell, node: FakeNode) -> None:
    node.groups.clear()

    assert shell.json("groups", "list") == []
    assert shell.lines("groups", "list") == [
        "There are no groups. One appears with its first member: `muster consume TOPIC --group GROUP`."
    ]


def test_a_group_is_described_for_people(shell: Shell, node: FakeNode, monkeypatch: pytest.MonkeyPatch) -> None:
    node.make_topic("flights", 6)
    node.committed = {("flights", 0): 0, ("gone", 0): 3}

    lines = shell.lines("groups", "describe", "orders")

    assert lines[0].split() == ["Group", "orders"]
    assert lines[1].split()[:2] == ["State", "Stable"]
    assert [line.split() for line in lines[2:7]] == [
        ["Generation", "4"],
        ["Protocol", "consumer", "/", "range"],
        ["Leader", "m-1"],
        ["Total", "lag", "0", "(not", "counted:", "1", "without", "an", "end)"],
        ["Shard", "34", "(log", "__consumer_offsets-34)"],
    ]
    assert [line.split() for line in lines[8:11]] == [
        ["MEMBER", "INSTANCE", "CLIENT", "HOST", "PARTITIONS"],
        ["m-1", "-", "app-1", "10.0.0.1", "flights", "0-2", "5"],
        ["m-2", "box-2", "app-2", "10.0.0.2", "-"],
    ]
    assert [line.split() for line in lines[12:]] == [
        ["TOPIC", "PARTITION", "COMMITTED", "END", "LAG", "MEMBER"],
        ["flights", "0", "0", "0", "0", "m-1"],
        ["flights", "1", "-", "0", "0", "m-1"],
        ["flights", "2", "-", "0", "0", "m-1"],
        ["flights", "3", "-", "0", "0", "-"],
        ["flights", "4", "-", "0", "0", "-"],
        ["flights", "5", "-", "0", "0", "m-1"],
        ["gone", "0", "3", "-", "-", "-"],
    ]


def test_a_group_without_shares_and_commits_has_no_lag_that_is_known(shell: Shell, node: FakeNode) -> None:
    """A group is in this state for the seconds of its first rebalance."""
    node.groups["new"] = DescribedGroup("new", group_state="PreparingRebalance")

    assert ["Total", "lag", "-"] in [line.split() for line in shell.lines("groups", "describe", "new")]


def test_a_group_is_described_for_scripts(shell: Shell, node: FakeNode) -> None:
    node.make_topic("flights", 1)
    shell.run("produce", "flights", typed="a\nb\nc\n")
    node.committed = {("flights", 0): 1}

    shown = shell.json("groups", "describe", "orders")

    assert shown["partitions"][0] == {
        "topic": "flights",
        "partition": 0,
        "committed_offset": 1,
        "end_offset": 3,
        "lag": 2,
        "member_id": "m-1",
        "end_age_ms": None,
    }
    told = {name: value for name, value in shown["members"][1].items() if value not in (None, [], {}, False)}
    assert {**told, "partitions": shown["members"][1]["partitions"]} == {
        "member_id": "m-2",
        "group_instance_id": "box-2",
        "client_id": "app-2",
        "client_host": "10.0.0.2",
        "partitions": [],
    }
    assert (shown["shard"], shown["log"]) == (34, "__consumer_offsets-34")
    assert (shown["state"], shown["state_since"], shown["total_lag"]) == ("Stable", "2023-11-14T22:13:20.000Z", 2)


def test_beside_brokers_ends_say_how_old_they_are(shell: Shell, node: FakeNode) -> None:
    node.make_topic("flights", 3)
    node.committed = {("flights", number): 0 for number in range(3)}
    node.beside = {("flights", 0): 12_400, ("flights", 1): 20}

    lines = [line.split() for line in shell.lines("groups", "describe", "orders")]
    shown = shell.json("groups", "describe", "orders")

    assert ["Total", "lag", "0", "(not", "counted:", "2", "without", "an", "end)"] in lines
    assert ["Ends", "as", "of", "12", "s", "ago"] in lines
    assert [(one["end_offset"], one["lag"], one["end_age_ms"]) for one in shown["partitions"]] == [
        (0, 0, 12_400),
        (0, 0, 20),
        (None, None, None),
        (None, None, None),
    ]


def test_a_group_of_which_no_end_was_ever_heard_has_no_lag(shell: Shell, node: FakeNode) -> None:
    node.make_topic("flights", 1)
    node.committed = {("flights", 0): 0}
    node.beside = {("other", 0): 1}

    lines = [line.split() for line in shell.lines("groups", "describe", "orders")]

    assert ["Total", "lag", "-", "(not", "counted:", "4", "without", "an", "end)"] in lines


def test_ends_that_are_new_say_nothing_of_their_age(shell: Shell, node: FakeNode) -> None:
    node.make_topic("flights", 6)
    node.beside = {("flights", number): 2_000 for number in range(6)}

    assert not [line for line in shell.lines("groups", "describe", "orders") if line.startswith("Ends")]


def test_all_that_a_partition_without_a_commit_still_has_counts_into_the_lag(shell: Shell, node: FakeNode) -> None:
    node.groups["late"] = DescribedGroup("late", group_state="Empty")
    node.make_topic("flights", 2)
    shell.run("produce", "flights", "--key-separator", ":", typed="".join(f"{n}:\n" for n in range(100)))
    ends = [len(log) for log in node.records("flights")]
    node.committed = {("flights", 0): ends[0] - 1}
    node.begins = {("flights", 1): 2}

    shown = shell.json("groups", "describe", "late")

    assert [(line["committed_offset"], line["lag"]) for line in shown["partitions"]] == [
        (ends[0] - 1, 1),
        (None, ends[1] - 2),
    ]
    assert shown["total_lag"] == ends[1] - 1


def test_groups_without_members_are_deleted(shell: Shell, node: FakeNode) -> None:
    node.groups |= {name: DescribedGroup(name, group_state="Empty") for name in ("a", "b", "c")}

    assert shell.lines("groups", "delete", "a", "b") == ["Deleted group a.", "Deleted group b."]
    assert shell.json("groups", "delete", "c") == [{"group_id": "c", "deleted": True, "error": None}]
    assert list(node.groups) == ["orders"]


def test_what_cannot_be_deleted_is_one_sentence_and_exit_1_and_the_others_are_gone(
    shell: Shell, node: FakeNode
) -> None:
    node.groups["a"] = DescribedGroup("a", group_state="Empty")

    result = shell.run("groups", "delete", "orders", "a", "nobody", code=4)

    assert result.stdout == "Deleted group a.\n"
    assert result.stderr == (
        "muster: group 'orders' has members: stop them first, see `muster groups describe`; "
        "there is no group 'nobody': see `muster groups list`\n"
    )
    assert shell.json("groups", "delete", "orders", code=4) == [
        {"group_id": "orders", "deleted": False, "error": "NON_EMPTY_GROUP"}
    ]


@pytest.mark.parametrize("command", [("groups", "describe"), ("groups", "owners"), ("explain",)])
def test_a_group_that_is_not_there_is_one_sentence_and_exit_3(shell: Shell, command: tuple[str, ...]) -> None:
    assert (
        shell.complaint(*command, "nobody", code=3) == "muster: there is no group 'nobody': see `muster groups list`\n"
    )


def test_a_node_that_does_not_tell_the_shard_is_not_asked_again(shell: Shell, node: FakeNode) -> None:
    node.groups["a"] = DescribedGroup("a", group_state="Empty")

    assert not [line for line in shell.lines("groups", "describe", "a") if line.startswith("Shard")]
    assert shell.json("groups", "describe", "a")["log"] is None


@pytest.mark.parametrize(
    "command", [("groups", "describe"), ("groups", "delete"), ("explain",), ("offsets", "expiring")], ids=" ".join
)
@pytest.mark.parametrize(
    ("code", "sentence"),
    [
        (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, "the shard of group 'orders' is being loaded: GET /readyz"),
        (
            ErrorCode.NOT_COORDINATOR,
            "the shard of group 'orders' is not served (NOT_COORDINATOR): it is not loaded yet",
        ),
    ],
)
def test_a_shard_that_is_not_served_points_to_readyz(
    shell: Shell, node: FakeNode, command: tuple[str, ...], code: ErrorCode, sentence: str
) -> None:
    node.refused = code

    complaint = shell.complaint(*command, "orders")

    assert complaint.startswith(f"muster: {sentence}")
    assert "/readyz" in complaint


def test_ids_cannot_steer_the_terminal(shell: Shell, node: FakeNode) -> None:
    evil = "\x1b[31m[bold]x\n"
    node.groups[evil] = DescribedGroup(evil, group_state="Empty")

    assert r"\x1b[31m[bold]x\n" in shell.lines("groups", "list")[1]


def test_nothing_is_cut_off_in_a_pipe(shell: Shell, node: FakeNode) -> None:
    node.groups["g" * 300] = DescribedGroup("g" * 300, group_state="Empty")

    assert any(line.startswith("g" * 300 + " ") for line in shell.lines("groups", "list"))


def test_explain_tells_the_story_of_a_group(shell: Shell) -> None:
    lines = shell.lines("explain", "orders")

    assert len(lines) == 3
    assert lines[0].split() == ["WHEN", "GENERATION", "MEMBERS", "WHAT", "HAPPENED"]
    assert lines[1].endswith("  0        1  Rebalance: member joined, app-1 at 10.0.0.1. Began with m-1.")
    assert lines[2].endswith("  1        1  Done: rebalance completed, 1 members joined. Leader: m-1.")


def test_explain_says_how_often_something_was_repeated(shell: Shell, node: FakeNode) -> None:
    first = node.notes["orders"][0]
    node.notes["orders"] = (msgspec.structs.replace(first, times=37, since_ms=1_699_999_000_000),)

    assert " Began with m-1. 37 times since 20" in shell.lines("explain", "orders")[1]
    said = "Rebalance: member joined, app-1 at 10.0.0.1. Began with m-1. 37 times since 2023-11-14T21:56:40.000Z."
    assert shell.json("explain", "orders")["notes"][0]["sentence"] == said


def test_explain_shortens_member_ids_for_people_and_not_for_scripts(shell: Shell, node: FakeNode) -> None:
    member_id = "muster-cli-be0b5d42-0c1f-4a55-9c0e-2b1d4a6f8e11"
    node.notes["orders"] = (msgspec.structs.replace(node.notes["orders"][0], initiator=member_id),)

    assert shell.lines("explain", "orders")[1].endswith(" Began with muster-cli-be0b5d42.")
    assert shell.json("explain", "orders")["notes"][0]["initiator"] == member_id


def test_explain_gives_scripts_the_notes_and_the_sentences(shell: Shell) -> None:
    shown = shell.json("explain", "orders", "--limit", "1")

    assert shown["group_id"] == "orders"
    assert [note["number"] for note in shown["notes"]] == [1]
    assert shown["notes"][0]["when"] == "2023-11-14T22:13:24.000Z"
    assert shown["notes"][0]["sentence"] == "Done: rebalance completed, 1 members joined. Leader: m-1."


def test_explain_says_a_sentence_a_rebalance(shell: Shell, node: FakeNode) -> None:
    origin = Origin("app-3", "/10.0.0.3", 40_003)
    node.notes["orders"] += (
        ListedNote(2, 1, "session expired", "m-3", 1_700_000_050_000, "app-3 at 10.0.0.3 was silent", 2, origin=origin),
    )

    rows = [line.split(maxsplit=2)[2] for line in shell.lines("explain", "orders", "--short")[1:]]

    assert rows == [
        "member joined by m-1, app-1 at 10.0.0.1; 1 member stood still for 2.8 s",
        "session expired, app-3 at 10.0.0.3:40003 was silent; it is not over",
    ]
    document = shell.json("explain", "orders")
    assert document["notes"][2]["origin"]["client_host"] == "10.0.0.3"
    told = document["rebalances"]
    assert [(one["sentence"], one["is_over"], one["notes"]) for one in told] == [
        (rows[0], True, [0, 1]),
        (rows[1], False, [2]),
    ]


def test_explain_says_how_many_partitions_moved(shell: Shell, node: FakeNode) -> None:
    moved = ListedNote(2, 1, "partitions assigned", "m-1", 1_700_000_004_010, "1 of 3 moved", kind="assigned")
    moved = msgspec.structs.replace(moved, moved_partitions=1, kept_partitions=2)
    of_another = msgspec.structs.replace(moved, number=3, generation_id=2, moved_partitions=3)
    node.notes["orders"] += (moved, of_another)

    assert shell.lines("explain", "orders")[3].endswith(" Shared out: partitions assigned, 1 of 3 moved. By m-1.")
    (row,) = shell.lines("explain", "orders", "--short")[1:]
    assert row.endswith("1 member stood still for 2.8 s; 1 of 3 partitions moved")
    assert [one["notes"] for one in shell.json("explain", "orders")["rebalances"]] == [[0, 1, 2]]


def test_explain_says_what_a_new_target_moves(shell: Shell, node: FakeNode) -> None:
    detail = "epoch 3 by uniform: another target for 2 of 2 members, 2 of 4 partitions move"
    joined = ListedNote(
        2, 3, "member joined", "m-2", 1_700_000_005_000, "group epoch 3: app-2 at h reads t", 2, kind="epoch"
    )
    target = ListedNote(3, 3, "target assignment computed", "m-2", 1_700_000_005_000, detail, 2, kind="target")
    target = msgspec.structs.replace(target, moved_partitions=2, kept_partitions=2)
    node.notes["orders"] = (joined, target)

    assert shell.lines("explain", "orders")[2].endswith(f" Target: target assignment computed, {detail}. By m-2.")
    (row,) = shell.lines("explain", "orders", "--short")[1:]
    assert row.endswith(f"member joined by m-2, group epoch 3: app-2 at h reads t; {detail}")
    told = shell.json("explain", "orders")
    assert [(one["is_over"], one["notes"]) for one in told["rebalances"]] == [(True, [2, 3])]
    assert (told["notes"][1]["moved_partitions"], told["notes"][1]["kept_partitions"]) == (2, 2)


def test_a_kind_of_note_that_is_news_to_the_command_is_told_all_the_same(shell: Shell, node: FakeNode) -> None:
    note: ListedNote = msgspec.structs.replace(node.notes["orders"][0], kind="repainted", detail="")
    node.notes["orders"] = (note, note)

    assert shell.lines("explain", "orders")[1].endswith("Repainted: member joined. By m-1.")


def test_a_group_that_never_rebalanced_has_nothing_to_explain(shell: Shell, node: FakeNode) -> None:
    node.notes = {}

    assert shell.lines("explain", "orders") == ["Group 'orders' has not rebalanced yet."]
    assert shell.json("explain", "orders")["notes"] == []


def test_what_members_with_streams_are_assigned_is_shown(shell: Shell, node: FakeNode) -> None:
    node.make_topic("clicks", 3)
    member = msgspec.structs.replace(
        node.groups["orders"].members[0], member_assignment=encode_streams_assignment({"clicks": {0: 0, 1: 0, 2: 1}})
    )
    node.groups["orders"] = msgspec.structs.replace(
        node.groups["orders"], protocol_type="streams", members=(member, node.groups["orders"].members[1])
    )

    shown = shell.json("groups", "describe", "orders")

    assert [one["partition"] for one in shown["members"][0]["partitions"]] == [0, 1, 2]
    assert shown["members"][1]["partitions"] == []


def test_the_owners_of_a_group_are_shown(shell: Shell, node: FakeNode) -> None:
    node.owned = (OwnedPartition("clicks", 0, "m-1", 1, 4, 9, 1_700_000_000_000),)

    heading, line = shell.lines("groups", "owners", "orders")

    assert heading.split() == ["TOPIC", "PARTITION", "MEMBER", "THREAD", "EPOCH", "SINCE"]
    assert line.split()[:5] == ["clicks", "0", "m-1", "1", "9"]
    assert shell.json("groups", "owners", "orders") == [
        {
            "topic": "clicks",
            "partition": 0,
            "member_id": "m-1",
            "thread": 1,
            "generation_id": 4,
            "epoch": 9,
            "since_ms": 1_700_000_000_000,
            "since": "2023-11-14T22:13:20.000Z",
        }
    ]


def test_a_group_without_owners_says_where_to_look(shell: Shell, node: FakeNode) -> None:
    assert "muster groups describe" in shell.lines("groups", "owners", "orders")[0]
    assert shell.json("groups", "owners", "orders") == []


def test_who_holds_a_group_up_stands_in_the_first_lines(shell: Shell, node: FakeNode) -> None:
    members = (
        DescribedMember("m-1", None, "app-1", "/10.0.0.1", waiting="join", waiting_ms=12_000, client_port=40_001),
        DescribedMember(
            "m-2", None, "app-2", "/10.0.0.2", client_port=40_002, heard_ago_ms=12_400, session_timeout_ms=45_000,
            session_left_ms=32_600, is_connected=False, disconnected_ms=11_000,
            client_software_name="apache-kafka-java",
        ),
    )  # fmt: skip
    node.groups["orders"] = DescribedGroup(
        "orders", group_state="PreparingRebalance", phase="join", phase_ms=12_000, phase_left_ms=18_000,
        waiting_for=("m-2",), limited_by="m-1", members=members,
    )  # fmt: skip

    lines = shell.lines("groups", "describe", "orders", "--verbose")

    assert lines[2].split(maxsplit=1)[1] == (
        "join for 12 s, at most 18 s more by the rebalance timeout of app-1 at 10.0.0.1:40001"
    )
    assert lines[3].split("  ", 1)[1].strip() == (
        "app-2 at 10.0.0.2:40002 (connection closed 11 s ago, last heard 12 s ago, evicted in 32 s if silent)"
    )
    verbose = [line for line in lines if "closed 11 s ago" in line][-1]
    assert "apache-kafka-java" in verbose
    document = shell.json("groups", "describe", "orders")
    assert (document["phase"], document["waiting_for"]) == ("join", ["m-2"])
    assert document["members"][1]["disconnected_ms"] == 11_000


def test_problems_stand_in_the_first_lines_with_their_culprits(shell: Shell, node: FakeNode) -> None:
    gone = DescribedMember(
        "m-2", None, "app-2", "/10.0.0.2", client_port=40_002, heard_ago_ms=12_400, session_timeout_ms=45_000,
        session_left_ms=32_600, is_connected=False, disconnected_ms=11_000,
    )  # fmt: skip
    node.groups["orders"] = msgspec.structs.replace(ORDERS, members=(ORDERS.members[0], gone))
    node.refusals = tuple(
        RefusedRequest(
            "orders", "JoinGroup", ErrorCode.INCONSISTENT_GROUP_PROTOCOL, f"odd-{number}", "/10.0.0.9", 1 + number,
            detail="it offers sticky", wall_ms=NOW_MS,
        )
        for number in range(3)
    )  # fmt: skip

    lines = [" ".join(line.split()) for line in shell.lines("groups", "describe", "orders")]

    closed = "connection closed 11 s ago, last heard 12 s ago, evicted in 32 s if silent"
    refused = "may not join (INCONSISTENT_GROUP_PROTOCOL): it offers sticky"
    assert lines[2:6] == [
        f"Problem silent_member: app-2 at 10.0.0.2:40002 is silent: {closed}",
        f"Problem join_refused: odd-0 at 10.0.0.9:1 {refused}",
        f"Problem join_refused: odd-1 at 10.0.0.9:2 {refused}",
        "and 1 more: muster doctor orders",
    ]
    document = shell.json("groups", "describe", "orders")
    assert [(one["kind"], one["client_id"]) for one in document["problems"]] == [
        ("silent_member", "app-2"), ("join_refused", "odd-0"), ("join_refused", "odd-1"), ("join_refused", "odd-2"),
    ]  # fmt: skip


def test_a_phase_that_lasts_is_told_once(shell: Shell, node: FakeNode) -> None:
    node.groups["orders"] = server_driven()

    titles = [line.split()[0] for line in shell.lines("groups", "describe", "orders")[:6]]

    assert titles == ["Group", "State", "Phase", "Waiting", "Epoch", "Target"]
    assert [one["kind"] for one in shell.json("groups", "describe", "orders")["problems"]] == ["revocation_held_up"]


def server_driven() -> DescribedGroup:
    """A holds what B shall have."""

    def encoded(*numbers: int) -> bytes:
        return encode_assignment(Assignment((TopicPartitions("flights", numbers),) if numbers else ()))

    a = DescribedMember("A", None, "app-a", "/10.0.0.1", b"", encoded(0, 1), member_epoch=2, group_protocol="classic")
    a = msgspec.structs.replace(
        a, target_assignment=encoded(0, 1), pending_revocation=encoded(2, 3), revoking_ms=12_000, heard_ago_ms=3_000
    )
    b = DescribedMember("B", "box", "app-b", "/10.0.0.2", b"", encoded(), member_epoch=-2)
    b = msgspec.structs.replace(b, target_assignment=encoded(2, 3))
    return DescribedGroup(
        "orders",
        group_state="Reconciling",
        protocol_type="consumer",
        protocol_data="uniform",
        members=(a, b),
        generation_id=4,
        target_epoch=3,
        phase="revoke",
        phase_ms=12_000,
        phase_left_ms=48_000,
        waiting_for=("A",),
        limited_by="A",
    )


def test_a_server_driven_group_shows_epochs_targets_and_who_has_not_revoked(shell: Shell, node: FakeNode) -> None:
    node.groups["orders"] = server_driven()

    lines = [" ".join(line.split()) for line in shell.lines("groups", "describe", "orders", "--verbose")]

    assert {
        "Epoch 4",
        "Target epoch 3, the next one is not computed yet",
        "Phase revocation for 12 s, at most 48 s more by the rebalance timeout of app-a at 10.0.0.1",
        "Waiting for app-a at 10.0.0.1 (has not revoked its partitions for 12 s, last heard 3.0 s ago)",
        "MEMBER PROTOCOL EPOCH TARGET TO REVOKE FOR",
        "A classic 2 flights 0-1 flights 2-3 12 s",
        "B - away flights 2-3 - -",
    } <= set(lines)

    document = shell.json("groups", "describe", "orders")
    assert (document["generation_id"], document["target_epoch"], document["phase"]) == (4, 3, "revoke")
    first = document["members"][0]
    assert (first["group_protocol"], first["member_epoch"], first["revoking_ms"]) == ("classic", 2, 12_000)
    assert first["to_revoke"] == [{"topic": "flights", "partition": number} for number in (2, 3)]

    lines = [" ".join(line.split()) for line in shell.lines("explain", "orders")]
    assert {
        "Now Reconciling",
        "Epoch 4",
        "Target epoch 3",
        "Waiting for app-a at 10.0.0.1 (has not revoked its partitions for 12 s, last heard 3.0 s ago)",
        "MEMBER PROTOCOL EPOCH PARTITIONS TARGET TO REVOKE FOR",
        "A classic 2 flights 0-1 flights 0-1 flights 2-3 12 s",
        "B - away - flights 2-3 - -",
    } <= set(lines)
    now = shell.json("explain", "orders")["now"]
    assert (now["phase"], now["waiting_for"], now["target_epoch"]) == ("revoke", ["A"], 3)
    assert now["members"][0]["to_revoke"] == first["to_revoke"]
    assert first["target"] == first["partitions"] == [{"topic": "flights", "partition": number} for number in (0, 1)]
