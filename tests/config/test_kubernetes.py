"""The manifest for Kubernetes, as far as it can be read without a cluster."""

import pytest

from coordinator.config.keys import ConfigError
from tests.config.kubernetes import MANIFEST, Manifest


def test_whatever_the_manifest_names_exists() -> None:
    Manifest(MANIFEST).check_names()


def test_the_node_of_the_manifest_listens_where_its_pod_says() -> None:
    manifest = Manifest(MANIFEST)
    manifest.check_config(manifest.config())


def test_only_what_the_manifest_says_opens_the_node() -> None:
    with pytest.raises(ConfigError, match="--open-to-network"):
        Manifest(MANIFEST.replace("    open.to.network = true\n", "")).config()


@pytest.mark.parametrize(
    ("was", "is_now"),
    [
        ("httpGet: {path: /readyz, port: http}", "httpGet: {path: /readyz, port: web}"),
        ("serviceName: muster", "serviceName: other"),
        ("{name: config, mountPath", "{name: settings, mountPath"),
        ("configMap: {name: muster}", "configMap: {name: other}"),
        ("- {name: native, port: 9390}", "- {name: native, port: 9399}"),
        ("- {port: native}\n", "- {port: nativ}\n"),
        ('prometheus.io/port: "9391"', 'prometheus.io/port: "9390"'),
    ],
)
def test_a_name_that_leads_nowhere_is_found(was: str, is_now: str) -> None:
    assert MANIFEST.count(was) == 1
    with pytest.raises((AssertionError, KeyError)):
        Manifest(MANIFEST.replace(was, is_now)).check_names()
