"""Settings of single consumer groups (docs/spec/consumer-group-protocol.md#15.2)."""

import pytest

from coordinator.groups.consumer.state import ConsumerGroupSettings
from coordinator.runtime.consumer_group_configs import CONSUMER_SETTINGS
from protocol.errors import ErrorCode
from protocol.messages.configs import AlterableConfig, ConfigOperation, ConfigSource, ConfigType, ResourceType
from tests.node.node_rig import NodeRig
from tests.topics.test_requests import altered, described, restarted

SET, DELETE = ConfigOperation.SET, ConfigOperation.DELETE
SESSION, HEARTBEAT = "consumer.session.timeout.ms", "consumer.heartbeat.interval.ms"
ASSIGNMENT = "consumer.assignment.interval.ms"


def change(rig: NodeRig, *changes: tuple[str, int, str | None], group_id: str = "g") -> tuple[ErrorCode, str | None]:
    error, message, *_ = altered(rig, ResourceType.GROUP, group_id, *[AlterableConfig(*one) for one in changes])
    return error, message


def settings(rig: NodeRig, group_id: str = "g") -> ConsumerGroupSettings:
    return rig.node.core.group_configs.consumer_settings(group_id)


def test_a_group_follows_the_node_until_it_is_told_otherwise_and_again_after() -> None:
    rig = NodeRig(group_consumer_session_timeout_ms=50_000)
    assert settings(rig).session_timeout_ms == 50_000
    assert change(rig, (SESSION, SET, "55000"))[0] is ErrorCode.NONE
    assert settings(rig).session_timeout_ms == 55_000
    assert settings(rig, "another").session_timeout_ms == 50_000
    (config,) = described(rig, ResourceType.GROUP, "g", SESSION, more=True).configs
    assert (config.value, config.config_source, config.config_type) == ("55000", ConfigSource.GROUP, ConfigType.INT)
    assert [(one.name, one.value, one.source) for one in config.synonyms] == [
        (SESSION, "55000", ConfigSource.GROUP),
        (f"group.{SESSION}", "50000", ConfigSource.STATIC_BROKER),
        (f"group.{SESSION}", "45000", ConfigSource.DEFAULT),
    ]
    assert change(rig, (SESSION, DELETE, None))[0] is ErrorCode.NONE
    assert settings(rig).session_timeout_ms == 50_000


def test_settings_outlive_a_crash() -> None:
    rig = NodeRig()
    assert change(rig, (SESSION, SET, "60000"), (HEARTBEAT, SET, "15000"), (ASSIGNMENT, SET, "0"))[0] is ErrorCode.NONE
    wanted = ConsumerGroupSettings(session_timeout_ms=60_000, heartbeat_interval_ms=15_000, assignment_interval_ms=0)
    assert settings(rig) == wanted
    rig = restarted(rig)
    assert settings(rig) == wanted
    assert settings(rig, "another") == ConsumerGroupSettings()


@pytest.mark.parametrize(
    ("name", "value", "bounds"),
    [
        (SESSION, "44999", "(45000) to group.consumer.max.session.timeout.ms (60000)"),
        (SESSION, "60001", "(45000) to group.consumer.max.session.timeout.ms (60000)"),
        (HEARTBEAT, "4999", "(5000) to group.consumer.max.heartbeat.interval.ms (15000)"),
        (HEARTBEAT, "15001", "(5000) to group.consumer.max.heartbeat.interval.ms (15000)"),
        (ASSIGNMENT, "15001", "(0) to group.consumer.max.assignment.interval.ms (15000)"),
        (ASSIGNMENT, "-1", "a whole number from 0"),
        (SESSION, "soon", "a whole number from 1"),
        ("consumer.nosuch.ms", "1", "consumer.nosuch.ms"),
    ],
)
def test_a_value_out_of_the_nodes_bounds_is_refused_with_the_bounds(name: str, value: str, bounds: str) -> None:
    rig = NodeRig()
    others = [(other, SET, allowed) for other, allowed in ((ASSIGNMENT, "5"), (SESSION, "50000")) if other != name]
    error, message = change(rig, *others, (name, SET, value))
    assert error is ErrorCode.INVALID_CONFIG
    assert message is not None
    assert bounds in message
    assert settings(rig) == ConsumerGroupSettings(), "all of the changes or none"


def test_bounds_themselves_are_allowed() -> None:
    rig = NodeRig()
    for value in ("45000", "60000"):
        assert change(rig, (SESSION, SET, value))[0] is ErrorCode.NONE
    for value in ("5000", "15000"):
        assert change(rig, (HEARTBEAT, SET, value))[0] is ErrorCode.NONE
    for value in ("0", "15000"):
        assert change(rig, (ASSIGNMENT, SET, value))[0] is ErrorCode.NONE


def test_the_session_timeout_is_longer_than_the_heartbeat_interval_with_what_the_node_has() -> None:
    rig = NodeRig(group_consumer_min_session_timeout_ms=6_000, group_consumer_max_heartbeat_interval_ms=60_000)
    error, message = change(rig, (HEARTBEAT, SET, "45000"))
    assert error is ErrorCode.INVALID_CONFIG
    assert message == "consumer.session.timeout.ms would be 45000, consumer.heartbeat.interval.ms not less: 45000"
    assert change(rig, (HEARTBEAT, SET, "44999"))[0] is ErrorCode.NONE
    assert change(rig, (SESSION, SET, "44999"))[0] is ErrorCode.INVALID_CONFIG
    assert change(rig, (SESSION, SET, "6001"), (HEARTBEAT, SET, "6000"))[0] is ErrorCode.NONE


def test_what_a_group_cannot_have_itself_is_the_nodes() -> None:
    rig = NodeRig(
        group_consumer_max_size=7,
        group_consumer_regex_refresh_interval_ms=10_000,
    )
    assert settings(rig) == ConsumerGroupSettings(max_size=7, regex_refresh_interval_ms=10_000)
    assert change(rig, ("group.consumer.max.size", SET, "5"))[0] is ErrorCode.INVALID_CONFIG


def test_the_nodes_keys_are_described_with_their_types() -> None:
    rig = NodeRig()
    name = str(rig.node.core.placement.node_id)
    told = {config.name: config for config in described(rig, ResourceType.BROKER, name, more=True).configs}
    assert told["group.consumer.assignors"].value == "uniform,range"
    assert told["group.consumer.assignors"].config_type == ConfigType.LIST
    assert told["group.coordinator.rebalance.protocols"].value == "classic,consumer"
    for key in CONSUMER_SETTINGS:
        assert told[f"group.{key}"].config_type == ConfigType.INT
    assert "group.consumer.regex.refresh.interval.ms" not in told
