"""Groups whose offsets do not expire."""

from protocol.messages.configs import (
    AlterableConfig,
    AlterConfigsResource,
    ConfigOperation,
    ConfigType,
    DescribeConfigs,
    DescribeConfigsResource,
    IncrementalAlterConfigs,
    ResourceType,
)
from protocol.messages.offsets import DescribeExpiry
from tests.node.operated import DiagnosisRig
from tests.node.test_apply_offsets import offsets
from tests.node.test_audit import STRANGER, commit

PINNED = "group.offsets.pinned"
MINUTE_MS = 60_000


def pin(rig: DiagnosisRig, operation: ConfigOperation, value: str | None = None, group_id: str = "g") -> None:
    change = AlterConfigsResource(ResourceType.GROUP, group_id, (AlterableConfig(PINNED, operation, value),))
    (reply,) = rig.ask(STRANGER, IncrementalAlterConfigs((change,)))
    assert not reply.responses[0].error_code, reply  # type: ignore[attr-defined]


def test_a_pinned_group_keeps_its_offsets_until_it_is_unpinned() -> None:
    rig = DiagnosisRig(offsets_retention_minutes=2, offsets_retention_check_interval_ms=MINUTE_MS)
    rig.connect(STRANGER)
    rig.ask(STRANGER, commit({0: 9}), commit({0: 1}, "other"))
    pin(rig, ConfigOperation.SET, "True")

    rig.run(10 * MINUTE_MS, MINUTE_MS)

    assert (offsets(rig), offsets(rig, "other")) == ({0: 9}, {})
    rig.ask(STRANGER, DescribeExpiry("g"))
    rig.wait(0)
    told = rig.ask_inside(DescribeExpiry("g"), call=8)
    assert told is not None
    assert told.group_kept_because == "the group is pinned (group.offsets.pinned)"  # type: ignore[attr-defined]
    wanted = DescribeConfigs((DescribeConfigsResource(ResourceType.GROUP, "g", (PINNED,)),))
    (described,) = rig.ask(STRANGER, wanted)
    (config,) = described.results[0].configs  # type: ignore[attr-defined]
    assert (config.value, config.config_type) == ("true", ConfigType.BOOLEAN)

    pin(rig, ConfigOperation.DELETE)
    rig.run(3 * MINUTE_MS, MINUTE_MS)
    assert offsets(rig) == {}
