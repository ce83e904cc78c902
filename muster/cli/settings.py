"""Settings of topics and groups in options: `--config KEY=VALUE` and `--reset KEY`."""

from collections.abc import Sequence

import typer

from protocol.messages.configs import AlterableConfig, ConfigOperation


def setting_changes(configs: Sequence[str] | None, resets: Sequence[str] | None = None) -> tuple[AlterableConfig, ...]:
    """Parse the options into changes. Raises BadParameter for a setting without `=`."""
    changes = [*map(_to_set, configs or ()), *(AlterableConfig(key, ConfigOperation.DELETE) for key in resets or ())]
    return tuple(changes)


def _to_set(text: str) -> AlterableConfig:
    key, is_there, value = text.partition("=")
    if not is_there:
        raise typer.BadParameter(f"{text!r} has no '=': KEY=VALUE is wanted", param_hint="--config")
    return AlterableConfig(key, ConfigOperation.SET, value)
