"""The options of the sink, checked before any row is written."""

import difflib
from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from muster.core.producing.handles import CompressionName
from muster.net.bootstrap import parse_bootstrap
from muster.net.security import Security
from pyspark_muster.errors import OptionError
from pyspark_muster.options import one_of, parse_securities, whole
from pyspark_muster.synonyms import in_our_names

_THEIRS = {
    "kafka.compression.type": "compression",
    "kafka.linger.ms": "lingerMs",
    "kafka.batch.size": "batchBytes",
    "kafka.delivery.timeout.ms": "deliveryTimeoutMs",
}
_FIXED = {"kafka.acks": ("all", "-1"), "kafka.enable.idempotence": ("true",)}
"""Settings of Kafka's producer that have fixed values here."""
_OF_SPARK = frozenset({"checkpointlocation", "queryname"})
"""Spark's own options, passed together with those of a streaming sink."""


class SinkOptions(Struct, frozen=True, kw_only=True):
    """Options of a sink. `topic` is for all rows, whatever their column `topic` says."""

    bootstrap: str
    topic: str | None = None
    compression: CompressionName = "none"
    linger_ms: int = 20
    batch_bytes: int = 131_072
    delivery_timeout_ms: int = 120_000
    client_id: str = "spark"
    security: Security | None = None
    broker_security: Security | None = None

    @classmethod
    def parse(cls, given: Mapping[str, str], environment: Mapping[str, str] | None = None) -> "SinkOptions":
        """Parse Spark's options, names in any case, under this sink's names or those of Spark's own Kafka sink. Raises
        `OptionError`.
        """
        options = in_our_names(_in_names_of_sinks(given), latest=False)
        values: dict[str, Any] = parse_securities(options, environment or {})
        for name, text in options.items():
            if name.lower().startswith("muster."):
                continue
            field = _FIELDS.get(name.lower())
            if field is None:
                raise OptionError(_unknown(name))
            values[field] = _READ.get(field, _text)(_NAMES[field], text.strip())
        if not values.get("bootstrap"):
            raise OptionError("the option 'bootstrap' is needed: host:port of a muster daemon")
        if values.get("topic") == "":
            raise OptionError(
                "the option 'topic' is '': it must be a topic's name, or be left out for a column 'topic'"
            )
        try:
            parse_bootstrap(values["bootstrap"], None, values["security"], values["broker_security"])
        except ValueError as error:
            raise OptionError(f"the option 'bootstrap' is {values['bootstrap']!r}: {error}") from None
        return cls(**values)


def _in_names_of_sinks(given: Mapping[str, str]) -> dict[str, str]:
    options: dict[str, str] = {}
    for name, text in given.items():
        lower = name.lower()
        if lower in _FIXED:
            if text.strip().lower() not in _FIXED[lower]:
                raise OptionError(
                    f"the option {name!r} is {text!r}: this sink is always idempotent, it must be {_FIXED[lower][0]!r}"
                )
        elif lower not in _OF_SPARK:
            ours = _THEIRS.get(lower, name)
            if ours != name and any(ours.lower() == other.lower() for other in given):
                raise OptionError(f"the options {ours!r} and {name!r} mean the same: give one of them")
            options[ours] = text
    return options


def _text(_name: str, text: str) -> str:
    return text


_NAMES = {
    "bootstrap": "bootstrap",
    "topic": "topic",
    "compression": "compression",
    "linger_ms": "lingerMs",
    "batch_bytes": "batchBytes",
    "delivery_timeout_ms": "deliveryTimeoutMs",
    "client_id": "clientId",
}
_FIELDS = {name.lower(): field for field, name in _NAMES.items()}
_READ = {
    "compression": one_of("none", "gzip", "snappy", "lz4", "zstd"),
    "linger_ms": whole,
    "batch_bytes": whole,
    "delivery_timeout_ms": whole,
}


def _unknown(name: str) -> str:
    near = difflib.get_close_matches(name.lower(), _FIELDS, n=1)
    hint = f"; did you mean {_NAMES[_FIELDS[near[0]]]!r}?" if near else f"; a sink has {', '.join(_NAMES.values())}"
    return f"the option {name!r} is unknown{hint}"
