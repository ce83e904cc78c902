"""Command lines that both tools are given."""

from typing import Final

import msgspec

from interop.consumer_groups_tool.groups import (
    CLASSIC,
    CONNECTORS,
    EMPTY,
    EMPTY_SERVER_DRIVEN,
    FLIGHTS,
    MIGRATING,
    MISSING,
    ORDERS,
    SERVER_DRIVEN,
    STATIC,
)

OWN: Final = "@OWN"
"""Word of a command line for a group that each tool has for itself, prepared alike."""
_SPECIAL: Final = frozenset(" ()[]*\\|")
FILE: Final = "@FILE"
"""Word for a file with the invocation's lines."""


class Invocation(msgspec.Struct, frozen=True):
    """One command line. `lines`: content of `FILE`. `is_ordered`: false where Kafka's tool prints in the order of a
    hash. `is_frozen`: true where musterd does not answer meanwhile, so that the tool ends after `--timeout`.
    `has_server`: whether `--bootstrap-server` is added."""

    words: tuple[str, ...]
    lines: str = ""
    is_ordered: bool = True
    is_frozen: bool = False
    has_server: bool = True

    @property
    def text(self) -> str:
        """The command line as it is printed."""
        words = [f"'{word}'" if set(word) & _SPECIAL or not word else word for word in self.words]
        if not self.has_server and "--validate-regex" not in self.words:
            words.append("(no --bootstrap-server)")
        return " ".join(words)


def _of(text: str, lines: str = "", *, is_ordered: bool = True) -> Invocation:
    return Invocation(tuple(text.split()), lines, is_ordered)


def _listing(text: str) -> Invocation:
    return _of(f"--list {text}", is_ordered=False)


def _reset(text: str, lines: str = "") -> Invocation:
    return _of(f"--reset-offsets {text}", lines, is_ordered=False)


def _regex(text: str) -> Invocation:
    return Invocation(("--validate-regex", text), has_server=False)


