"""Settings of topics, groups and nodes: describe and alter."""

import enum

from protocol.errors import ErrorCode
from protocol.messages import Int8, Message, Text


class ResourceType(enum.IntEnum):
    """Type of a resource with settings."""

    TOPIC = 2
    BROKER = 4
    GROUP = 32


class ConfigSource(enum.IntEnum):
    """Source of a setting's value."""

    UNKNOWN = 0
    DYNAMIC_TOPIC = 1
    STATIC_BROKER = 4
    DEFAULT = 5
    GROUP = 8


class ConfigType(enum.IntEnum):
    """Type of a setting's value. An interval of time is a LONG or an INT."""

    UNKNOWN = 0
    BOOLEAN = 1
    STRING = 2
    INT = 3
    SHORT = 4
    LONG = 5
    DOUBLE = 6
    LIST = 7
    CLASS = 8
    PASSWORD = 9


class ConfigOperation(enum.IntEnum):
    """Change of a setting. APPEND and SUBTRACT are for lists."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


class DescribeConfigsResource(Message):
    """Resource to describe. `configuration_keys` None: all settings."""

    resource_type: Int8
    resource_name: Text
    configuration_keys: tuple[Text, ...] | None = None


class DescribeConfigs(Message):
    resources: tuple[DescribeConfigsResource, ...]
    include_synonyms: bool = False
    include_documentation: bool = False


class ConfigSynonym(Message):
    """Another source of the value; lists of synonyms begin with the strongest."""

    name: str
    value: str | None
    source: int


class DescribedConfig(Message):
    """Described setting. `config_source` and `config_type` are of the enums above; version 0 has `is_default`
    instead."""

    name: str
    value: str | None
    read_only: bool = False
    config_source: int = -1
    is_sensitive: bool = False
    synonyms: tuple[ConfigSynonym, ...] = ()
    config_type: int = 0
    documentation: str | None = None
    is_default: bool = False


class DescribedConfigs(Message):
    resource_type: int
    resource_name: str
    error_code: ErrorCode = ErrorCode.NONE
    error_message: str | None = None
    configs: tuple[DescribedConfig, ...] = ()


class DescribeConfigsReply(Message):
    results: tuple[DescribedConfigs, ...] = ()
    throttle_time_ms: int = 0


class AlterableConfig(Message):
    """Setting to alter. `config_operation` is a `ConfigOperation`."""

    name: Text
    config_operation: Int8 = 0
    value: Text | None = None


class AlterConfigsResource(Message):
    resource_type: Int8
    resource_name: Text
    configs: tuple[AlterableConfig, ...]


class IncrementalAlterConfigs(Message):
    """Alter settings; each resource is changed as a whole or not at all (KIP-339)."""

    resources: tuple[AlterConfigsResource, ...]
    validate_only: bool = False


class ReplacedConfig(Message):
    name: Text
    value: Text | None = None


class ReplaceConfigsResource(Message):
    """All of the resource's own settings; settings not named return to their defaults."""

    resource_type: Int8
    resource_name: Text
    configs: tuple[ReplacedConfig, ...]


class AlterConfigs(Message):
    """Replace all settings of resources; superseded by IncrementalAlterConfigs (KIP-339)."""

    resources: tuple[ReplaceConfigsResource, ...]
    validate_only: bool = False


class AlteredConfigs(Message):
    resource_type: int
    resource_name: str
    error_code: ErrorCode = ErrorCode.NONE
    error_message: str | None = None


class IncrementalAlterConfigsReply(Message):
    responses: tuple[AlteredConfigs, ...] = ()
    throttle_time_ms: int = 0


class AlterConfigsReply(Message):
    responses: tuple[AlteredConfigs, ...] = ()
    throttle_time_ms: int = 0
