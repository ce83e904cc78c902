"""`musterd --check` refuses what a start would, and makes nothing."""

from pathlib import Path

import pytest

from coordinator.config.config import Config, ConfigError
from coordinator.start.check import check


def test_a_configuration_that_can_be_served_is_said_to_be(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    check(Config(data_dir=str(tmp_path / "data"), audit_log_location=str(tmp_path / "audit.log")))
    assert capsys.readouterr().out == "musterd: the configuration can be served\n"
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("path", "why"),
    [
        ("nowhere/audit.log", "No such file or directory"),
        ("file/audit.log", "Not a directory"),
        (".", "Is a directory"),
    ],
)
def test_an_audit_log_that_cannot_be_written_is_refused_with_its_path(tmp_path: Path, path: str, why: str) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ConfigError, match=f"audit.log.location = .*{path}: {why}"):
        check(Config(audit_log_location=str(tmp_path / path)))
