"""The daemon ignores environment variables of the command `muster`."""

import pytest

from coordinator.config.config import KEYS
from coordinator.config.sources import from_environment
from muster.net.security import NAMES, of_environment

VARIABLES = [f"MUSTER_{beside}{name.upper().replace('.', '_')}" for beside in ("", "BROKER_") for name in NAMES]


@pytest.mark.parametrize("name", [*VARIABLES, "MUSTER_BOOTSTRAP", "MUSTER_CONFIG"])
def test_a_variable_of_clients_is_no_key_of_the_daemons(name: str) -> None:
    assert list(from_environment({name: "x"})) == []
    assert name in {"MUSTER_BOOTSTRAP", "MUSTER_CONFIG"} or len(of_environment({name: "x"})) == 1


def test_none_of_them_hides_a_key() -> None:
    assert [key for key in KEYS if not list(from_environment({"MUSTER_" + key.upper().replace(".", "_"): "x"}))] == []
