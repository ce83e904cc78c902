"""`muster-consumer-groups` prints what Kafka's tool of version 4.3.1 printed for the same groups."""

import os
import threading
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from coordinator.groups.consumer.regex import Pattern
from muster.blocking import cluster
from muster.cli.operating.kafka_groups import main
from muster.cli.operating.kafka_tool import resetting
from muster.cli.operating.kafka_tool.patterns import why_invalid
from muster.cli.operating.kafka_tool.timed_cluster import TimedCluster
from muster.client import topics
from muster.client.steps import WaitUntil
from muster.errors import RequestTimedOut
from protocol.errors import ErrorCode
from protocol.messages import Message
from protocol.messages.consumer_groups import (
    DescribedAssignment,
    DescribedConsumer,
    DescribedConsumerGroup,
    DescribedTopicPartitions,
)
from protocol.messages.groups import DescribedGroup, DescribedMember
from protocol.messages.offsets import (
    OffsetDelete,
    OffsetDeletePartitionReply,
    OffsetDeleteReply,
    OffsetDeleteTopicReply,
)
from protocol.record_batch import encode_batch, stamp
from protocol.regular_expression import InvalidPattern
from tests.cli.fake_node import ORDERS, FakeNode

UUID = "muster-cli-d529d01b-bd83-423b-912a-3694ce48e310"
LIVE = msgspec.structs.replace(
    ORDERS,
    group_id="live",
    members=(
        DescribedMember(UUID, None, "muster-cli", "/127.0.0.1", member_assignment=ORDERS.members[0].member_assignment),
    ),
)
CONNECT = DescribedGroup("connectors", group_state="Stable", protocol_type="connect")
GONE = msgspec.structs.replace(ORDERS, group_id="gone", group_state="Empty", members=(), protocol_data="")


@pytest.fixture(autouse=True)
def groups(node: FakeNode) -> None:
    """A group with a member that has partitions 0, 1, 2 and 5, and one without; both are at 3 of 6 in partition 2."""
    node.groups = {"gone": GONE, "live": LIVE, "connectors": CONNECT}
    node.make_topic("flights", 6)
    node.topics["flights"][2].append(stamp(encode_batch([(None, b"record")] * 6, timestamp_ms=1), 0))
    node.committed = {("flights", 2): 3}


def run(capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 0) -> str:
    """Run the tool against a broker; return its standard output."""
    with pytest.raises(SystemExit) as ended:
        main(["--bootstrap-server", "h:9", *arguments])
    out, err = capsys.readouterr()
    assert ended.value.code == code, (out, err)
    return out


def test_an_interrupt_ends_quietly(capsys: pytest.CaptureFixture[str], node: FakeNode) -> None:
    node.interrupted = True
    assert run(capsys, "--list", code=130) == ""


