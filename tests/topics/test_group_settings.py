"""Settings of single groups: told, changed, kept, and what joins make of them."""

import pytest

from coordinator.runtime.group_configs import CONFIGS_LOG, SETTINGS, ConfigsCorrupt, GroupConfigs
from protocol.errors import ErrorCode
from protocol.messages.configs import AlterableConfig, ConfigOperation, ConfigSource, ResourceType
from protocol.messages.groups import JoinGroup, JoinGroupReply, JoinProtocol
from protocol.record_batch import encode_batch
from tests.node.node_rig import WALL_MS, NodeRig
from tests.topics.test_requests import altered, described, restarted

SET, DELETE, APPEND, _SUBTRACT = ConfigOperation
DELAY, SIZE = "group.initial.rebalance.delay.ms", "group.max.size"
SHORTEST, LONGEST = "group.min.session.timeout.ms", "group.max.session.timeout.ms"


def join(rig: NodeRig, group_id: str = "g", session_timeout_ms: int = 10_000, call: int = 5) -> JoinGroupReply | None:
    """None while the join phase waits."""
    rig.replied.pop(call, None)
    protocols = (JoinProtocol("range", b""),)
    message = JoinGroup(
        group_id,
        protocol_type="consumer",
        protocols=protocols,
        session_timeout_ms=session_timeout_ms,
        wants_member_id_first=False,
    )
    answer = rig.ask_inside(message, call)
    rig.wake_until_idle()
    answer = rig.replied.get(call)
    assert answer is None or isinstance(answer, JoinGroupReply)
    return answer


def change(rig: NodeRig, *changes: tuple[str, int, str | None], group_id: str = "g") -> ErrorCode:
    return altered(rig, ResourceType.GROUP, group_id, *[AlterableConfig(*one) for one in changes])[0]


def test_a_group_follows_the_node_until_it_is_told_otherwise_and_again_after() -> None:
    rig = NodeRig(group_max_session_timeout_ms=99_000)
    told = described(rig, ResourceType.GROUP, "g", more=True)
    assert [config.name for config in told.configs] == list(SETTINGS)
    assert change(rig, (LONGEST, SET, "50000")) is ErrorCode.NONE
    (config,) = described(rig, ResourceType.GROUP, "g", LONGEST, more=True).configs
    assert (config.value, config.config_source) == ("50000", ConfigSource.GROUP)
    assert [(synonym.value, synonym.source) for synonym in config.synonyms] == [
        ("50000", ConfigSource.GROUP),
        ("99000", ConfigSource.STATIC_BROKER),
        ("1800000", ConfigSource.DEFAULT),
    ]
    assert change(rig, (LONGEST, DELETE, None)) is ErrorCode.NONE
    (config,) = described(rig, ResourceType.GROUP, "g", LONGEST).configs
    assert (config.value, config.config_source) == ("99000", ConfigSource.STATIC_BROKER)


def test_joins_go_by_the_groups_own_settings_after_a_crash_too() -> None:
    rig = NodeRig(group_initial_rebalance_delay_ms=60_000)
    assert join(rig, "slow") is None
    assert change(rig, (DELAY, SET, "0"), (SIZE, SET, "1"), (SHORTEST, SET, "9000")) is ErrorCode.NONE
    for _life in range(2):
        first = join(rig)
        assert first is not None
        assert first.error_code is ErrorCode.NONE
        second = join(rig, call=6)
        assert second is not None
        assert second.error_code is ErrorCode.GROUP_MAX_SIZE_REACHED
        short = join(rig, session_timeout_ms=8_999)
        assert short is not None
        assert short.error_code is ErrorCode.INVALID_SESSION_TIMEOUT
        assert join(rig, "others", session_timeout_ms=8_999, call=8) is None
        rig = restarted(rig, group_initial_rebalance_delay_ms=60_000)


def test_a_group_that_is_there_follows_at_once() -> None:
    rig = NodeRig()
    first = join(rig)
    assert first is not None
    assert first.error_code is ErrorCode.NONE
    assert change(rig, (SIZE, SET, "1")) is ErrorCode.NONE
    second = join(rig, call=6)
    assert second is not None
    assert second.error_code is ErrorCode.GROUP_MAX_SIZE_REACHED


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ([("nosuch", SET, "1")], ErrorCode.INVALID_CONFIG),
        ([("consumer.session.timeout.ms", SET, "1")], ErrorCode.INVALID_CONFIG),
        ([(SIZE, SET, "0")], ErrorCode.INVALID_CONFIG),
        ([(SIZE, SET, "x")], ErrorCode.INVALID_CONFIG),
        ([(SIZE, SET, None)], ErrorCode.INVALID_REQUEST),
        ([(SIZE, APPEND, "1")], ErrorCode.INVALID_CONFIG),
        ([(SIZE, 9, "1")], ErrorCode.INVALID_REQUEST),
        ([(SIZE, SET, "5"), (SIZE, SET, "6")], ErrorCode.INVALID_REQUEST),
        ([(DELAY, SET, "5"), (SHORTEST, SET, "1800001")], ErrorCode.INVALID_CONFIG),
    ],
)
def test_a_group_is_changed_as_a_whole_or_not_at_all(
    changes: list[tuple[str, int, str | None]], error: ErrorCode
) -> None:
    rig = NodeRig()
    assert change(rig, *changes) is error
    assert all(config.is_default or config.name == DELAY for config in described(rig, ResourceType.GROUP, "g").configs)
    assert rig.node.core.group_configs.position == 0


def test_no_group_has_no_name() -> None:
    assert change(NodeRig(), (SIZE, SET, "5"), group_id="") is ErrorCode.INVALID_REQUEST
    assert described(NodeRig(), ResourceType.GROUP, "").error_code is ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize(
    ("key", "value"), [(b"topic/x", b"\0\1\x80"), (b"group/g", b"\0\2\x80"), (b"group/g", b"\0\1rubbish"), (None, b"")]
)
def test_settings_that_do_not_parse_stop_the_start(key: bytes | None, value: bytes) -> None:
    rig = NodeRig()
    rig.store.append(rig.store.log(CONFIGS_LOG), encode_batch([(key, value)], timestamp_ms=WALL_MS))
    with pytest.raises(ConfigsCorrupt):
        GroupConfigs(rig.store, rig.node.core.config).load()
