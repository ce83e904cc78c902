"""`muster-consumer-groups` prints what Kafka's tool of version 4.3.1 printed for the same groups."""

from pathlib import Path

import msgspec
import pytest

from muster.cli.operating.kafka_groups import main
from protocol.errors import ErrorCode
from protocol.messages.consumer_groups import (
    DescribedAssignment,
    DescribedConsumer,
    DescribedConsumerGroup,
    DescribedTopicPartitions,
)
from protocol.messages.groups import DescribedMember
from protocol.record_batch import encode_batch, stamp
from tests.cli.fake_node import ORDERS, FakeNode

UUID = "muster-cli-d529d01b-bd83-423b-912a-3694ce48e310"
LIVE = msgspec.structs.replace(
    ORDERS,
    group_id="live",
    members=(
        DescribedMember(UUID, None, "muster-cli", "/127.0.0.1", member_assignment=ORDERS.members[0].member_assignment),
    ),
)
GONE = msgspec.structs.replace(ORDERS, group_id="gone", group_state="Empty", members=(), protocol_data="")


@pytest.fixture(autouse=True)
def groups(node: FakeNode) -> None:
    """A group with a member that has partitions 0, 1, 2 and 5, and one without; both are at 3 of 6 in partition 2."""
    node.groups = {"gone": GONE, "live": LIVE}
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
        ((*RESET,), 0, PLAN.format(3)),
        ((*RESET, "--to-latest", "--export"), 0, "flights,2,6$\n$\n"),
        (("--reset-offsets", "--group", "live", "--topic", "flights", "--to-latest"), 1, ACTIVE),
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
    assert "gone            flights         2          5" in run(capsys, *both)


def test_groups_that_are_not_active_are_said_on_standard_error(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--bootstrap-server", "h:9", "--describe", "--group", "gone"])
    assert capsys.readouterr().err == "\nConsumer group 'gone' has no active members.\n"


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ([], "Command must include exactly one action"),
        (["--list"], "Missing required argument [bootstrap-server]"),
        (["--describe", "--bootstrap-server", "h:9"], "Option [describe] takes one of these options: [group]"),
        (["--describe", "--all-groups", "--members", "--state", "--bootstrap-server", "h:9"], "takes at most one"),
        (["--reset-offsets", "--group", "g", "--bootstrap-server", "h:9", "--to-latest"], "[topic], [all-topics]"),
        (["--delete-offsets", "--group", "g", "--bootstrap-server", "h:9"], "[topic], [group]"),
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
