"""Options of a table, checked before anything connects."""

import difflib
from collections.abc import Mapping
from typing import Any, get_args

from msgspec import Struct

from muster.blocking.cluster import ClusterClient
from muster.net.bootstrap import parse_bootstrap
from muster.net.dialects import ClientDialect
from muster.net.security import Security
from pyspark_muster.errors import OptionError
from pyspark_muster.options import Options, parse_securities
from pyspark_muster.synonyms import in_our_names
from pyspark_muster.tables.columns import TableName

TABLES: tuple[TableName, ...] = get_args(TableName)
_NAMES = ("table", "bootstrap", "groups", "startingTimestamp", "clientId")
_IN_LOWER = {name.lower(): name for name in _NAMES}
_OF_TIME = ("ends", "notes")
"""Tables with a history, which only musterd keeps."""
_OF_RECORDS = {
    *(name.replace("_", "") for name in Options.__struct_fields__),
    *("assign", "endingoffsets", "startingoffsetsbytimestamp", "endingoffsetsbytimestamp"),
    *("startingtimestamp", "endingtimestamp", "minpartitions"),
}
"""Options of reading records, in lower case."""


class TableOptions(Struct, frozen=True, kw_only=True):
    """Options of a table. `groups` empty: all. `since_ms`: rows of this time and later ones."""

    table: TableName
    bootstrap: str
    groups: tuple[str, ...] = ()
    since_ms: int = 0
    client_id: str = "spark"
    security: Security | None = None
    broker_security: Security | None = None

    @classmethod
    def parse(cls, given: Mapping[str, str], environment: Mapping[str, str] | None = None) -> "TableOptions":
        """Parse Spark's options, names in any case. The security settings of `environment` are the defaults. Raises
        `OptionError`.
        """
        options = in_our_names(given, latest=False)
        values: dict[str, Any] = parse_securities(options, environment or {})
        said: dict[str, str] = {}
        for name, text in options.items():
            if not name.lower().startswith("muster."):
                said[_IN_LOWER.get(name.lower(), name)] = text.strip()
        table = said.get("table", "")
        values["table"] = _table(table)
        for name in said.keys() - set(_NAMES):
            raise OptionError(_unknown(name, table))
        if "startingTimestamp" in said and table.lower() not in _OF_TIME:
            raise OptionError(_meaningless("startingTimestamp", table))
        if "groups" in said and table.lower() == "topics":
            raise OptionError(_meaningless("groups", table))
        since = said.get("startingTimestamp", "0")
        if not (since.isascii() and since.isdigit()):
            raise OptionError(f"the option 'startingTimestamp' is {since!r}: it must be milliseconds since 1970")
        groups = tuple(dict.fromkeys(one for one in map(str.strip, said.get("groups", "").split(",")) if one))
        if "groups" in said and not groups:
            raise OptionError(
                "the option 'groups' is '': it must be names, separated by commas, or be left out for all"
            )
        if not said.get("bootstrap"):
            raise OptionError("the option 'bootstrap' is needed: host:port of a muster daemon")
        values |= {"bootstrap": said["bootstrap"], "groups": groups, "since_ms": int(since)}
        options_of_table = cls(**values, client_id=said.get("clientId", "spark"))
        options_of_table.check()
        return options_of_table

    @property
    def is_native(self) -> bool:
        """Return whether the address is one of musterd's own protocol, not Kafka's."""
        where = parse_bootstrap(self.bootstrap, None, self.security, self.broker_security)
        return where.dialect is ClientDialect.NATIVE

    def check(self) -> None:
        """Check the address, and that a history is requested from musterd only. Raises `OptionError`."""
        try:
            is_native = self.is_native
        except ValueError as error:
            raise OptionError(f"the option 'bootstrap' is {self.bootstrap!r}: {error}") from None
        if self.table in _OF_TIME and not is_native:
            raise OptionError(
                f"the option 'table' is {self.table!r}, and 'bootstrap' is {self.bootstrap!r}: Kafka's protocol has no "
                f"{self.table}, name the native listener of a musterd"
            )

    def connect(self) -> ClusterClient:
        """Return a new client, which the caller must close."""
        return ClusterClient(
            self.bootstrap,
            client_id=self.client_id,
            security=self.security,
            broker_security=self.broker_security,
        )


def names_table(given: Mapping[str, str]) -> bool:
    """Return true if these options of Spark name a table."""
    return any(name.lower() == "table" for name in given)


def _table(text: str) -> TableName:
    for table in TABLES:
        if text.lower() == table:
            return table
    near = difflib.get_close_matches(text.lower(), TABLES, n=1)
    hint = f"; did you mean {near[0]!r}?" if near else ""
    raise OptionError(f"the option 'table' is {text!r}: it must be {' or '.join(map(repr, TABLES))}{hint}")


def _unknown(name: str, table: str) -> str:
    if name.lower() == "group":
        return f"the option 'group' means nothing with the table {table!r}: it joins no group; 'groups' chooses some"
    if name.lower() in _OF_RECORDS:
        return _meaningless(name, table)
    near = difflib.get_close_matches(name.lower(), _IN_LOWER, n=1)
    hint = f"; did you mean {_IN_LOWER[near[0]]!r}?" if near else f"; a table has {', '.join(_NAMES)}"
    return f"the option {name!r} is unknown{hint}"


def _meaningless(name: str, table: str) -> str:
    return f"the option {name!r} means nothing with the table {table!r}: leave it out"
