"""Names in a Kubernetes manifest that lead nowhere: a cluster reports some of them late, others never."""

from pathlib import Path
from typing import Any

import yaml

from coordinator.config.config import Config, load_config

DEPLOY = Path(__file__).parents[2] / "deploy"
MANIFEST = (DEPLOY / "kubernetes" / "musterd.yaml").read_text()


class Manifest:
    """The objects of a manifest, by kind; there is one of each."""

    def __init__(self, text: str) -> None:
        documents = [one for one in yaml.safe_load_all(text) if one is not None]
        self.objects: dict[str, dict[str, Any]] = {one["kind"]: one for one in documents}
        assert len(self.objects) == len(documents)

    def __getitem__(self, kind: str) -> dict[str, Any]:
        return self.objects[kind]

    @property
    def pod(self) -> dict[str, Any]:
        found: dict[str, Any] = self["StatefulSet"]["spec"]["template"]
        return found

    @property
    def container(self) -> dict[str, Any]:
        (found,) = self.pod["spec"]["containers"]
        assert isinstance(found, dict)
        return found

    @property
    def ports(self) -> dict[str, int]:
        """Ports of the container by name."""
        return {one["name"]: one["containerPort"] for one in self.container["ports"]}

    def config(self, arguments: tuple[str, ...] = ()) -> Config:
        """Return the configuration with which the pod starts. Raises ConfigError, as the pod would."""
        text: str = self["ConfigMap"]["data"]["musterd.toml"]
        command = [*self.container["args"], *arguments]
        environment = {one["name"]: one["value"] for one in self.container.get("env", ())}
        return load_config(command, environment, {"/etc/muster/musterd.toml": text.encode()}.__getitem__)

    def check_names(self) -> None:
        """Check that whatever is named exists."""
        service, whole, pod = self["Service"], self["StatefulSet"], self.pod
        name, ports, container = whole["metadata"]["name"], self.ports, self.container
        assert whole["spec"]["serviceName"] == service["metadata"]["name"]
        labels = pod["metadata"]["labels"].items()
        assert whole["spec"]["selector"]["matchLabels"].items() <= labels
        assert service["spec"]["selector"].items() <= labels
        assert {one["name"]: one["port"] for one in service["spec"]["ports"]} == ports
        assert len(set(ports.values())) == len(ports)
        assert all(len(one) <= 15 for one in ports), "Kubernetes takes no longer names of ports"
        probes = [container[f"{kind}Probe"]["httpGet"] for kind in ("startup", "readiness", "liveness")]
        assert [one["path"] for one in probes] == ["/healthz", "/readyz", "/healthz"]
        assert {one["port"] for one in probes} <= ports.keys()
        volumes = [one["name"] for one in pod["spec"]["volumes"]]
        claims = [one["metadata"]["name"] for one in whole["spec"]["volumeClaimTemplates"]]
        assert sorted(one["name"] for one in container["volumeMounts"]) == sorted([*volumes, *claims])
        (config,) = [one for one in pod["spec"]["volumes"] if one["name"] == "config"]
        assert config["configMap"]["name"] == self["ConfigMap"]["metadata"]["name"]
        if (policy := self.objects.get("NetworkPolicy")) is not None:
            assert policy["spec"]["podSelector"]["matchLabels"].items() <= labels
            admitted = {port["port"] for rule in policy["spec"]["ingress"] for port in rule["ports"]}
            assert admitted == ports.keys()
        annotations = pod["metadata"]["annotations"]
        assert annotations["prometheus.io/port"] == str(ports["http"])
        assert whole["spec"]["replicas"] == 1
        assert name == service["metadata"]["name"]

    def check_config(self, config: Config) -> None:
        """Check that the daemon listens where the pod says, and that clients are told a name that leads there."""
        listening = {"kafka": config.kafka, "native": config.native, "http": config.http}
        assert {kind: address.port for kind, address in listening.items() if address} == {
            kind: self.ports[kind] for kind in listening
        }
        name = self["StatefulSet"]["metadata"]["name"]
        for told in (config.advertised_kafka, config.advertised_native):
            assert told is not None
            assert told.host == f"{name}-0.{name}" or told.host.startswith(f"{name}-0.{name}.")
        assert config.advertised_kafka is not None and config.advertised_kafka.port == self.ports["kafka"]
        assert config.advertised_native is not None and config.advertised_native.port == self.ports["native"]
        brokers = sorted(port for one, port in self.ports.items() if one.startswith("broker-"))
        if config.upstream_servers is None:
            assert brokers == []
        else:
            listeners = config.upstream_listener_ports
            assert brokers == list(range(listeners.first, listeners.last + 1))
