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


def test_a_topic_is_deleted_by_who_says_yes(shell: Shell, node: FakeNode) -> None:
    node.make_topic("flights", 8)
    shell.run("topics", "delete", "flights", typed="n\n", code=1)
    assert "flights" in node.topics
    shell.run("topics", "delete", "flights", typed="y\n")
    assert "flights" not in node.topics
    assert shell.complaint("topics", "delete", "flights", "--yes") == "muster: there is no topic 'flights'\n"
    node.make_topic("flights", 8)
    assert shell.lines("topics", "delete", "flights", "-y") == ["Deleted topic flights."]


def test_a_topic_is_made_for_scripts(shell: Shell) -> None:
    assert shell.json("topics", "create", "t") == {"name": "t", "partitions": 1, "topic_id": "07" * 16}


def test_a_refused_topic_is_one_sentence_and_exit_1(shell: Shell, node: FakeNode) -> None:
    node.make_topic("t", 1)

    assert shell.complaint("topics", "create", "t") == "muster: there is a topic 't' already\n"
    assert shell.complaint("topics", "create", "u", "--partitions", "0") == (
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
    assert "there is no topic 'nowhere'" in shell.complaint(command, "nowhere", typed="x\n")


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


def test_without_from_beginning_what_is_old_stays_unseen(shell: Shell, node: FakeNode) -> None:
    node.make_topic("t", 1)
    shell.run("produce", "t", typed="old\n")

    assert shell.lines("consume", "t", "--timeout", "0") == []


def test_scripts_get_an_object_a_line(shell: Shell, node: FakeNode) -> None:
    node.make_topic("t", 1)
    shell.run("produce", "t", "--key-separator", ":", typed=b"k:\xc3\xa9\nk:\xff\n")

    first, second = map(json.loads, shell.lines("consume", "t", "--from-beginning", "--max", "2", "--json"))

    assert first.pop("timestamp_ms") > 0
    assert first == {"topic": "t", "partition": 0, "offset": 0, "key": "k", "value": "é"}
    assert second["value"] == {"base64": "/w=="}
