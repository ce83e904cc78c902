"""Keys of groups that the coordinator balances (docs/spec/consumer-group-protocol.md#15.1)."""

from collections.abc import Callable
from typing import Annotated

from coordinator.config.keys import (
    INT_MAX,
    AssignorNames,
    ConfigError,
    MigrationPolicy,
    RebalanceProtocols,
    about,
    whole,
)
from coordinator.config.security import SecurityConfig

_CONSUMER = "of a group that the coordinator balances (KIP-848)"


class ConsumerGroupConfig(SecurityConfig, frozen=True, kw_only=True):
    """Keys of consumer groups of `Config`."""

    group_coordinator_rebalance_protocols: Annotated[
        RebalanceProtocols,
        about(
            "Kinds of groups: classic, and consumer for groups whose partitions the coordinator assigns (KIP-848).",
            section="Groups that the coordinator balances",
        ),
    ] = RebalanceProtocols(("classic", "consumer"))
    group_consumer_session_timeout_ms: Annotated[
        int, whole(f"Silence after which a member {_CONSUMER} is removed; a group may have its own.", 1)
    ] = 45_000
    group_consumer_min_session_timeout_ms: Annotated[
        int, whole("Shortest session timeout that a group may have of its own.", 1)
    ] = 45_000
    group_consumer_max_session_timeout_ms: Annotated[
        int, whole("Longest session timeout that a group may have of its own.", 1)
    ] = 60_000
    group_consumer_heartbeat_interval_ms: Annotated[
        int, whole(f"Interval at which members {_CONSUMER} are told to send heartbeats; a group may have its own.", 1)
    ] = 5_000
    group_consumer_min_heartbeat_interval_ms: Annotated[
        int, whole("Shortest heartbeat interval that a group may have of its own.", 1)
    ] = 5_000
    group_consumer_max_heartbeat_interval_ms: Annotated[
        int, whole("Longest heartbeat interval that a group may have of its own.", 1)
    ] = 15_000
    group_consumer_assignment_interval_ms: Annotated[
        int, whole(f"Least time between two assignments {_CONSUMER}; a group may have its own.")
    ] = 1_000
    group_consumer_min_assignment_interval_ms: Annotated[
        int, whole("Shortest assignment interval that a group may have of its own.")
    ] = 0
    group_consumer_max_assignment_interval_ms: Annotated[
        int, whole("Longest assignment interval that a group may have of its own.")
    ] = 15_000
    group_consumer_max_size: Annotated[int, whole(f"Members {_CONSUMER}, at most.", 1)] = INT_MAX
    group_consumer_assignors: Annotated[
        AssignorNames, about("Server-side assignors that members may ask for; the first is the default.")
    ] = AssignorNames(("uniform", "range"))
    group_consumer_migration_policy: Annotated[
        MigrationPolicy,
        about(
            "Conversion of groups with members: upgrade when one joins by the consumer protocol, downgrade when the "
            "last such member goes, or bidirectional. Disabled: no group has members of both protocols."
        ),
    ] = MigrationPolicy.BIDIRECTIONAL
    group_consumer_regex_refresh_interval_ms: Annotated[
        int, whole("Interval at which patterns are matched with all topics again, whatever has changed.", 10_000)
    ] = 600_000


def check_consumer_groups(config: ConsumerGroupConfig, wrong: Callable[[str, str], ConfigError]) -> None:
    """Check the keys that depend on each other. `wrong` makes the error of a key, given the values allowed for it."""
    for name in ("session.timeout.ms", "heartbeat.interval.ms", "assignment.interval.ms"):
        field = name.replace(".", "_")
        value = getattr(config, f"group_consumer_{field}")
        lowest = getattr(config, f"group_consumer_min_{field}")
        highest = getattr(config, f"group_consumer_max_{field}")
        if highest < lowest:
            raise wrong(f"group.consumer.max.{name}", f"group.consumer.min.{name} ({lowest}) or more is allowed")
        if not lowest <= value <= highest:
            bounds = f"group.consumer.min.{name} ({lowest}) to group.consumer.max.{name} ({highest})"
            raise wrong(f"group.consumer.{name}", f"{bounds} is allowed")
    if config.group_consumer_heartbeat_interval_ms >= config.group_consumer_session_timeout_ms:
        timeout = config.group_consumer_session_timeout_ms
        allowed = f"less than group.consumer.session.timeout.ms ({timeout}) is allowed"
        raise wrong("group.consumer.heartbeat.interval.ms", allowed)
