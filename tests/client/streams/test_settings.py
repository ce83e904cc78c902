"""Settings that there are, those that cannot work, and the page that says so."""

import re
from pathlib import Path
from typing import Any

import pytest

from muster.streams import StreamsConnector, StreamsSettings
from muster.streams.settings import excluding

PAGE = (Path(__file__).parents[3] / "docs" / "streams.md").read_text()


def test_the_page_has_every_setting_with_its_default() -> None:
    rows = re.findall(
        r"^\| (`[^|]+) \| ([^|]+) \|", PAGE.partition("\n## Settings\n")[2].partition("\n## ")[0], re.MULTILINE
    )
    told: dict[str, str] = {}
    for names, defaults in rows:
        values = re.findall(r"(-?[\d,]*\d|true|a third of it|1 MiB|`[^`]+`)(?:, |$)", defaults.strip())
        told.update(zip(re.findall(r"`(\w+)`", names), values, strict=True))
    settings = StreamsSettings()
    assert told.keys() == set(StreamsSettings.__struct_fields__)
    for name in StreamsSettings.__struct_fields__:
        value: Any = getattr(settings, name)
        assert told[name] == _shown(value), name


def _shown(value: Any) -> str:
    if value is True:
        return "true"
    if value is None:
        return "a third of it"
    return f'`"{value}"`' if isinstance(value, str) else {1_048_576: "1 MiB"}.get(value, f"{value:,}")


@pytest.mark.parametrize(
    "settings",
    [
        {"auto_offset_reset": "none"},
        {"partition_assignment_strategy": "sticky"},
        {"consumed_on": "later"},
        {"queued_max_message_chunks": 0},
        {"rebalance_max_retries": 0},
        {"rebalance_backoff_ms": -1},
        {"heartbeat_interval_ms": 6_000},
    ],
    ids=str,
)
def test_what_cannot_work_is_refused_at_once(settings: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(settings))):
        StreamsConnector("127.0.0.1:1", "group", **settings)


def test_kafkas_protocol_has_no_registry() -> None:
    with pytest.raises(ValueError, match="ownership registry"):
        StreamsConnector("kafka://127.0.0.1:1", "group")


@pytest.mark.parametrize("counts", [{}, {"t": 0}, {" ": 1}], ids=str)
def test_streams_need_a_topic_and_a_number(counts: dict[str, int]) -> None:
    connector = StreamsConnector("127.0.0.1:1", "group")
    with pytest.raises(ValueError, match="wanted"):
        connector.create_message_streams(counts)


def test_excluding_a_pattern_matches_all_other_whole_names() -> None:
    pattern = re.compile(excluding("a|b."))
    assert [name for name in ("a", "ab", "b", "bc", "bcd") if pattern.fullmatch(name)] == ["ab", "b", "bcd"]
