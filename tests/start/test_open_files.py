"""A configuration is fitted to the limit of open files: connections give way to the files of logs."""

import resource

import pytest

from coordinator.config.config import Config
from coordinator.start.open_files import within_open_files


@pytest.fixture
def limits(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int]]:
    """The soft and the hard limit; the last one set comes last."""
    found = [(1_024, 1_024)]
    monkeypatch.setattr(resource, "getrlimit", lambda _what: found[-1])
    monkeypatch.setattr(resource, "setrlimit", lambda _what, wanted: found.append(wanted))
    return found


def test_enough_files_leave_the_configuration_and_the_limit_as_they_are(limits: list[tuple[int, int]]) -> None:
    limits[:] = [(1_000_000, 1_000_000)]
    config = Config(max_connections=10_000)
    assert within_open_files(config) is config
    assert limits == [(1_000_000, 1_000_000)]


def test_a_soft_limit_is_raised_as_far_as_is_needed(limits: list[tuple[int, int]]) -> None:
    limits[:] = [(1_024, 1_000_000)]
    config = Config(max_connections=10_000)
    assert within_open_files(config) is config
    soft, hard = limits[-1]
    assert hard == 1_000_000
    assert 10_000 < soft < 20_000


def test_a_hard_limit_takes_connections_away_and_leaves_logs_their_files(limits: list[tuple[int, int]]) -> None:
    config = within_open_files(Config(max_connections=10_000))
    assert limits[-1] == (1_024, 1_024)
    assert config.http_max_connections == 1_024 // 8
    assert config.max_connections == 1_024 - 320 - 128  # 320 files for logs


def test_a_daemon_with_hardly_a_file_has_one_connection(limits: list[tuple[int, int]]) -> None:
    limits[:] = [(64, 64)]
    config = within_open_files(Config(max_connections=10_000))
    assert (config.max_connections, config.http_max_connections) == (1, 8)