LIST_STATE = """\
GROUP                     STATE               $
gone                      Empty               $
live                      Stable              $
"""
LIST_TYPE = """\
GROUP                     TYPE                $
gone                      Classic             $
live                      Classic             $
"""
GONE_OFFSETS = """
GROUP           TOPIC           PARTITION  CURRENT-OFFSET  LOG-END-OFFSET  LAG             CONSUMER-ID     HOST            CLIENT-ID$
gone            flights         2          3               6               3               -               -               -$
"""  # noqa: E501
LIVE_VERBOSE = f"""
GROUP           TOPIC           PARTITION  LEADER-EPOCH    CURRENT-OFFSET  LOG-END-OFFSET  LAG             CONSUMER-ID                                     HOST            CLIENT-ID$
live            flights         0          -               -               0               -               {UUID} /127.0.0.1      muster-cli$
live            flights         1          -               -               0               -               {UUID} /127.0.0.1      muster-cli$
live            flights         2          -               3               6               3               {UUID} /127.0.0.1      muster-cli$
live            flights         5          -               -               0               -               {UUID} /127.0.0.1      muster-cli$
"""  # noqa: E501
MEMBERS = f"""
GROUP           CONSUMER-ID                                     HOST            CLIENT-ID       #PARTITIONS     $
live            {UUID} /127.0.0.1      muster-cli      4               $
"""
MEMBERS_VERBOSE = f"""
GROUP           CONSUMER-ID                                     HOST            CLIENT-ID       #PARTITIONS     CURRENT-EPOCH   CURRENT-ASSIGNMENT   TARGET-EPOCH    TARGET-ASSIGNMENT   $
live            {UUID} /127.0.0.1      muster-cli      4               -               flights:0,1,2,5      -               -                   $
"""  # noqa: E501
NO_MEMBERS = """
GROUP           CONSUMER-ID     HOST            CLIENT-ID       #PARTITIONS     $
"""
STATE = """
GROUP           COORDINATOR (ID)          ASSIGNMENT-STRATEGY  STATE                #MEMBERS$
gone            h:9  (1)                  -                    Empty                0$
"""
PLAN = """
GROUP           TOPIC           PARTITION  NEW-OFFSET$
gone            flights         2          {}$
"""
ACTIVE = """
Error: Assignments can only be reset if the group 'live' is inactive, but the current state is Stable.$

GROUP           TOPIC           PARTITION  NEW-OFFSET$
"""
NOT_EMPTY = """
Error: Deletion of some consumer groups failed:$
* Group 'live' could not be deleted due to: org.apache.kafka.common.errors.GroupNotEmptyException: The group is not empty.$
"""  # noqa: E501
NOBODY = """
Error: Executing consumer group command failed due to org.apache.kafka.common.errors.GroupIdNotFoundException: Group nobody not found.$
"""  # noqa: E501
FAILED = "\nError: Executing consumer group command failed due to {}$\n"
NO_TIME = "java.text.ParseException: Error parsing timestamp. It does not contain a 'T' according to ISO8601 format"
NO_TOPIC = "This server does not host this topic-partition."
NO_PARTITION = 'The partitions "flights-9" do not exist'
NO_NUMBER = "Cannot parse argument 'x' of option to-offset"
CONNECTORS = "java.lang.IllegalArgumentException: GroupId connectors is not a consumer group (connect)."
STATE_VERBOSE = """
GROUP           COORDINATOR (ID)          ASSIGNMENT-STRATEGY  STATE                GROUP-EPOCH     TARGET-ASSIGNMENT-EPOCH   #MEMBERS$
gone            h:9  (1)                  -                    Empty                -               -                         0$
"""  # noqa: E501
LIVE_OFFSETS = f"""
GROUP           TOPIC           PARTITION  CURRENT-OFFSET  LOG-END-OFFSET  LAG             CONSUMER-ID                                     HOST            CLIENT-ID$
live            flights         0          -               0               -               {UUID} /127.0.0.1      muster-cli$
live            flights         1          -               0               -               {UUID} /127.0.0.1      muster-cli$
live            flights         2          3               6               3               {UUID} /127.0.0.1      muster-cli$
live            flights         5          -               0               -               {UUID} /127.0.0.1      muster-cli$
"""  # noqa: E501
RESET = ("--reset-offsets", "--group", "gone", "--topic", "flights:2", "--dry-run")


