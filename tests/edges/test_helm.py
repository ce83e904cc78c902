"""The Helm chart as helm renders it, with each of its values."""

import os
import re
import shutil
import subprocess
import textwrap
from pathlib import Path

import pytest
import yaml

from coordinator.config.keys import ConfigError
from tests.config.kubernetes import MANIFEST, Manifest
from tests.config.test_helm_chart import CHART, kinds

HELM = os.environ.get("TEST_HELM") or shutil.which("helm")
CLOSED = """\
sasl.enabled.mechanisms = "SCRAM-SHA-512"
tls.certificate.location = "/run/secrets/muster/tls.crt"
tls.key.location = "/run/secrets/muster/tls.key"
"""
Values = dict[str, object]

ALONE: Values = {}
BESIDE: Values = {"upstream": {"servers": "kafka-0:9092,kafka-1:9092", "listenerPorts": {"first": 9200, "count": 2}}}
PORTS: Values = {"ports": {"kafka": 19092, "native": 19390, "http": 19391}}
SECRETS: Values = {"secretName": "certificates", "environmentSecretName": "passwords", "config": CLOSED}
LOGINS: Values = {**SECRETS, "networkPolicy": {"enabled": False}, "probes": {"scheme": "HTTPS"}}
MONITORED: Values = {
    "networkPolicy": {"clientLabels": {"team": "billing", "muster-client": "yes"}, "monitoringNamespace": "prometheus"},
    "persistence": {"size": "20Gi", "storageClassName": "fast"},
    "image": {"repository": "registry.example/muster", "tag": "0.1.0", "pullPolicy": "Always"},
    "terminationGracePeriodSeconds": 90,
    "resources": {"requests": {"cpu": "1", "memory": "1Gi"}, "limits": {"memory": "2Gi"}},
}
OPENED: Values = {
    **BESIDE,
    **PORTS,
    "networkPolicy": {"enabled": False},
    "config": "open.to.network = true",
    "persistence": {"size": "1Gi"},
}
EACH = [ALONE, BESIDE, PORTS, SECRETS, LOGINS, MONITORED, OPENED]

pytestmark = pytest.mark.skipif(HELM is None, reason="helm is not installed (TEST_HELM names it)")


def helm(*arguments: str) -> str:
    assert HELM is not None
    done = subprocess.run([HELM, *arguments], capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def rendered(folder: Path, values: Values, name: str = "one", namespace: str = "shop") -> str:
    chosen = folder / "values.yaml"
    chosen.write_text(yaml.safe_dump(values))
    helm("lint", "--strict", str(CHART), "--values", str(chosen))
    return helm("template", name, str(CHART), "--namespace", namespace, "--values", str(chosen))


@pytest.mark.parametrize("values", EACH, ids=range(len(EACH)))
def test_helm_renders_what_musterd_serves(values: Values, tmp_path: Path) -> None:
    manifest = Manifest(rendered(tmp_path, values))

    manifest.check_names()
    manifest.check_config(manifest.config())


def test_the_chart_is_the_manifest_by_default(tmp_path: Path) -> None:
    assert kinds(rendered(tmp_path, ALONE, "muster")) == kinds(MANIFEST)


def test_without_its_policy_the_node_is_closed(tmp_path: Path) -> None:
    policy: Values = {"networkPolicy": {"enabled": False}}
    open_to_all, closed = (Manifest(rendered(tmp_path, values)) for values in (policy, LOGINS))

    assert "NetworkPolicy" not in open_to_all.objects
    with pytest.raises(ConfigError, match="--open-to-network"):
        open_to_all.config()
    assert closed.config().open_to_network is False
    assert {closed.container[f"{kind}Probe"]["httpGet"]["scheme"] for kind in ("startup", "readiness", "liveness")} == {
        "HTTPS"
    }


def test_each_value_is_where_kubernetes_looks_for_it(tmp_path: Path) -> None:
    manifest = Manifest(rendered(tmp_path, {**MONITORED, **SECRETS}))

    spec, container = manifest.pod["spec"], manifest.container
    assert container["image"] == "registry.example/muster:0.1.0"
    assert (container["imagePullPolicy"], spec["terminationGracePeriodSeconds"]) == ("Always", 90)
    assert container["resources"] == MONITORED["resources"]
    assert container["envFrom"] == [{"secretRef": {"name": "passwords"}}]
    assert {"name": "secrets", "secret": {"secretName": "certificates"}} in spec["volumes"]
    (claim,) = manifest["StatefulSet"]["spec"]["volumeClaimTemplates"]
    assert claim["spec"]["storageClassName"] == "fast"
    assert claim["spec"]["resources"]["requests"]["storage"] == "20Gi"
    clients, monitoring = manifest["NetworkPolicy"]["spec"]["ingress"]
    assert clients["from"] == [
        {"podSelector": {"matchLabels": {"team": "billing", "muster-client": "yes"}}},
    ]
    (namespace,) = monitoring["from"]
    assert namespace["namespaceSelector"]["matchLabels"] == {"kubernetes.io/metadata.name": "prometheus"}


def test_another_configuration_is_another_pod(tmp_path: Path) -> None:
    settings: list[Values] = [ALONE, {"config": "group.max.size = 10"}, ALONE]
    checksums = [
        Manifest(rendered(tmp_path, values)).pod["metadata"]["annotations"]["checksum/config"] for values in settings
    ]

    assert checksums[0] == checksums[2] != checksums[1]


def test_the_notes_name_the_addresses_that_clients_are_told(tmp_path: Path) -> None:
    copy = shutil.copytree(CHART, tmp_path / "muster")
    notes = copy / "templates" / "NOTES.txt"
    (copy / "templates" / "notes.yaml").write_text("kind: Notes\ntext: |\n" + textwrap.indent(notes.read_text(), "  "))
    told = Manifest(helm("template", "one", str(copy), "--namespace", "shop"))
    config, text = told.config(), told["Notes"]["text"]

    assert config.advertised_kafka is not None and config.advertised_native is not None
    wanted = (config.advertised_kafka, config.advertised_native)
    assert re.findall(r"(?:Kafka|Muster)'s +(\S+)", text) == [f"{one.host}:{one.port}" for one in wanted]
    assert 'of this namespace with the labels {"muster-client":"yes"}' in text
