import json
from pathlib import Path

import pytest

from tests.cli.conftest import Shell
from tests.cli.fake_node import FakeNode


def test_a_topic_is_made_and_listed(shell: Shell) -> None:
    assert shell.lines("topics", "list") == [
        "There are no topics yet: `muster topics create NAME --partitions N` makes one."
    ]
    assert shell.lines("topics", "create", "flights", "--partitions", "8") == ["Made topic flights with 8 partitions."]
    assert shell.lines("topics", "list") == ["TOPIC    PARTITIONS", "flights           8"]
    assert shell.json("topics", "list") == [{"name": "flights", "partitions": 8, "topic_id": "07" * 16}]


def test_a_topic_is_described_with_who_has_it_and_how_far_it_goes(shell: Shell, node: FakeNode) -> None:
    node.make_topic("flights", 2)
    shell.run("produce", "flights", "--key-separator", ":", typed="a:\n" * 3)
    ends = [len(log) for log in node.records("flights")]

    lines = [line.split() for line in shell.lines("topics", "describe", "flights")]
    shown = shell.json("topics", "describe", "flights")

    assert lines[:3] == [["Topic", "flights"], ["Id", "07" * 16], ["Settings", "as", "the", "server's"]]
    assert lines[4:] == [
        ["PARTITION", "LEADER", "ADDRESS", "BEGIN", "END"],
        ["0", "1", "h:9", "0", str(ends[0])],
        ["1", "1", "h:9", "0", str(ends[1])],
    ]
    assert shown["partitions"][1] == {
        "partition": 1,
        "leader": 1,
        "address": "h:9",
        "begin_offset": 0,
        "end_offset": ends[1],
        "end_age_ms": None,
    }
    assert "there is no topic 'ghosts'" in shell.complaint("topics", "describe", "ghosts", code=3)


def test_a_topic_is_described_with_its_settings(shell: Shell, node: FakeNode) -> None:
    node.make_topic("flights", 1)

    def told() -> list[str]:
        return [line.partition("Settings")[2].strip() for line in shell.lines("topics", "describe", "flights")[:3]]

    assert told()[-1] == "as the server's"
    node.topic_configs["flights"] = {"cleanup.policy": "compact", "retention.ms": "60000"}
    assert told()[-1] == "cleanup.policy=compact retention.ms=60000"
    settings = shell.json("topics", "describe", "flights")["settings"]
    assert settings == {"cleanup.policy": "compact", "retention.ms": "60000", "segment.bytes": "1048576"}
    node.may_alter = False
    assert not any(line.startswith("Settings") for line in shell.lines("topics", "describe", "flights"))
    assert shell.json("topics", "describe", "flights")["settings"] is None


def test_a_topic_of_brokers_says_how_old_its_ends_are(shell: Shell, node: FakeNode) -> None:
    node.make_topic("flights", 2)
    node.beside = {("flights", 0): 7_000}

    lines = [line.split() for line in shell.lines("topics", "describe", "flights")]

    assert ["Ends", "as", "of", "7", "s", "ago"] in lines
    assert lines[-2:] == [["0", "1", "h:9", "0", "0"], ["1", "1", "h:9", "-", "-"]]


def test_a_topic_is_deleted_by_who_says_yes(shell: Shell, node: FakeNode) -> None:
    node.make_topic("flights", 8)
    shell.run("topics", "delete", "flights", typed="n\n", code=1)
    assert "flights" in node.topics
    shell.run("topics", "delete", "flights", typed="y\n")
    assert "flights" not in node.topics
    assert shell.complaint("topics", "delete", "flights", "--yes", code=3) == "muster: there is no topic 'flights'\n"
    node.make_topic("flights", 8)
    assert shell.lines("topics", "delete", "flights", "-y") == ["Deleted topic flights."]


def test_a_topic_is_made_for_scripts(shell: Shell) -> None:
    assert shell.json("topics", "create", "t") == {"name": "t", "partitions": 1, "topic_id": "07" * 16}


def test_a_topic_is_made_with_settings_of_its_own(shell: Shell, node: FakeNode) -> None:
    settings = ("--config", "cleanup.policy=compact", "--config", "note=a=b")
    shell.run("topics", "create", "prices", *settings)

    assert node.configs["prices"] == {"cleanup.policy": "compact", "note": "a=b"}


def test_a_setting_without_a_value_is_a_usage_error(shell: Shell, node: FakeNode) -> None:
    assert "'compact' has no '=': KEY=VALUE is wanted" in shell.complaint(
        "topics", "create", "prices", "--config", "compact", code=2
    )
    assert node.questions == 0


