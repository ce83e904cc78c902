from protocol.messages.offsets import DescribeExpiryReply, ExpiringOffset
from tests.cli.conftest import Shell
from tests.cli.fake_node import FakeNode

AT_MS = 1_700_000_000_000
WEEK_MS = 604_800_000


def test_what_goes_and_what_stays_is_shown_for_people_page_by_page(shell: Shell, node: FakeNode) -> None:
    node.expiring = [
        ExpiringOffset("a", 0, 5, AT_MS - WEEK_MS, AT_MS),
        ExpiringOffset("a", 1, 6, AT_MS, AT_MS + WEEK_MS),
        ExpiringOffset("t", 0, 7, AT_MS, kept_because="a member subscribes to the topic"),
        ExpiringOffset("t", 3, kept_because="a transaction has an offset pending for the partition"),
        ExpiringOffset("u", 0, 8, AT_MS, 2**62),
    ]

    lines = shell.lines("offsets", "expiring", "orders")

    assert [line.split(maxsplit=2) for line in lines[:4]] == [
        ["Group", "orders"],
        ["State", "Empty"],
        ["Retention", "7", "d"],
        ["Next", "run", "2023-11-14 22:23:20.000"],
    ]
    assert lines[4].split() == ["The", "group", "goes", "2023-11-21", "22:13:20.000"]
    assert [" ".join(line.split()) for line in lines[6:]] == [
        "TOPIC PARTITION COMMITTED COMMITTED AT EXPIRES",
        "a 0 5 2023-11-07 22:13:20.000 at the next run",
        "a 1 6 2023-11-14 22:13:20.000 2023-11-21 22:13:20.000",
        "t 0 7 2023-11-14 22:13:20.000 kept: a member subscribes to the topic",
        "t 3 - - kept: a transaction has an offset pending for the partition",
        "u 0 8 2023-11-14 22:13:20.000 in thousands of years",
        "",
        "What has expired already: muster explain orders",
    ]


def test_the_same_for_scripts(shell: Shell, node: FakeNode) -> None:
    node.expiring = [
        ExpiringOffset("a", 1, 6, AT_MS, AT_MS + WEEK_MS),
        ExpiringOffset("t", 3, kept_because="a transaction has an offset pending for the partition"),
    ]

    assert shell.json("offsets", "expiring", "orders") == {
        "group_id": "orders",
        "state": "Empty",
        "retention_ms": WEEK_MS,
        "next_run": "2023-11-14T22:23:20.000Z",
        "group_expires": "2023-11-21T22:13:20.000Z",
        "group_kept_because": None,
        "offsets": [
            {
                "topic": "a",
                "partition": 1,
                "committed_offset": 6,
                "committed_at": "2023-11-14T22:13:20.000Z",
                "expires": "2023-11-21T22:13:20.000Z",
                "kept_because": None,
            },
            {
                "topic": "t",
                "partition": 3,
                "committed_offset": None,
                "committed_at": None,
                "expires": None,
                "kept_because": "a transaction has an offset pending for the partition",
            },
        ],
    }


def test_a_group_without_offsets_that_goes_at_the_next_run(shell: Shell, node: FakeNode) -> None:
    node.expiry = DescribeExpiryReply(
        group_state="Empty", group_expires_ms=0, next_run_ms=AT_MS, retention_ms=90 * 60_000
    )

    lines = shell.lines("offsets", "expiring", "orders")

    assert lines[2].split() == ["Retention", "90", "min"]
    assert lines[4].split(maxsplit=3)[3] == "at the next run"
    assert lines[5:] == ["", "What has expired already: muster explain orders"]


def test_of_a_group_that_is_not_there_the_command_says_so(shell: Shell) -> None:
    assert shell.complaint("offsets", "expiring", "nobody", code=3) == (
        "muster: there is no group 'nobody': see `muster groups list`\n"
    )
