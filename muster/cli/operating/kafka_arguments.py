"""Arguments of Kafka's `kafka-consumer-groups`, unchanged (Apache Kafka 4.3.1)."""

import argparse
from importlib.metadata import version
from typing import Final, NoReturn

_ACTIONS: Final = ("list", "describe", "delete", "reset_offsets", "delete_offsets", "validate_regex")
_VIEWS: Final = ("members", "offsets", "state")
_TARGETS: Final = (
    "to_earliest",
    "to_latest",
    "to_current",
    "to_offset",
    "shift_by",
    "to_datetime",
    "by_duration",
    "from_file",
)


def parse(arguments: list[str] | None = None) -> argparse.Namespace:
    """Parse the command line; an invalid one ends the process with 1, as with Kafka's tool."""
    parser = _Parser(
        prog="muster-consumer-groups",
        description="Lists, describes and deletes consumer groups, and resets and deletes their offsets.",
    )
    add = parser.add_argument
    add("--bootstrap-server", metavar="HOST:PORT", help="Where Kafka's clients connect.")
    add("--command-config", metavar="FILE", help="Properties of the client.")
    add("--group", action="append", default=[], help="May be repeated.")
    add("--topic", action="append", default=[], metavar="TOPIC[:P,...]", help="May be repeated.")
    add("--timeout", type=int, default=30_000, metavar="MS")
    add("--from-file", metavar="FILE", help="Lines of TOPIC,PARTITION,OFFSET, with GROUP in front for several groups.")
    add("--to-offset", type=int)
    add("--shift-by", type=int)
    add("--to-datetime", metavar="TIME")
    add("--by-duration", metavar="P1DT2H")
    add("--validate-regex", metavar="REGEX")
    add("--state", nargs="?", const="", metavar="STATES")
    add("--type", nargs="?", const="", metavar="TYPES")
    add("--version", action="version", version=version("muster"))
    for flag in ("--list", "--describe", "--delete", "--reset-offsets", "--delete-offsets", "--all-groups"):
        add(flag, action="store_true")
    for flag in ("--all-topics", "--members", "--offsets", "--verbose", "--dry-run", "--execute", "--export"):
        add(flag, action="store_true")
    for flag in ("--to-earliest", "--to-latest", "--to-current"):
        add(flag, action="store_true")
    parsed = parser.parse_args(arguments)
    _check(parser, parsed)
    return parsed


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        self.print_usage()
        self.exit(1, f"{message}\n")


def _check(parser: _Parser, parsed: argparse.Namespace) -> None:
    chosen = [name for name in _ACTIONS if _is_said(parsed, name)]
    if len(chosen) != 1:
        parser.error(
            "Command must include exactly one action: --list, --describe, --delete, --reset-offsets, "
            "--delete-offsets, --validate-regex"
        )
    if chosen == ["validate_regex"]:
        return
    if not parsed.bootstrap_server:
        parser.error("Missing required argument [bootstrap-server]")
    if parsed.group and parsed.all_groups:
        parser.error("Option [group] excludes [all-groups]")
    action = chosen[0]
    if action in ("describe", "delete", "reset_offsets") and not (parsed.group or parsed.all_groups):
        parser.error(f"Option [{action.replace('_', '-')}] takes one of these options: [group], [all-groups]")
    if action == "describe" and sum(_is_said(parsed, name) for name in _VIEWS) > 1:
        parser.error("Option [describe] takes at most one of these options: [members], [offsets], [state]")
    if action == "delete_offsets" and not (len(parsed.group) == 1 and parsed.topic):
        parser.error("Option [delete-offsets] takes the following options: [topic], [group]")
    if action == "reset_offsets":
        _check_reset(parser, parsed)


def _check_reset(parser: _Parser, parsed: argparse.Namespace) -> None:
    if sum((parsed.dry_run, parsed.execute)) > 1:
        parser.error("Option [reset-offsets] only accepts one of [execute], [dry-run]")
    if sum(_is_said(parsed, name) for name in _TARGETS) > 1:
        parser.error("Option [reset-offsets] takes only one of: " + ", ".join(_TARGETS).replace("_", "-"))
    if not (parsed.topic or parsed.all_topics or parsed.from_file):
        parser.error("Option [reset-offsets] takes one of these options: [topic], [all-topics], [from-file]")


def _is_said(parsed: argparse.Namespace, name: str) -> bool:
    value = getattr(parsed, name)
    return value is not None and value is not False