@pytest.mark.parametrize(
    ("arguments", "code", "page"),
    [
        (("--list",), 0, "gone$\nlive$\n"),
        (("--list", "--state"), 0, LIST_STATE),
        (
            ("--list", "--state", "stable"),
            0,
            LIST_STATE.replace("gone                      Empty               $\n", ""),
        ),
        (("--list", "--state", "Stable,Empty"), 0, LIST_STATE),
        (("--list", "--type"), 0, LIST_TYPE),
        (("--list", "--type", "consumer"), 0, LIST_TYPE.splitlines(keepends=True)[0]),
        (("--describe", "--group", "gone"), 0, GONE_OFFSETS),
        (("--describe", "--group", "gone", "--offsets"), 0, GONE_OFFSETS),
        (("--describe", "--group", "live", "--offsets", "--verbose"), 0, LIVE_VERBOSE),
        (("--describe", "--group", "live", "--members"), 0, MEMBERS),
        (("--describe", "--group", "live", "--members", "--verbose"), 0, MEMBERS_VERBOSE),
        (("--describe", "--all-groups", "--members"), 0, NO_MEMBERS + MEMBERS),
        (("--describe", "--group", "gone", "--state"), 0, STATE),
        (("--describe", "--group", "nobody"), 1, NOBODY),
        ((*RESET, "--to-earliest"), 0, PLAN.format(0)),
        ((*RESET, "--to-latest"), 0, PLAN.format(6)),
        ((*RESET, "--to-current"), 0, PLAN.format(3)),
        ((*RESET, "--to-offset", "99"), 0, PLAN.format(6)),
        ((*RESET, "--shift-by", "1"), 0, PLAN.format(4)),
        ((*RESET, "--shift-by", "-99"), 0, PLAN.format(0)),
        ((*RESET, "--to-latest", "--export"), 0, "flights,2,6$\n$\n"),
        (("--reset-offsets", "--group", "live", "--topic", "flights", "--to-latest"), 1, ACTIVE),
        ((*RESET, "--by-duration", "PT1H"), 0, PLAN.format(0)),
        ((*RESET, "--by-duration", "yesterday"), 1, FAILED.format("Text cannot be parsed to a Duration")),
        ((*RESET, "--to-datetime", "2024-01-01"), 1, FAILED.format(NO_TIME)),
        (("--reset-offsets", "--group", "gone", "--topic", "nowhere", "--to-latest"), 1, FAILED.format(NO_TOPIC)),
        (("--reset-offsets", "--group", "gone", "--topic", "flights:9", "--to-latest"), 1, FAILED.format(NO_PARTITION)),
        ((*RESET[:3], "--topic", "flights:2", "--to-offset", "x"), 1, FAILED.format(NO_NUMBER)),
        (("--describe", "--group", "gone", "--state", "--verbose"), 0, STATE_VERBOSE),
        (("--describe", "--group", "live", "--group", "gone", "--group", "live"), 0, GONE_OFFSETS + LIVE_OFFSETS),
        (("--describe", "--group", "gone", "--group", "nobody"), 1, NOBODY),
        (("--describe", "--group", "connectors"), 1, FAILED.format(CONNECTORS)),
        (("--delete", "--group", "live"), 1, NOT_EMPTY),
        (("--delete", "--group", "gone"), 0, "Deletion of requested consumer groups ('gone') was successful.$\n"),
        (("--validate-regex", "x"), 0, "The regular expression `x` is valid.$\n"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_it_prints_as_kafkas_tool(
    capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], code: int, page: str
) -> None:
    out = run(capsys, *arguments, code=code)
    assert "".join(f"{line}$\n" for line in out.splitlines()) == "".join(
        f"{line.removesuffix('$')}$\n" for line in page.splitlines()
    )


def test_server_driven_groups_are_described_too(capsys: pytest.CaptureFixture[str], node: FakeNode) -> None:
    """Kafka's DescribeGroups says of them that they are not there (KIP-848)."""
    has = DescribedAssignment((DescribedTopicPartitions(b"f" * 16, "flights", (0, 2)),))
    wants = DescribedAssignment((DescribedTopicPartitions(b"f" * 16, "flights", (2,)),))
    member = DescribedConsumer("M", member_epoch=6, client_id="app", client_host="/::1", assignment=has)
    member = msgspec.structs.replace(member, target_assignment=wants, subscribed_topic_names=("flights",))
    node.server_driven = {
        "new": DescribedConsumerGroup("new", ErrorCode.NONE, None, "Reconciling", 7, 7, "uniform", (member,)),
        "left": DescribedConsumerGroup("left", group_state="Empty", group_epoch=3),
    }
    lines = run(capsys, "--describe", "--group", "new", "--members", "--verbose").splitlines()
    assert lines[-1].split() == ["new", "M", "/::1", "app", "2", "6", "flights:0,2", "7", "flights:2"]
    lines = run(capsys, "--describe", "--group", "new").splitlines()
    assert [line.split() for line in lines[-2:]] == [
        ["new", "flights", "0", "-", "0", "-", "M", "/::1", "app"],
        ["new", "flights", "2", "3", "6", "3", "M", "/::1", "app"],
    ]
    lines = run(capsys, "--describe", "--group", "left", "--state").splitlines()
    assert lines[-1].split() == ["left", "h:9", "(1)", "-", "Empty", "0"]
    node.server_driven = {"new": DescribedConsumerGroup("new", ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)}
    assert "is being loaded" in run(capsys, "--describe", "--group", "new", code=1)


def test_a_file_names_the_group_where_there_are_several(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    file = tmp_path / "offsets.csv"
    file.write_text("gone,flights,2,5\n")
    both = ("--reset-offsets", "--group", "gone", "--group", "other", "--from-file", str(file), "--dry-run")
    out = run(capsys, *both, code=1)
    assert "gone            flights         2          5" in out
    assert out.startswith("\nError: No reset plan for group other found\n")
    one = ("--reset-offsets", "--group", "gone", "--from-file", str(file), "--dry-run")
    assert "gone            flights         2          5" in run(capsys, *one)


def test_groups_that_are_not_active_are_said_on_standard_error(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--bootstrap-server", "h:9", "--describe", "--group", "gone"])
    assert capsys.readouterr().err == "\nConsumer group 'gone' has no active members.\n"


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ([], "This tool helps to list all consumer groups"),
        (["--help"], "This tool helps to list all consumer groups"),
        (["--bootstrap-server", "h:9"], "Command must include exactly one action: --list, --describe, "),
        (["--bootstrap-server", "h:9", "--list", "--validate-regex", "x"], "Command must include exactly one action"),
        (["--list"], 'Missing required argument "[bootstrap-server]"'),
        (["--list", "--lists"], "lists is not a recognized option"),
        (["--list", "--members"], "Option(s) [members] are unavailable given other options on the command line"),
        (["--list", "--bootstrap-server"], "Option bootstrap-server requires an argument"),
        (
            ["--list", "--group", "g", "--bootstrap-server", "h:9"],
            'Option "[group]" can\'t be used with option "[list]"',
        ),
        (["--list", "--state", "odd", "--bootstrap-server", "h:9"], "Invalid state list 'odd'. Valid states are: "),
        (["--list", "--type", "share", "--bootstrap-server", "h:9"], "Invalid types list 'share'. Valid types are: "),
        (
            ["--describe", "--group", "g", "--state", "x", "--bootstrap-server", "h:9"],
            "does not take a value for [state]",
        ),
        ([*RESET, "--bootstrap-server", "h:9"], "Option '[reset-offsets]' requires one of the following scenarios: "),
        ([*RESET, "--execute", "--bootstrap-server", "h:9"], "only accepts one of [execute] and [dry-run]"),
        (
            [*RESET, "--shift-by", "1", "--to-current", "--bootstrap-server", "h:9"],
            'Option "[to-current]" can\'t be used with option "[shift-by]"',
        ),
        (
            [
                "--reset-offsets",
                "--group",
                "gone",
                "--topic",
                "flights",
                "--shift-by",
                "1",
                "--bootstrap-server",
                "h:9",
            ],
            "Cannot shift offset for partition flights-0 since there is no current committed offset",
        ),
        (
            ["--reset-offsets", "--group", "gone", "--topic", "flights:x", "--to-latest", "--bootstrap-server", "h:9"],
            "Invalid partition 'x' specified in topic arg 'flights:x''",
        ),
        (["--delete", "--group", "g", "--topic", "t", "--bootstrap-server", "h:9"], "topic-specific offset deletion"),
        (["--describe", "--bootstrap-server", "h:9"], "Option [describe] takes one of these options: [group]"),
        (["--describe", "--all-groups", "--members", "--state", "--bootstrap-server", "h:9"], "takes at most one"),
        (["--reset-offsets", "--group", "g", "--bootstrap-server", "h:9", "--to-latest"], "--all-topics, --topic"),
        (["--delete-offsets", "--group", "g", "--bootstrap-server", "h:9"], "[group], [topic]"),
    ],
)
def test_wrong_arguments_end_with_1(capsys: pytest.CaptureFixture[str], arguments: list[str], sentence: str) -> None:
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == 1
    assert sentence in capsys.readouterr().err


def test_a_refused_partition_is_named_by_kafkas_word(capsys: pytest.CaptureFixture[str], node: FakeNode) -> None:
    node.refused = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert "is being loaded" in run(capsys, "--describe", "--group", "gone", "--members", code=1)


def test_groups_of_connectors_and_share_groups_are_none_of_its_own(
    capsys: pytest.CaptureFixture[str], node: FakeNode
) -> None:
    assert "connectors" not in run(capsys, "--list", "--state")
    assert "connectors" not in run(capsys, "--describe", "--all-groups", "--state")
    out = run(capsys, "--delete", "--all-groups", code=1)
    assert out.endswith("\nThese consumer groups were deleted successfully: 'gone'\n")
    assert sorted(node.groups) == ["connectors", "live"]


def test_stray_words_are_ignored(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(capsys, "--list", "stray") == "gone\nlive\n"


def test_members_of_both_protocols_are_told_apart(capsys: pytest.CaptureFixture[str], node: FakeNode) -> None:
    new = DescribedConsumer("new", "desk", member_epoch=2, client_id="a", client_host="/::1", member_type=1)
    old = DescribedConsumer("old", member_epoch=2, client_id="b", client_host="/::1", member_type=0)
    node.server_driven = {"both": DescribedConsumerGroup("both", ErrorCode.NONE, None, "Stable", 2, 2, "", (new, old))}
    head, *rows = run(capsys, "--describe", "--group", "both", "--members", "--verbose").splitlines()[1:]
    assert head.split()[-1] == "UPGRADED"
    assert [row.split() for row in rows] == [
        ["both", "new", "desk", "/::1", "a", "0", "2", "-", "2", "-", "true"],
        ["both", "old", "/::1", "b", "0", "2", "-", "2", "-", "false"],
    ]
    lines = run(capsys, "--describe", "--group", "both", "--state", "--verbose").splitlines()
    assert lines[-1].split() == ["both", "h:9", "(1)", "-", "Stable", "2", "2", "2"]


@pytest.mark.parametrize("state", ["PreparingRebalance", "Assigning", "Reconciling"])
def test_a_rebalance_is_said_on_standard_error(capsys: pytest.CaptureFixture[str], node: FakeNode, state: str) -> None:
    node.groups["live"] = msgspec.structs.replace(LIVE, group_state=state)
    with pytest.raises(SystemExit):
        main(["--bootstrap-server", "h:9", "--describe", "--group", "live"])
    assert capsys.readouterr().err == "\nWarning: Consumer group 'live' is rebalancing.\n"


def test_offsets_outside_the_log_are_said_on_standard_error(capsys: pytest.CaptureFixture[str]) -> None:
    bounds = {"7": "higher than latest", "-1": "lower than earliest"}
    for offset, bound in bounds.items():
        with pytest.raises(SystemExit):
            main(["--bootstrap-server", "h:9", *RESET, "--to-offset", offset])
        said = f"WARN New offset ({offset}) is {bound} offset for topic partition flights-2. Value will be set to "
        assert said in capsys.readouterr().err


def test_partitions_without_so_late_a_record_go_to_their_end(
    capsys: pytest.CaptureFixture[str], node: FakeNode
) -> None:
    node.begins["flights", 2] = -1
    out = run(capsys, *RESET, "--to-datetime", "2024-01-01T00:00:00.000")
    assert out.startswith("\nWarn: Partition 2 from topic flights is empty. Falling back to latest known offset.\n")
    assert out.endswith("gone            flights         2          6\n")


def test_long_and_odd_names_are_quoted_in_a_file(capsys: pytest.CaptureFixture[str], node: FakeNode) -> None:
    node.make_topic("a-topic-with-a-rather-long-name", 1)
    word = "a-topic-with-a-rather-long-name:0"
    many = ("--reset-offsets", "--group", "gone", "--group", "b,c", "--topic", word, "--to-latest", "--export")
    assert run(capsys, *many) == (
        'gone,"a-topic-with-a-rather-long-name",0,0\n"b,c","a-topic-with-a-rather-long-name",0,0\n\n'
    )


def test_deleted_offsets_are_told_by_partition(
    capsys: pytest.CaptureFixture[str], node: FakeNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []

    def delete(message: OffsetDelete) -> Message:
        asked.append(message)
        codes = {2: ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC} if message.group_id == "live" else {}
        parts = [(one.name, part) for one in message.topics for part in one.partition_indexes]
        return OffsetDeleteReply(
            ErrorCode.GROUP_ID_NOT_FOUND if message.group_id == "nobody" else ErrorCode.NONE,
            tuple(
                OffsetDeleteTopicReply(name, (OffsetDeletePartitionReply(part, codes.get(part, ErrorCode.NONE)),))
                for name, part in parts
            ),
        )

    monkeypatch.setattr(node, "OffsetDelete", delete, raising=False)
    out = run(capsys, "--delete-offsets", "--group", "gone", "--topic", "flights:2,0")
    assert out.splitlines()[0] == "Request succeeded for deleting offsets from group gone."
    assert [line.split() for line in out.splitlines()[-2:]] == [
        ["flights", "0", "Successful"],
        ["flights", "2", "Successful"],
    ]
    out = run(capsys, "--delete-offsets", "--group", "live", "--topic", "flights:1,2", code=1)
    assert out.startswith("\nError: Encountered some partition-level error, see the follow-up details.\n")
    assert "Error: org.apache.kafka.common.errors.GroupSubscribedToTopicException: Deleting offsets" in out
    out = run(capsys, "--delete-offsets", "--group", "nobody", "--topic", "flights:0", code=1)
    assert out.startswith("\nError: The group id does not exist.\n")
    assert "flights         0          Error: org.apache.kafka.common.errors.GroupIdNotFoundException: " in out
    count = len(asked)
    out = run(capsys, "--delete-offsets", "--group", "gone", "--topic", "nowhere", code=1)
    assert "nowhere         -          Error: org.apache.kafka.common.errors.UnknownTopicOrPartition" in out
    assert len(asked) == count


@pytest.mark.parametrize(
    "action",
    [
        ("--list",),
        ("--describe", "--all-groups"),
        ("--describe", "--group", "gone"),
        ("--delete", "--group", "live"),
        (*RESET, "--to-latest"),
    ],
)
def test_each_request_waits_as_long_as_the_timeout_allows(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, action: tuple[str, ...]
) -> None:
    waits: list[float] = []

    def wait(condition: Callable[[], bool], timeout_s: float) -> WaitUntil:
        waits.append(timeout_s)
        return WaitUntil(condition, timeout_s)

    monkeypatch.setattr(cluster, "WaitUntil", wait)
    monkeypatch.setattr(topics, "WaitUntil", wait)
    with pytest.raises(SystemExit):
        main(["--bootstrap-server", "h:9", "--timeout", "45000", *action])
    assert 40 < max(waits) <= 45
    waits.clear()
    with pytest.raises(SystemExit):
        main(["--bootstrap-server", "h:9", "--timeout", "1500", *action])
    assert 0 < max(waits) <= 1.5
    assert min(waits) > 1


def test_a_late_reply_is_named_by_kafkas_word(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def ask(*_: object, **__: object) -> Message:
        raise RequestTimedOut("h:9 did not answer Metadata within 1.5 s")

    monkeypatch.setattr(cluster.ClusterClient, "ask", ask)
    out = run(capsys, "--list", "--timeout", "1500", code=1)
    assert out == FAILED.replace("$", "").format(
        "org.apache.kafka.common.errors.TimeoutException: h:9 did not answer Metadata within 1.5 s"
    )


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("orders-.*", None),
        (r"\pL+\z", None),
        ("(?<name>x)", None),
        ("(unclosed", "missing closing )"),
        ("closed)", "unexpected )"),
        ("[a-", "missing closing ]"),
        ("[b-a]", "invalid character class range"),
        ("*", "missing argument to repetition operator"),
        ("a**", "invalid nested repetition operator"),
        ("a{1001}", "invalid repeat count"),
        ("((a{100}){100}){100}", "invalid repeat count"),
        ("(?=ahead)", "invalid or unsupported Perl syntax"),
        ("(?<!behind)", "invalid named capture"),
        ("(?P<a", "invalid named capture"),
        (r"(a)\1", "invalid escape sequence"),
        (r"\C", "invalid escape sequence"),
        (r"\Q\C\E", None),
        ("a\\", "trailing backslash at end of expression"),
        ("\ud800", "invalid UTF-8"),
    ],
)
def test_expressions_are_judged_as_by_the_coordinator(text: str, reason: str | None) -> None:
    try:
        Pattern(text)
    except InvalidPattern:
        is_valid = False
    else:
        is_valid = True
    assert (why_invalid(text), is_valid) == (reason, reason is None)


def test_an_invalid_expression_ends_with_1(capsys: pytest.CaptureFixture[str]) -> None:
    out = run(capsys, "--validate-regex", "(a", code=1)
    assert out == "The regular expression `(a` is invalid: missing closing ).\n"


def test_what_was_done_before_an_error_is_printed(
    capsys: pytest.CaptureFixture[str], node: FakeNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    find = cluster.ClusterClient.ask_coordinator

    def ask(self: cluster.ClusterClient, kind: type, group_id: str, message: Message) -> Message:
        if group_id == "unreached":
            raise RequestTimedOut("nobody answered")
        return find(self, kind, group_id, message)

    monkeypatch.setattr(TimedCluster, "ask_coordinator", ask)
    shown = run(capsys, "--delete", "--group", "gone", "--group", "unreached", code=1)
    assert shown.startswith("Deletion of requested consumer groups ('gone') was successful.\n")
    assert "TimeoutException: nobody answered" in shown


def test_what_was_set_before_an_error_is_printed(
    capsys: pytest.CaptureFixture[str], node: FakeNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    node.groups["other"] = msgspec.structs.replace(GONE, group_id="other")
    done: list[str] = []

    def carry_out(_cluster: object, group_id: str, _changes: object) -> None:
        if done:
            raise RequestTimedOut("nobody answered")
        done.append(group_id)

    monkeypatch.setattr(resetting, "carry_out_at_kafka", carry_out)
    both = ("--group", "gone", "--group", "other")
    shown = run(capsys, "--reset-offsets", *both, "--topic", "flights:2", "--to-earliest", "--execute", code=1)
    assert [line.split()[:4] for line in shown.splitlines() if line.startswith("gone")] == [
        ["gone", "flights", "2", "0"]
    ]
    assert "other " not in shown


def test_what_was_set_before_an_option_is_refused_is_printed(
    capsys: pytest.CaptureFixture[str], node: FakeNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    node.groups["other"] = msgspec.structs.replace(GONE, group_id="other")

    def carry_out(_cluster: object, _group_id: str, _changes: object) -> None:
        node.committed = {}

    monkeypatch.setattr(resetting, "carry_out_at_kafka", carry_out)
    arguments = ("--topic", "flights:2", "--shift-by", "1", "--execute")
    shown = run(capsys, "--reset-offsets", "--group", "gone", "--group", "other", *arguments, code=1)
    assert [line.split()[:4] for line in shown.splitlines() if line.startswith("gone")] == [
        ["gone", "flights", "2", "4"]
    ]


def test_a_file_is_read_once(capsys: pytest.CaptureFixture[str], node: FakeNode, tmp_path: Path) -> None:
    pipe = tmp_path / "offsets"
    os.mkfifo(pipe)
    writer = threading.Thread(target=pipe.write_text, args=("flights,2,1\n",))
    writer.start()
    shown = run(capsys, "--reset-offsets", "--group", "gone", "--from-file", str(pipe), "--dry-run")
    writer.join()
    assert "gone            flights         2          1" in shown


@pytest.mark.parametrize("timeout", ["99999999999999", "9" * 400])
def test_a_timeout_beyond_all_clocks_is_the_longest(
    capsys: pytest.CaptureFixture[str], node: FakeNode, timeout: str
) -> None:
    assert "gone" in run(capsys, "--list", "--timeout", timeout)


@pytest.mark.parametrize("duration", ["P99999999999999999999D", f"PT{'9' * 400}S"])
def test_a_duration_beyond_all_clocks_is_refused(
    capsys: pytest.CaptureFixture[str], node: FakeNode, duration: str
) -> None:
    arguments = ("--reset-offsets", "--group", "gone", "--all-topics", "--by-duration", duration)
    assert "Text cannot be parsed to a Duration" in run(capsys, *arguments, code=1)