def test_a_refused_topic_is_one_sentence_and_exit_4(shell: Shell, node: FakeNode) -> None:
    node.make_topic("t", 1)

    assert shell.complaint("topics", "create", "t", code=4) == "muster: there is a topic 't' already\n"
    assert shell.complaint("topics", "create", "u", "--partitions", "0", code=4) == (
        "muster: topic 'u' was not made: 0 is no number of them\n"
    )


def test_lines_become_records(shell: Shell, node: FakeNode) -> None:
    node.make_topic("t", 1)

    said = shell.lines("produce", "t", typed=b"one\r\n\ntwo \xff\nlast")

    assert said == ["Appended 4 records to t."]
    assert [(r.key, r.value) for r in node.records("t")[0]] == [
        (None, b"one"),
        (None, b""),
        (None, b"two \xff"),
        (None, b"last"),
    ]


def test_lines_of_a_file_become_records(shell: Shell, node: FakeNode, tmp_path: Path) -> None:
    node.make_topic("t", 1)
    (tmp_path / "lines").write_bytes(b"a\nb\n")

    assert shell.json("produce", "t", "--file", str(tmp_path / "lines")) == {
        "topic": "t",
        "records": 2,
        "partitions": [{"partition": 0, "records": 2}],
    }


def test_a_key_stands_before_the_separator(shell: Shell, node: FakeNode) -> None:
    node.make_topic("t", 1)

    shell.run("produce", "t", "--key-separator", "::", typed="k::v::w\n::x\n")

    assert [(r.key, r.value) for r in node.records("t")[0]] == [(b"k", b"v::w"), (b"", b"x")]


def test_a_line_without_a_key_is_named(shell: Shell, node: FakeNode) -> None:
    node.make_topic("t", 1)

    said = shell.complaint("produce", "t", "--key-separator", ":", typed="a:b\nab\n", code=1)

    assert said == "muster: line 2 has no ':' in it\n"


def test_one_key_goes_to_one_partition(shell: Shell, node: FakeNode) -> None:
    node.make_topic("t", 5)

    shell.run("produce", "t", "--key-separator", ":", typed="k:1\nother:2\nk:3\n")

    (home,) = [log for log in node.records("t") if any(record.key == b"k" for record in log)]
    assert [record.value for record in home if record.key == b"k"] == [b"1", b"3"]


@pytest.mark.parametrize("command", ["produce", "consume"])
def test_a_topic_that_is_not_there_is_one_sentence(shell: Shell, command: str) -> None:
    assert "there is no topic 'nowhere'" in shell.complaint(command, "nowhere", typed="x\n", code=3)


def test_records_come_back_as_lines(shell: Shell, node: FakeNode) -> None:
    node.make_topic("t", 2)
    shell.run("produce", "t", "--key-separator", ":", typed="a:1\nb:2\nc:3\nd:4\n")

    assert sorted(shell.lines("consume", "t", "--from-beginning", "--max", "4")) == ["1", "2", "3", "4"]
    assert sorted(shell.lines("consume", "t", "--from-beginning", "--timeout", "0", "--with-keys")) == [
        "a\t1",
        "b\t2",
        "c\t3",
        "d\t4",
    ]


@pytest.mark.parametrize("most", [1, 2, 3, 700, 1000])
def test_no_more_come_than_wanted(shell: Shell, node: FakeNode, most: int) -> None:
    node.make_topic("t", 3)
    shell.run("produce", "t", typed="x\n" * 2_000)

    assert len(shell.lines("consume", "t", "--from-beginning", "--max", str(most))) == most


def test_a_partition_whose_file_cannot_be_read_is_named_once_and_the_others_are_read_on(
    shell: Shell, node: FakeNode
) -> None:
    node.make_topic("t", 3)
    shell.run("produce", "t", "--key-separator", ":", typed="".join(f"{n}:x\n" for n in range(600)))
    node.unreadable = {("t", 1): 0}
    sound = sum(len(log) for number, log in enumerate(node.records("t")) if number != 1)

    result = shell.run("consume", "t", "--from-beginning", "--timeout", "0.6", code=1)

    assert len(result.stdout.splitlines()) == sound > 0
    assert result.stderr == (
        "muster: t-1 at offset 0: KAFKA_STORAGE_ERROR: the daemon cannot read its file; its log says where\n"
    )


