"""Options under the names of Spark's own Kafka source, so that a job can be moved by changing its `format`."""

import re
from collections.abc import Mapping

from muster.net.security import NAMES
from pyspark_muster.errors import OptionError

_OURS = {
    "kafka.bootstrap.servers": "bootstrap",
    "kafka.group.id": "group",
    "kafka.group.instance.id": "groupInstanceId",
    "kafka.group.protocol": "groupProtocol",
    "kafka.client.id": "clientId",
    "kafka.session.timeout.ms": "sessionTimeoutMs",
    "kafka.heartbeat.interval.ms": "heartbeatIntervalMs",
    "kafka.max.poll.interval.ms": "maxPollIntervalMs",
    "kafka.isolation.level": "isolationLevel",
    "subscribe": "topics",
    "subscribepattern": "topicsPattern",
    "maxoffsetspertrigger": "maxRecordsPerBatch",
    "maxbytespertrigger": "maxBytesPerBatch",
    "minoffsetspertrigger": "minRecordsPerBatch",
    "maxtriggerdelay": "maxTriggerDelayMs",
}
_UNITS = {"ms": 1, "s": 1_000, "m": 60_000, "min": 60_000, "h": 3_600_000, "d": 86_400_000}
_SUBSCRIBING = frozenset({"subscribe", "subscribepattern"})
_KAFKA = "kafka."
_SCHEME = "kafka://"


def in_our_names(given: Mapping[str, str], *, latest: bool) -> dict[str, str]:
    """Return the options under this source's names; those without one stay unchanged, for the error message. As with
    Spark's source, `kafka.bootstrap.servers` are Kafka's listeners. `latest`: a subscription under that source's names
    begins at the end by default, as that source's streams do. Raises `OptionError`.
    """
    options: dict[str, str] = {}
    said: dict[str, str] = {}
    for name, text in given.items():
        ours = _our_name(name)
        if ours.lower() in said:
            raise OptionError(f"the options {said[ours.lower()]!r} and {name!r} mean the same: give one of them")
        said[ours.lower()], options[ours] = name, text
    lower = {name.lower() for name in given}
    for name, text in given.items():
        if name.lower() == "kafka.bootstrap.servers" and not text.strip().startswith(_SCHEME):
            options["bootstrap"] = _SCHEME + text.strip()
        if name.lower() == "maxtriggerdelay":
            options["maxTriggerDelayMs"] = _milliseconds(name, text.strip())
    if latest and lower & _SUBSCRIBING and "startingoffsets" not in lower:
        options["startingOffsets"] = "latest"
    return options


def _milliseconds(name: str, text: str) -> str:
    found = re.fullmatch(r"(\d+)\s*([a-z]+)", text.lower())
    unit = _UNITS.get(found[2]) if found else None
    if found is None or unit is None:
        raise OptionError(f"the option {name!r} is {text!r}: it must be a number and one of {', '.join(_UNITS)}")
    return str(int(found[1]) * unit)


def _our_name(name: str) -> str:
    lower = name.lower()
    if lower in _OURS:
        return _OURS[lower]
    if lower.startswith(_KAFKA) and lower.removeprefix(_KAFKA) in NAMES:
        return "muster." + lower.removeprefix(_KAFKA)
    return name
