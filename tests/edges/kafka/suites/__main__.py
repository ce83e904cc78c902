"""Other clients' own integration tests against a musterd or any server: what passes, and why the rest cannot.

    pip download --no-binary :all: --no-deps kafka-python==3.0.12     (unpack it)
    git clone --branch v0.14.0 https://github.com/aio-libs/aiokafka
    python -m tests.edges.kafka.suites --kafka-python kafka_python-3.0.12 --aiokafka aiokafka

Without `--bootstrap` it starts a musterd as these suites configure their broker. Many of their tests sleep for moments
and look, which a busy machine spoils: what failed is run once more, against a new musterd, before it counts. It ends
with 1 if a test fails that is not explained here.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from xml.etree import ElementTree as ET

import msgspec

from tests.edges.kafka.suites.explained import EXPLAINED
from tests.edges.musterd import running

BROKER = (
    "node.id=0",
    "num.partitions=2",
    "group.initial.rebalance.delay.ms=0",
    "group.min.session.timeout.ms=1000",
)
LONGEST_TEST_S = 60
LONGEST_SUITE_S = 900
# Their sdist leaves out the module that starts brokers; of it, only this is used here.
KAFKA_PYTHON_SERVICE = """
class ExternalService:
    def __init__(self, host, port):
        self.host, self.port = host, port
    def open(self): pass
    def close(self): pass
    def dump_logs(self): pass
class SpawnedService:
    pass
"""


class Suite(msgspec.Struct, frozen=True):
    name: str
    folder: str
    """Folder of the tests in the project's source distribution."""
    files: tuple[str, ...]
    options: tuple[str, ...] = ()


class Ran(msgspec.Struct, frozen=True):
    test: str
    outcome: str
    """passed, failed or skipped."""
    why: str


KAFKA_PYTHON = Suite(
    "kafka-python",
    "test",
    tuple(f"integration/test_{part}_integration.py" for part in ("consumer", "admin", "producer")),
    ("-o", "addopts=", "-o", "log_level=WARNING"),
)
AIOKAFKA = Suite(
    "aiokafka",
    "tests",
    tuple(f"test_{part}.py" for part in ("coordinator", "consumer", "admin", "pep492", "client", "producer")),
    ("-m", "not ssl", "-o", "asyncio_mode=auto"),
)


def prepare(suite: Suite, source: Path, work: Path) -> None:
    """A copy of their tests that takes the server it is given."""
    target = work / suite.folder
    shutil.copytree(source / suite.folder, target)
    (target / "__init__.py").touch()
    (work / "pytest.ini").write_text("[pytest]\n")
    if suite is AIOKAFKA:
        shutil.copy(Path(__file__).with_name("aiokafka_conftest.py"), target / "conftest.py")
    elif not (target / "service.py").exists():
        (target / "service.py").write_text(KAFKA_PYTHON_SERVICE)


def run(suite: Suite, source: Path, bootstrap: str, only: Sequence[str] = ()) -> list[Ran]:
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        prepare(suite, source, work)
        environment = {
            **os.environ,
            "PYTHONPATH": folder,
            "FOREIGN_BOOTSTRAP": bootstrap,
            "KAFKA_URI": f"kafka://{bootstrap}",
            "KAFKA_VERSION": "4.3.1",
            "KAFKA_ROOT": folder,  # has to be there; nothing in it is used
        }
        command = [sys.executable, "-m", "pytest", "-q", "-W", "ignore", "-p", "no:cacheprovider", "--tb=short"]
        command += ["--show-capture=no", f"--timeout={LONGEST_TEST_S}", "--junitxml=report.xml", *suite.options]
        command += [f"{suite.folder}/{file}" for file in suite.files]
        if only:
            command += ["-k", " or ".join(only)]
        done = subprocess.run(
            command, cwd=work, env=environment, timeout=LONGEST_SUITE_S, check=False, stdout=subprocess.PIPE, text=True
        )
        report = work / "report.xml"
        if not report.exists():
            raise SystemExit(done.stdout)
        return list(read_report(report))


def read_report(report: Path) -> Iterator[Ran]:
    for case in ET.parse(report).getroot().iter("testcase"):
        outcome, why = "passed", ""
        for told in case:
            if told.tag in {"failure", "error", "skipped"}:
                outcome = "skipped" if told.tag == "skipped" else "failed"
                why = (told.get("message") or "").splitlines()[0][:160]
        yield Ran(case.get("name") or "?", outcome, why)


def run_patiently(suite: Suite, source: Path, bootstrap: str | None) -> list[Ran]:
    """Run the suite, and once more the tests that failed without an explanation."""
    with server(bootstrap) as first:
        ran = run(suite, source, first)
    failed = [each.test for each in ran if each.outcome == "failed" and (suite.name, each.test) not in EXPLAINED]
    if not failed:
        return ran
    with server(bootstrap) as second:
        again = {each.test: each for each in run(suite, source, second, failed)}
    return [again.get(each.test, each) if each.test in failed else each for each in ran]


def show(suite: Suite, ran: list[Ran]) -> int:
    """Prints the table; how many failed for no known reason."""
    unexplained = 0
    for each in ran:
        reason = each.why
        outcome = each.outcome
        if outcome == "failed":
            known = EXPLAINED.get((suite.name, each.test))
            unexplained += known is None
            outcome, reason = ("FAILED", reason) if known is None else ("cannot", known)
        print(f"{suite.name:13} {outcome:8} {each.test:70} {reason}".rstrip())
    passed = sum(each.outcome == "passed" for each in ran)
    print(f"{suite.name}: {passed} of {len(ran)} passed, {unexplained} failed without explanation\n", flush=True)
    return unexplained


@contextmanager
def server(bootstrap: str | None) -> Iterator[str]:
    if bootstrap is not None:
        yield bootstrap
        return
    with (
        tempfile.TemporaryDirectory() as folder,
        running(Path(folder) / "data", *BROKER, with_kafka=True) as daemon,
    ):
        yield f"127.0.0.1:{daemon.kafka_port}"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.edges.kafka.suites")
    parser.add_argument("--bootstrap", metavar="HOST:PORT", help="a server that runs already")
    parser.add_argument("--kafka-python", type=Path, metavar="FOLDER", help="its sdist, unpacked")
    parser.add_argument("--aiokafka", type=Path, metavar="FOLDER", help="its repository, checked out")
    given = parser.parse_args()
    sources = [(KAFKA_PYTHON, given.kafka_python), (AIOKAFKA, given.aiokafka)]
    wanted = [(suite, source) for suite, source in sources if source is not None]
    if not wanted:
        parser.error("name a suite's folder")
    unexplained = sum(show(suite, run_patiently(suite, source, given.bootstrap)) for suite, source in wanted)
    return int(unexplained > 0)


if __name__ == "__main__":
    sys.exit(main())
