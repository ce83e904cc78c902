"""`python -m interop.franz_go`: franz-go's own group tests, TestGroupETL and TestGroupSimple with all variants, at
a fresh musterd (or `--server kafka`, `--server kfake`), three rounds; a variant that is left out counts as failed.

The tests themselves are built and run by `franz_go_suite.sh`.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Self

from bench import peers
from bench.builds import NotHere
from interop.processes import kill_group
from interop.server import Musterd

VARIANTS = (
    "TestGroupETL/range",
    "TestGroupETL/cooperative-sticky",
    "TestGroupETL/range/848",
    "TestGroupETL/sticky/848",
    "TestGroupETL/cooperative-sticky/static",
    "TestGroupETL/sticky/848/static",
    "TestGroupSimple/classic",
    "TestGroupSimple/848",
)
SERVERS = ("muster", "kafka", "kfake")
_SCRIPT = Path(__file__).with_name("franz_go_suite.sh")
_NOT_HERE = 77
_NO_GO = "there is no `go` here, and the tests are a Go program"
_LINE = re.compile(r"^ +--- (?P<how>PASS|FAIL|SKIP): (?P<name>\S+)", re.MULTILINE)


def main() -> int:
    given = _options()
    outcomes: dict[str, Mapping[str, Counter[str]]] = {}
    for server in given.server or ["muster"]:
        try:
            with _serving(server) as address:
                outcomes[server] = read(_run(address, given.rounds, given.records))
        except NotHere as reason:
            print(f"{server} is left out: {reason}")
    print(printed(outcomes, given.rounds))
    return 0 if outcomes and all(is_whole(one, given.rounds) for one in outcomes.values()) else 1


@contextmanager
def _serving(server: str) -> Iterator[str]:
    with tempfile.TemporaryDirectory(prefix="muster-franz-go-") as scratch:
        if server == "muster":
            ours = Musterd(Path(scratch), "group.coordinator.rebalance.protocols=classic,consumer")
            try:
                yield ours.bootstrap
            finally:
                ours.end()
            return
        start = {"kafka": peers.apache_kafka, "kfake": peers.kfake}[server]
        with start(Path(scratch), may_fetch=True) as peer:
            yield f"127.0.0.1:{peer.port}"


def _run(address: str, rounds: int, records: int) -> str:
    """Return what the script printed; it is shown as it comes. Raises NotHere."""
    environment = {**os.environ, "KGO_TEST_RECORDS": str(records)}
    command = ["sh", str(_SCRIPT), address, str(rounds)]
    said = []
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for line in process.stdout:
            print(line, end="", flush=True)
            said.append(line)
    if process.returncode == _NOT_HERE:
        raise NotHere(_NO_GO)
    return "".join(said)


class Suite:
    """Tests of franz-go's that run while something else happens."""

    def __init__(self, bootstrap: str, tests: str, records: int, *, copies: int, within_s: int = 600) -> None:
        """Start those that the regular expression `tests` names, once. Raises NotHere."""
        if shutil.which("go") is None:
            raise NotHere(_NO_GO)
        environment = {**os.environ, "KGO_TEST_RECORDS": str(records), "TESTS": tests, "COPIES": str(copies)}
        self._process = subprocess.Popen(
            ["sh", str(_SCRIPT), bootstrap, "1"],
            env={**environment, "WITHIN": f"{within_s}s"},
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        kill_group(self._process)

    @property
    def has_ended(self) -> bool:
        return self._process.poll() is not None

    def outcome(self) -> Mapping[str, Counter[str]]:
        """Wait for its end; how often each variant passed, failed and was skipped."""
        said, _ = self._process.communicate()
        print(said, end="", flush=True)
        return read(said, ())


def read(said: str, variants: Iterable[str] = VARIANTS) -> Mapping[str, Counter[str]]:
    """Count how often each variant passed, failed and was skipped. Pure."""
    found: dict[str, Counter[str]] = {name: Counter() for name in variants}
    for match in _LINE.finditer(said):
        found.setdefault(match["name"], Counter())[match["how"]] += 1
    return found


def is_whole(outcome: Mapping[str, Counter[str]], rounds: int) -> bool:
    """Return whether every variant passed in every round."""
    return all(count == Counter(PASS=rounds) for count in outcome.values())


def printed(outcomes: Mapping[str, Mapping[str, Counter[str]]], rounds: int) -> str:
    """A table: variants by server."""
    names = list(dict.fromkeys([name for one in outcomes.values() for name in one]))
    lines = [f"| variant, passed of {rounds} | {' | '.join(outcomes)} |", "|---" * (len(outcomes) + 1) + "|"]
    for name in names:
        cells = [_cell(one.get(name, Counter())) for one in outcomes.values()]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _cell(count: Counter[str]) -> str:
    rest = [f"{count[how]} {word}" for how, word in (("FAIL", "failed"), ("SKIP", "skipped")) if count[how]]
    return ", ".join([str(count["PASS"]), *rest])


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m interop.franz_go", description="franz-go's own group tests.")
    parser.add_argument("--rounds", type=int, default=3, metavar="N", help="3 if not given")
    parser.add_argument("--records", type=int, default=10_000, metavar="N", help="of TestGroupETL; 10000 if not given")
    parser.add_argument("--server", action="append", choices=SERVERS, help="may be given again; muster without any")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
