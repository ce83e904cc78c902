"""The shape of the tree: sizes of classes and packages, tests of modules, no word of the machine it was written on."""

import re
from collections import Counter
from collections.abc import Iterator
from itertools import chain
from pathlib import Path

import pytest

from tests.architecture.tree import BESIDE, PACKAGES, ROOT, module_of, outline, sources

pytestmark = pytest.mark.xdist_group("outlines")
CLASS_LINES = 300
MODULES = 20
ONE_FILE_AN_API = {"coordinator/handlers", "protocol/kafka/schemas"}
LARGER = {
    "coordinator/gateway/session/session.py: ProxySession": 333,
    "coordinator/topics/embedded.py: EmbeddedTopics": 320,
    "muster/core/fetching/fetcher.py: Fetcher": 340,
    "muster/core/producing/core.py: Producing": 324,
    "muster/streams/connector.py: StreamsConnector": 302,
    "partition_log/store/log_store.py: LogStore": 340,
}
"""Classes that were larger before the rule; they may shrink, and leave this list."""
TESTED = ("coordinator", "partition_log", "protocol", "purgatory")
MACHINE = re.compile(r"(?:^|[^A-Za-z0-9_.-])/(?:work|farm|root|home|Users)/")
REGISTRY = re.compile(
    "index" + "-url|python" + "hosted|//pypi" + r"\.|registry\.npm" + r"js|repo1?\.maven|crates\.io/|/simple" + "/"
)
TEXTS = {".cfg", ".css", ".html", ".js", ".md", ".py", ".service", ".sh", ".toml", ".txt", ".yaml", ".yml"}


@pytest.mark.parametrize("package", PACKAGES)
def test_no_class_eats_the_others(package: str) -> None:
    long = {
        f"{path.relative_to(ROOT)}: {node.name}": lines
        for path in sources(package)
        for node in outline(path).classes
        if (lines := (node.end_lineno or 0) - node.lineno + 1) > CLASS_LINES
    }
    long = {name: lines for name, lines in long.items() if lines > LARGER.get(name, 0)}
    assert not long, f"above {CLASS_LINES} lines: split by the things these classes do"


@pytest.mark.parametrize("package", PACKAGES)
def test_no_package_is_a_heap(package: str) -> None:
    counts = Counter(path.parent for path in sources(package) if path.name != "__init__.py")
    large = {str(at.relative_to(ROOT)): count for at, count in counts.items() if count > MODULES}
    assert large.keys() <= ONE_FILE_AN_API, f"above {MODULES} modules: what belongs together makes a package"


def test_every_module_of_the_service_is_named_by_a_test_or_is_a_part_of_one_that_is() -> None:
    named = set(chain.from_iterable(outline(path).imports for path in sources("tests")))
    named.update(
        outline(ROOT / "protocol" / "apis.py").imports
    )  # its table is what wire tests go by, version by version
    named.update(outline(ROOT / "coordinator" / "handlers" / "table.py").imports)  # tests ask by messages
    modules = {module_of(path): path for path in sources(*TESTED) if path.name not in ("__init__.py", "__main__.py")}
    parts = {
        part
        for module in named & modules.keys()
        for part in outline(modules[module]).imports
        if part.rpartition(".")[0] in (module.rpartition(".")[0], "coordinator.facts")  # what handlers answer
    }
    assert not sorted(modules.keys() - named - parts), "no test imports these, nor a tested module beside them"


def test_nothing_names_a_machine_or_a_registry() -> None:
    found = [
        f"{path.relative_to(ROOT)}:{number}: {line.strip()}"
        for path in _texts()
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if MACHINE.search(line) or REGISTRY.search(line)
    ]
    assert not found


def _texts() -> Iterator[Path]:
    here = (path for path in ROOT.iterdir() if path.is_file())
    below = chain.from_iterable((ROOT / folder).rglob("*") for folder in (*PACKAGES, *BESIDE, ".ci"))
    for path in sorted(chain(here, below)):
        if path.is_file() and (path.suffix in TEXTS or path.name in ("Makefile", "Dockerfile", "run")):
            yield path


def test_the_patterns_find_what_they_are_for() -> None:
    assert MACHINE.search("open('/" + "home/me/x')")
    assert not MACHINE.search("/var/lib/muster and ../work/x")
    assert REGISTRY.search("pip --" + "index" + "-url x")