def test_what_comes_before_the_damage_is_printed(shell: Shell, node: FakeNode) -> None:
    node.make_topic("t", 1)
    shell.run("produce", "t", typed="a\nb\n")
    shell.run("produce", "t", typed="c\n")
    node.unreadable = {("t", 0): 2}

    result = shell.run("consume", "t", "--from-beginning", "--timeout", "0", code=1)

    assert result.stdout.splitlines() == ["a", "b"]
    assert result.stderr.startswith("muster: t-0 at offset 2: KAFKA_STORAGE_ERROR: ")


def test_a_flipped_bit_in_one_partition_does_not_hide_the_others(shell: Shell, node: FakeNode) -> None:
    node.make_topic("t", 2)
    shell.run("produce", "t", "--key-separator", ":", typed="".join(f"{n}:{n}\n" for n in range(50)))
    sound = len(node.records("t")[1])
    damaged = bytearray(node.topics["t"][0][0])
    damaged[-1] ^= 1
    node.topics["t"][0][0] = bytes(damaged)

    result = shell.run("consume", "t", "--from-beginning", "--timeout", "0.3", code=1)

    assert len(result.stdout.splitlines()) == sound > 0
    assert result.stderr.count("t-0 after offset 0") == 1


def test_without_from_beginning_what_is_old_stays_unseen(shell: Shell, node: FakeNode) -> None:
    node.make_topic("t", 1)
    shell.run("produce", "t", typed="old\n")

    assert shell.lines("consume", "t", "--timeout", "0") == []


def test_a_topic_is_altered_and_grown(shell: Shell, node: FakeNode) -> None:
    node.make_topic("t", 2)
    node.configs["t"] = {"cleanup.policy": "compact"}

    command = ("topics", "alter", "t", "--config", "retention.ms=60000", "--reset", "cleanup.policy")
    assert shell.lines(*command, "--partitions", "5") == ["Changed 2 settings of topic t.", "Topic t has 5 partitions."]

    assert (node.configs["t"], len(node.topics["t"])) == ({"retention.ms": "60000"}, 5)
    assert "it has as many already" in shell.complaint("topics", "alter", "t", "--partitions", "5", code=4)
    assert "there is no topic 'u'" in shell.complaint("topics", "alter", "u", "--reset", "a.b", code=3)
    assert "say what" in shell.complaint("topics", "alter", "t", code=2)


def test_scripts_get_an_object_a_line(shell: Shell, node: FakeNode) -> None:
    node.make_topic("t", 1)
    shell.run("produce", "t", "--key-separator", ":", typed=b"k:\xc3\xa9\nk:\xff\n")

    first, second = map(json.loads, shell.lines("consume", "t", "--from-beginning", "--max", "2", "--json"))

    assert first.pop("timestamp_ms") > 0
    assert first == {"topic": "t", "partition": 0, "offset": 0, "key": "k", "value": "é"}
    assert second["value"] == {"base64": "/w=="}


@pytest.mark.parametrize(
    "command",
    [
        ("topics", "list"),
        ("topics", "describe", "t"),
        ("topics", "create", "t"),
        ("topics", "delete", "t", "--yes"),
        ("produce", "t"),
        ("consume", "t"),
        ("consume", "t", "--group", "g"),
    ],
)
def test_beside_a_cluster_that_was_never_reached_nothing_is_said_of_topics(
    shell: Shell, node: FakeNode, command: tuple[str, ...]
) -> None:
    node.gauges = {"upstream_reachable": 0, "upstream_brokers": 0, "upstream_age_ms": 7}
    node.upstream_problem = "no broker of the cluster was reached yet: nobody listens at b:9092"
    assert shell.complaint(*command) == (
        "muster: musterd has not reached its Kafka cluster yet: nobody listens at b:9092\n"
    )


def test_topics_are_there_for_users_without_rights_on_the_cluster(shell: Shell, node: FakeNode) -> None:
    node.may_describe_cluster = False
    assert shell.lines("topics", "create", "t") == ["Made topic t with 1 partition."]
    assert shell.lines("topics", "list")[1].split() == ["t", "1"]
    assert shell.lines("produce", "t", typed="one\n") == ["Appended 1 record to t."]


def test_beside_a_cluster_that_is_away_what_was_heard_of_topics_is_told(shell: Shell, node: FakeNode) -> None:
    node.gauges = {"upstream_reachable": 0, "upstream_brokers": 3, "upstream_age_ms": 7}
    node.make_topic("t", 1)
    assert shell.lines("topics", "list")[1].split() == ["t", "1"]
