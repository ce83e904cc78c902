"""Keys of groups that the coordinator balances (docs/spec/consumer-group-protocol.md#15.1)."""

import pytest

from coordinator.config.config import Config, ConfigError, load_config
from coordinator.config.keys import AssignorNames, MigrationPolicy, RebalanceProtocols


def load(*settings: str) -> Config:
    arguments = [part for setting in settings for part in ("--set", setting)]
    return load_config(arguments, {}, lambda path: b"")


def test_the_defaults_are_kafkas() -> None:
    config = load()
    assert config.group_consumer_session_timeout_ms == 45_000
    assert (config.group_consumer_min_session_timeout_ms, config.group_consumer_max_session_timeout_ms) == (
        45_000,
        60_000,
    )
    assert config.group_consumer_heartbeat_interval_ms == 5_000
    assert config.group_consumer_assignment_interval_ms == 1_000
    assert config.group_consumer_max_size == 2**31 - 1
    assert config.group_consumer_assignors == AssignorNames(("uniform", "range"))
    assert config.group_consumer_migration_policy is MigrationPolicy.BIDIRECTIONAL
    assert load("group.consumer.migration.policy=Upgrade").group_consumer_migration_policy is MigrationPolicy.UPGRADE
    assert config.group_coordinator_rebalance_protocols == RebalanceProtocols(("classic", "consumer"))


def test_lists_keep_their_order() -> None:
    config = load("group.consumer.assignors=range,uniform")
    assert config.group_consumer_assignors.all == ("range", "uniform")
    assert load("group.coordinator.rebalance.protocols=classic").group_coordinator_rebalance_protocols.all == (
        "classic",
    )


@pytest.mark.parametrize(
    ("setting", "reason"),
    [
        ("group.consumer.assignors=sticky", "some of uniform,range is allowed"),
        ("group.coordinator.rebalance.protocols=consumer", "some of classic,consumer"),
        ("group.coordinator.rebalance.protocols=classic,share", "some of classic,consumer"),
        ("group.consumer.session.timeout.ms=44999", r"group\.consumer\.min\.session\.timeout\.ms \(45000\) to"),
        ("group.consumer.heartbeat.interval.ms=15001", r"max\.heartbeat\.interval\.ms \(15000\)"),
        ("group.consumer.assignment.interval.ms=15001", r"max\.assignment\.interval\.ms \(15000\)"),
        (
            "group.consumer.max.session.timeout.ms=44999",
            r"min\.session\.timeout\.ms \(45000\) or more",
        ),
        ("group.consumer.regex.refresh.interval.ms=9999", "a whole number from 10000"),
        ("group.consumer.max.size=0", "a whole number from 1"),
    ],
)
def test_a_wrong_value_is_refused_with_what_is_allowed(setting: str, reason: str) -> None:
    with pytest.raises(ConfigError, match=reason):
        load(setting)


def test_the_heartbeat_interval_is_less_than_the_session_timeout() -> None:
    with pytest.raises(ConfigError, match=r"less than group\.consumer\.session\.timeout\.ms \(45000\) is allowed"):
        load("group.consumer.max.heartbeat.interval.ms=60000", "group.consumer.heartbeat.interval.ms=45000")
