"""The Kafka comparison against a real daemon alone: the generator that checks every answer finds nothing to say."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bench import builds, kafka, peers
from bench.builds import NotHere
from bench.report import Options

FEW = [test for test in kafka.REQUESTS if test.connections < 500]


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[kafka.Bench]:
    try:
        generator = builds.groupload()
    except NotHere as reason:
        pytest.skip(str(reason))
    with peers.musterd(tmp_path_factory.mktemp("bench")) as server:
        yield kafka.Bench(generator, [server], Options(rounds=1, seconds=0.1))


def loaded(bench: kafka.Bench, test: kafka.Test, seconds: float) -> dict[str, Any]:
    timing = ("--seconds", str(seconds), "--warmup", "0.05")
    return bench.ask(bench.servers[0], test.scenario, "--conns", str(test.connections), *timing, *test.arguments)


@pytest.mark.parametrize(
    "test", [test for test in kafka.REQUESTS if test.connections < 500], ids=lambda test: test.name
)
def test_every_answer_to_a_load_is_what_it_must_be(bench: kafka.Bench, test: kafka.Test) -> None:
    answer = loaded(bench, test, 0.1)
    if not (answer["requests"] and answer["server_us_per_req"]):  # a moment of a busy machine: no tick of its clock
        answer = loaded(bench, test, 2.0)
    assert answer["requests"] > 0
    assert answer["errors"] == 0
    assert answer["server_us_per_req"] > 0


def test_a_member_is_added_and_leaves_and_all_have_their_assignments(bench: kafka.Bench) -> None:
    answer = bench.ask(bench.servers[0], "rebalance", "--members", "10", "--skip-kill")
    assert answer["add"]["members"] == 11
    assert answer["leave"]["members"] == 10
    assert answer["wrong_assignments"] == 0


def test_a_refusal_is_a_failure_and_says_which(bench: kafka.Bench) -> None:
    with pytest.raises(kafka.Failed, match=r"musterd, produce: Produce was refused with error 3"):
        bench.ask(bench.servers[0], "produce", "--topic", "nowhere", "--partitions", "1")


def test_a_server_that_is_not_here_is_left_out_with_a_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    with pytest.raises(NotHere, match="python -m bench kafka"):
        builds.kfake(may_fetch=False)
