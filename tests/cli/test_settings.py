"""Settings as commands take them."""

import pytest
import typer

from muster.cli.settings import setting_changes
from protocol.messages.configs import AlterableConfig, ConfigOperation


def test_a_value_may_have_an_equals_sign_and_may_be_empty() -> None:
    assert setting_changes(["a=b=c", "d="], ["e"]) == (
        AlterableConfig("a", ConfigOperation.SET, "b=c"),
        AlterableConfig("d", ConfigOperation.SET, ""),
        AlterableConfig("e", ConfigOperation.DELETE),
    )
    assert setting_changes(None) == ()


def test_a_key_alone_is_refused() -> None:
    with pytest.raises(typer.BadParameter, match="'compact' has no '=': KEY=VALUE is wanted"):
        setting_changes(["compact"])
