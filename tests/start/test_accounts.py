"""The first user: made, passed over, or missed in a warning."""

import pytest
from structlog.testing import capture_logs

from coordinator.config.accounts import Mechanisms
from coordinator.config.config import Config
from coordinator.config.keys import Secret
from coordinator.start.accounts import _make_administrator
from tests.accounts.rig import accounts_of


class _Core:
    def __init__(self, **passwords: str) -> None:
        self.accounts = accounts_of(passwords)


@pytest.mark.parametrize(
    ("mechanisms", "passwords", "initial_admin", "is_warned"),
    [
        (("PLAIN",), {}, None, True),
        (("SCRAM-SHA-512", "OAUTHBEARER"), {}, None, True),
        (("OAUTHBEARER",), {}, None, False),
        ((), {}, None, False),
        (("PLAIN",), {"alice": "hush"}, None, False),
        (("PLAIN",), {}, Secret("root:hush"), False),
    ],
)
def test_logins_without_a_user_to_log_in_are_warned_of(
    mechanisms: tuple[str, ...], passwords: dict[str, str], initial_admin: Secret | None, is_warned: bool
) -> None:
    config = Config(sasl_enabled_mechanisms=Mechanisms(mechanisms), initial_admin=initial_admin)
    with capture_logs() as lines:
        _make_administrator(config, _Core(**passwords))  # type: ignore[arg-type]
    warnings = [line["event"] for line in lines if line["log_level"] == "warning"]
    assert len(warnings) == is_warned
    assert all("initial.admin" in one for one in warnings)
