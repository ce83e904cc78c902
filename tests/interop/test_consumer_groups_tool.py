"""Comparison of what two tools printed. No server and no tool runs here."""

from pathlib import Path

import pytest

from bench import builds
from interop.consumer_groups_tool import playing
from interop.consumer_groups_tool.invocations import ALL, FILE, OWN, Invocation
from interop.consumer_groups_tool.output import MEANT, Comparison, Said, reason_of
from interop.consumer_groups_tool.playing import Choice, judged

LIST = Invocation(("--list",))
TRACE = """\
Exception in thread "main" joptsimple.UnrecognizedOptionException: odd is not a recognized option
\tat joptsimple.OptionParser.parse(OptionParser.java:396)
Caused by: java.lang.IllegalStateException
\t... 2 more
"""


def compared(kafka: Said, muster: Said, invocation: Invocation = LIST) -> Comparison:
    return Comparison(invocation, kafka, muster)


def test_columns_are_compared_with_their_widths() -> None:
    found = compared(Said("a  b\n", "", 0), Said("a b\n", "", 0))
    assert found.differences == ["- a  b", "+ a b"]
    assert reason_of(found) == ""
    assert judged([found]) == ["muster-consumer-groups --list: - a  b"]


def test_the_order_counts_except_where_kafkas_is_that_of_a_hash() -> None:
    kafka, muster = Said("a\nb\n", "", 0), Said("b\na\n", "", 0)
    assert compared(kafka, muster).differences
    assert not compared(kafka, muster, Invocation(("--list",), is_ordered=False)).differences


def test_of_standard_error_the_sentences_are_compared() -> None:
    ours = Said("", "odd is not a recognized option\nusage: muster-consumer-groups [OPTIONS]\n  --list\n", 1)
    assert not compared(Said("", TRACE, 1), ours).differences
    choices = [f"takes one of these options: {one}\nOption   Description\n" for one in ("[a], [b]", "[b], [a]")]
    assert not compared(Said("", choices[0], 1), Said("", choices[1], 1)).differences
    logged = Said("", "[2026-01-02 03:04:05,678] WARN New offset (org.apache.kafka.tools.OffsetsUtils)\n", 0)
    assert not compared(logged, Said("", "WARN New offset\n", 0)).differences
    assert compared(logged, Said("", "", 0)).differences == ["- 2> WARN New offset"]


def test_what_a_tool_leaves_behind_is_compared() -> None:
    found = compared(Said("", "", 0, left="empty: t-0@3"), Said("", "", 0, left="empty: t-0@4"))
    assert found.differences == ["left: Kafka empty: t-0@3, Muster empty: t-0@4"]


def test_only_a_refusal_may_end_with_another_code() -> None:
    refused = compared(Said("\nError: no\n", "", 0), Said("\nError: no\n", "", 1))
    assert refused.is_same_but_for_the_code
    assert judged([refused]) == []
    done = compared(Said("done\n", "", 0), Said("done\n", "", 1))
    assert not done.is_same_but_for_the_code
    assert judged([done]) == ["muster-consumer-groups --list: exit code: Kafka 0, Muster 1"]


def test_what_is_meant_has_its_reason_and_is_about_something() -> None:
    assert all(reason for _, _, reason in MEANT)
    frozen = next(one for one in ALL if one.is_frozen)
    failed = "Error: Executing consumer group command failed due to "
    found = compared(Said(f"{failed}x\n", "", 0), Said(f"{failed}y\n", "", 1), frozen)
    assert reason_of(found) == "Java's client names its calls; a refusal ends with 1, so that a script notices it"
    assert reason_of(compared(found.kafka, found.muster)) == ""


def test_every_action_is_compared_and_what_changes_has_a_group_for_each_tool() -> None:
    texts = [one.text for one in ALL]
    assert len(set(texts)) == len(texts)
    for action in ("list", "describe", "delete", "delete-offsets", "reset-offsets", "validate-regex"):
        assert any(f"--{action}" in text for text in texts)
    assert all(OWN in one.words for one in ALL if FILE in one.words)
    assert Choice(("--to-latest",)).invocations() == [one for one in ALL if "--to-latest" in one.text]


def test_without_java_nothing_fails(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    def java() -> str:
        raise builds.NotHere("there is no `java` here")

    monkeypatch.setattr(builds, "java", java)
    assert playing.run(Choice(), tmp_path) == []
    assert "not here: there is no `java` here" in capsys.readouterr().out
