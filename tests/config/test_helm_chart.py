"""The Helm chart, as far as it can be read without helm; `tests/edges/test_helm.py` has helm render it."""

import re
from pathlib import Path

from coordinator.config.config import KEYS

CHART = Path(__file__).parents[2] / "deploy" / "helm" / "muster"
MANIFEST = CHART.parents[1] / "kubernetes" / "musterd.yaml"
TEMPLATES = sorted((CHART / "templates").iterdir())


def values() -> set[str]:
    """Paths of all values, as templates name them."""
    found: set[str] = set()
    above: list[tuple[int, str]] = []
    for line in (CHART / "values.yaml").read_text().splitlines():
        if not (named := re.match(r"( *)(\w+):(.*)", line)):
            continue
        depth, name, rest = len(named[1]), named[2], named[3]
        above = [*[one for one in above if one[0] < depth], (depth, name)]
        path = ".".join(one for _, one in above)
        found |= {path, *(f"{path}.{inner}" for inner in re.findall(r"[{,] ?(\w+):", rest))}
    return found


def kinds(text: str) -> list[str]:
    return sorted(re.findall(r"^kind: (\w+)$", text, re.MULTILINE))


def test_every_value_that_templates_use_has_a_default_and_every_default_is_used() -> None:
    used = {one for path in TEMPLATES for one in re.findall(r"\.Values\.([\w.]+\w)", path.read_text())}
    known = values()
    assert used <= known, used - known
    leaves = {one for one in known if not any(other.startswith(f"{one}.") for other in known)}
    assert {one for one in leaves if not any(one == name or one.startswith(f"{name}.") for name in used)} == set()


def test_templates_close_what_they_open() -> None:
    for path in TEMPLATES:
        text = path.read_text()
        opened = re.findall(r"{{-? ?(?:if|range|define|with)\b", text)
        assert len(opened) == len(re.findall(r"{{-? ?end\b", text)), path
        assert text.count("{{") == text.count("}}"), path


def test_the_chart_has_what_the_manifest_has() -> None:
    chart = "\n".join(path.read_text() for path in TEMPLATES)
    assert kinds(chart) == kinds(MANIFEST.read_text())
    for wanted in ("runAsNonRoot: true", "readOnlyRootFilesystem: true", "drop: [ALL]", "path: /readyz", "replicas: 1"):
        assert wanted in MANIFEST.read_text()
        assert wanted in chart, wanted


def test_the_keys_of_its_configuration_exist() -> None:
    text = (CHART / "templates" / "configmap.yaml").read_text()
    keys = set(re.findall(r'^    "?([a-z.]+)"? = ', text, re.MULTILINE))
    assert len(keys) >= 8
    assert {key for key in keys if not key.startswith("advertised.")} <= KEYS.keys()