_LISTS: Final = (
    _listing(""),
    _listing("--state"),
    _listing("--state Empty"),
    _listing("--state stable,EMPTY"),
    _listing("--state PreparingRebalance"),
    _listing("--state nonsense"),
    _listing("--type"),
    _listing("--type classic"),
    _listing("--type Consumer"),
    _listing("--type share"),
    _listing("--type --state"),
    _listing("--type consumer --state Empty"),
)
_DESCRIPTIONS: Final = (
    _of(f"--describe --group {CLASSIC}"),
    _of(f"--describe --group {CLASSIC} --members"),
    _of(f"--describe --group {CLASSIC} --members --verbose"),
    _of(f"--describe --group {CLASSIC} --offsets"),
    _of(f"--describe --group {CLASSIC} --offsets --verbose"),
    _of(f"--describe --group {CLASSIC} --verbose"),
    _of(f"--describe --group {CLASSIC} --state"),
    _of(f"--describe --group {CLASSIC} --state --verbose"),
    _of(f"--describe --group {STATIC} --members"),
    _of(f"--describe --group {STATIC} --members --verbose"),
    _of(f"--describe --group {SERVER_DRIVEN}"),
    _of(f"--describe --group {SERVER_DRIVEN} --members"),
    _of(f"--describe --group {SERVER_DRIVEN} --members --verbose"),
    _of(f"--describe --group {SERVER_DRIVEN} --offsets --verbose"),
    _of(f"--describe --group {SERVER_DRIVEN} --state"),
    _of(f"--describe --group {SERVER_DRIVEN} --state --verbose"),
    _of(f"--describe --group {MIGRATING} --members --verbose"),
    _of(f"--describe --group {MIGRATING} --members"),
    _of(f"--describe --group {EMPTY}"),
    _of(f"--describe --group {EMPTY} --members"),
    _of(f"--describe --group {EMPTY} --members --verbose"),
    _of(f"--describe --group {EMPTY} --state --verbose"),
    _of(f"--describe --group {EMPTY_SERVER_DRIVEN} --offsets"),
    _of(f"--describe --group {EMPTY_SERVER_DRIVEN} --state --verbose"),
    _of(f"--describe --group {STATIC} --group {EMPTY} --group {EMPTY}"),
    _of("--describe --all-groups"),
    _of("--describe --all-groups --members --verbose"),
    _of("--describe --all-groups --state"),
    _of(f"--describe --group {MISSING}"),
    _of(f"--describe --group {EMPTY} --group {MISSING}"),
    _of(f"--describe --group {MISSING} --members"),
    _of(f"--describe --group {MISSING} --state"),
    _of(f"--describe --group {CONNECTORS}"),
)
_RESETS: Final = (
    _reset(f"--group {OWN} --all-topics --to-earliest"),
    _reset(f"--group {OWN} --all-topics --to-earliest --dry-run"),
    _reset(f"--group {OWN} --all-topics --to-earliest --execute"),
    _reset(f"--group {OWN} --topic {FLIGHTS} --to-latest --execute"),
    _reset(f"--group {OWN} --topic {FLIGHTS}:0,1 --topic {ORDERS} --to-offset 4 --execute"),
    _reset(f"--group {OWN} --topic {FLIGHTS} --to-offset 99 --execute"),
    _reset(f"--group {OWN} --topic {FLIGHTS}:0 --to-offset -5 --dry-run"),
    _reset(f"--group {OWN} --all-topics --shift-by 1 --execute"),
    _reset(f"--group {OWN} --all-topics --shift-by -2 --execute"),
    _reset(f"--group {OWN} --topic {FLIGHTS} --shift-by 1 --execute"),
    _reset(f"--group {OWN} --all-topics --by-duration PT1H --execute"),
    _reset(f"--group {OWN} --all-topics --by-duration P9999DT3H2M1.5S --dry-run"),
    _reset(f"--group {OWN} --all-topics --by-duration yesterday --dry-run"),
    _reset(f"--group {OWN} --topic {FLIGHTS} --to-datetime 2024-01-01T00:04:30.000 --execute"),
    _reset(f"--group {OWN} --topic {FLIGHTS} --to-datetime 2024-01-01T02:02:00.000+02:00 --dry-run"),
    _reset(f"--group {OWN} --topic {FLIGHTS}:0 --to-datetime 2024-01-01 --dry-run"),
    _reset(f"--group {OWN} --topic {FLIGHTS} --to-current --execute"),
    _reset(f"--group {OWN} --all-topics --to-current --export"),
    _reset(f"--group {OWN} --from-file {FILE} --execute", f"{FLIGHTS},0,5\n{ORDERS},0,3\n"),
    _reset(f"--group {OWN} --from-file {FILE} --dry-run", f"{OWN},{FLIGHTS},0,5\n"),
    _reset(f"--group {OWN} --group {EMPTY} --from-file {FILE} --dry-run", f"{OWN},{FLIGHTS},0,99\n"),
    _reset(f"--group {OWN} --from-file {FILE} --export --dry-run", f"{FLIGHTS},1,2\n"),
    _reset(f"--group {OWN} --group {EMPTY} --all-topics --to-latest --export --dry-run"),
    _reset(f"--group {OWN} --group {CLASSIC} --all-topics --to-earliest --dry-run"),
    _reset(f"--group {OWN} --topic {FLIGHTS}:9 --to-latest --dry-run"),
    _reset(f"--group {OWN} --topic nowhere --to-latest --dry-run"),
    _reset(f"--group {OWN} --topic {FLIGHTS}:x --to-latest --dry-run"),
    _reset(f"--group {OWN} --topic {FLIGHTS}:0:1 --to-latest --dry-run"),
    _reset(f"--group {OWN} --topic {FLIGHTS} --dry-run"),
    _reset(f"--group {OWN} --to-latest --dry-run"),
    _reset(f"--group {CLASSIC} --topic {FLIGHTS} --to-latest --execute"),
    _reset(f"--group {SERVER_DRIVEN} --all-topics --to-latest --execute"),
    _reset(f"--group {MISSING} --topic {FLIGHTS} --to-earliest --dry-run"),
    _reset(f"--group {MISSING} --all-topics --to-earliest --dry-run"),
)
_DELETIONS: Final = (
    _of(f"--delete --group {OWN}"),
    _of(f"--delete --group {MISSING}"),
    _of(f"--delete --group {CLASSIC}"),
    _of(f"--delete --group {SERVER_DRIVEN}"),
    _of(f"--delete --group {CLASSIC} --group {OWN} --group {MISSING}", is_ordered=False),
    _of(f"--delete-offsets --group {OWN} --topic {FLIGHTS}"),
    _of(f"--delete-offsets --group {OWN} --topic {ORDERS}:1 --topic {FLIGHTS}:1,0"),
    _of(f"--delete-offsets --group {OWN} --topic {FLIGHTS}:9"),
    _of(f"--delete-offsets --group {OWN} --topic nowhere"),
    _of(f"--delete-offsets --group {OWN} --topic nowhere --topic {FLIGHTS}:0"),
    _of(f"--delete-offsets --group {OWN} --topic {FLIGHTS}:x"),
    _of(f"--delete-offsets --group {MISSING} --topic {FLIGHTS}:0"),
    _of(f"--delete-offsets --group {CLASSIC} --topic {FLIGHTS}"),
    _of(f"--delete-offsets --group {SERVER_DRIVEN} --topic {FLIGHTS}:0"),
    _of(f"--delete-offsets --group {EMPTY} --group {MISSING} --topic {FLIGHTS}:0"),
)
_REGEXES: Final = tuple(
    map(
        _regex,
        (
            "orders-.*",
            r"\pL+\z",
            "(?i)orders|(?P<name>x)(?<other>y)",
            "(unclosed",
            "closed)",
            "[a-",
            "[b-a]",
            "*",
            "a**",
            "a{2000}",
            "a{2,1}",
            "(?=ahead)",
            "(?<!behind)x",
            r"(a)\1",
            r"\Q.\E\C",
            "[[:word:]]",
            "[[:nonsense:]]",
            "a\\",
            "(?P<x>a)(?P<x>b)",
            "(?P<1>",
            "",
            "\\pX",
            "((a{100}){100}){100}",
        ),
    )
)
_ARGUMENTS: Final = (
    _listing("stray"),
    _of(f"--describ --gro {EMPTY} --offs"),
    _of(f"--describe --group={EMPTY}"),
    Invocation((), has_server=False),
    Invocation(("--list",), has_server=False),
    Invocation(("--describe",), has_server=False),
    *map(
        _of,
        (
            "--list --describe --group x",
            "--list --describe",
            "--list --nonsense",
            "--describe",
            "--describe --group",
            "--describe --group x --all-groups",
            "--describe --group x --members --state",
            "--describe --group x --state Empty",
            "--describe --group x --topic y",
            "--list --group x",
            "--list --members",
            "--list --verbose",
            "--delete --group x --state",
            "--delete",
            "--delete --group x --topic y",
            "--delete-offsets --group x",
            "--delete-offsets --topic y",
            "--reset-offsets --group x --execute --dry-run",
            "--reset-offsets --topic x --to-latest",
            "--reset-offsets --group x --topic y --to-latest --to-earliest",
            "--reset-offsets --group x --topic y --to-offset many",
            "--list --timeout soon",
            "--validate-regex",
            "--validate-regex x --list",
            "--help",
        ),
    ),
)
_WAITING: Final = (
    _listing("--timeout 20000"),
    _of(f"--describe --group {EMPTY} --timeout 20000"),
    Invocation(("--list", "--timeout", "1500"), is_frozen=True),
    Invocation(("--describe", "--group", CLASSIC, "--members", "--timeout", "1500"), is_frozen=True),
    Invocation(("--describe", "--all-groups", "--timeout", "1500"), is_frozen=True),
)
ALL: Final = (*_LISTS, *_DESCRIPTIONS, *_ARGUMENTS, *_REGEXES, *_WAITING, *_RESETS, *_DELETIONS)
"""All invocations; those that change nothing come first, so that both tools are asked about the same groups."""
