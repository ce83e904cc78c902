"""The tests of our own client over Kafka's protocol, `tests/edges/client_kafka`, against a server that runs."""

import os
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import msgspec

from interop.processes import Failed, tail

TESTS = "tests/edges/client_kafka"
_ROOT = Path(__file__).parents[2]
_SUITE_S = 900.0


class Case(msgspec.Struct, frozen=True):
    """One test. `why` it was skipped, or what failed."""

    name: str
    why: str


class Suite(msgspec.Struct, frozen=True):
    """Results of all tests."""

    passed: int
    skipped: tuple[Case, ...] = ()
    failed: tuple[Case, ...] = ()
    seconds: float = 0.0


def run(bootstrap: str | None, logs: Path) -> Suite:
    """At HOST:PORT, or at a musterd that the tests start themselves. Raises Failed if they could not be run at all."""
    logs.mkdir(parents=True, exist_ok=True)
    report, log = logs / "report.xml", logs / "pytest.log"
    environment = {key: value for key, value in os.environ.items() if key != "TEST_CLIENT_BOOTSTRAP"}
    environment["TEST_CLIENT_WHOLE"] = "1"
    if bootstrap is not None:
        environment["TEST_CLIENT_BOOTSTRAP"] = f"kafka://{bootstrap}"
    command = [sys.executable, "-m", "pytest", TESTS, "-q", "-p", "no:cacheprovider", f"--junitxml={report}"]
    with log.open("wb") as out:
        try:
            subprocess.run(command, cwd=_ROOT, env=environment, stdout=out, stderr=out, timeout=_SUITE_S, check=False)
        except subprocess.TimeoutExpired:
            raise Failed(f"{TESTS} did not end within {_SUITE_S:.0f} s; {tail(log)}") from None
    if not report.exists():
        raise Failed(f"{TESTS} could not be run; {tail(log)}")
    return read(report.read_bytes())


def read(report: bytes) -> Suite:
    """Read a JUnit report. Pure."""
    skipped: list[Case] = []
    failed: list[Case] = []
    passed, seconds = 0, 0.0
    for case in ET.fromstring(report).iter("testcase"):
        seconds += float(case.get("time", "0"))
        name = case.get("name", "").removeprefix("test_").replace("_", " ")
        if (skip := case.find("skipped")) is not None:
            skipped.append(Case(name, skip.get("message", "")))
        elif (wrong := _wrong(case)) is not None:
            failed.append(Case(name, wrong.get("message", "")))
        else:
            passed += 1
    return Suite(passed, tuple(skipped), tuple(failed), seconds)


def _wrong(case: ET.Element) -> ET.Element | None:
    """A test that failed, or that could not be set up."""
    found = case.find("failure")
    return case.find("error") if found is None else found
