"""Arguments of Kafka's `kafka-consumer-groups`, unchanged, and its sentences about wrong ones (Apache Kafka 4.3.1)."""

import argparse
import re
import sys
from collections.abc import Iterable, Sequence
from importlib.metadata import version
from typing import Final, NoReturn

_ACTIONS: Final = ("list", "describe", "delete", "reset_offsets", "delete_offsets", "validate_regex")
_VIEWS: Final = ("members", "offsets", "state")
_TARGETS: Final = (
    "to_offset",
    "to_datetime",
    "by_duration",
    "to_earliest",
    "to_latest",
    "to_current",
    "shift_by",
    "from_file",
)
_NUMBERS: Final = ("timeout", "to_offset", "shift_by")
_ONLY_WITH: Final = {
    "members": ("describe",),
    "offsets": ("describe",),
    "state": ("describe", "list"),
    "type": ("list",),
    "verbose": ("describe",),
}
"""Options that need one of these actions."""
_ABOUT: Final = (
    "This tool helps to list all consumer groups, describe a consumer group, delete consumer group info, or reset "
    "consumer group offsets."
)
_WARNING: Final = (
    "WARN: No action will be performed as the --execute option is missing. In version 5.0, this command will require "
    "either --dry-run or --execute to be specified. You should add the --dry-run option explicitly if you are "
    "scripting this command and want to keep the current default behavior without prompting."
)
_ARGUMENT_DUE: Final = re.compile(r"argument --([\w-]+): expected ")


class BadArgument(Exception):
    """An argument that Kafka's tool refuses only once it carries out the action; the text is for people."""


def parse(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """Parse the command line; an invalid one ends the process with 1, as with Kafka's tool. Stray words are ignored,
    as there. Raises BadArgument."""
    given = sys.argv[1:] if arguments is None else arguments
    parser = _parser()
    parsed, stray = parser.parse_known_args(given)
    for word in stray:
        if word.startswith("-"):
            parser.error(f"{word.lstrip('-').partition('=')[0]} is not a recognized option")
    if parsed.help or not given:
        parser.error(_ABOUT)
    _check(parser, parsed)
    _read_values(parsed)
    return parsed


def refuse(sentence: str) -> NoReturn:
    """End the process with 1, after the sentence and the options on standard error."""
    _parser().error(sentence)


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        due = _ARGUMENT_DUE.match(message)
        print(f"Option {due[1]} requires an argument" if due else message, file=sys.stderr)
        self.print_help(sys.stderr)
        self.exit(1)


def _parser() -> _Parser:
    parser = _Parser(prog="muster-consumer-groups", usage="%(prog)s [OPTIONS]", add_help=False, allow_abbrev=False)
    add = parser.add_argument
    add("--bootstrap-server", metavar="HOST:PORT", help="Where Kafka's clients connect.")
    add("--command-config", metavar="FILE", help="Properties of the client.")
    add("--group", action="append", default=[], help="May be repeated.")
    add("--topic", action="append", default=[], metavar="TOPIC[:P,...]", help="May be repeated.")
    add("--timeout", default="30000", metavar="MS", help="The longest wait for a reply, 30000 by default.")
    add("--from-file", metavar="FILE", help="Lines of TOPIC,PARTITION,OFFSET, with GROUP in front for several groups.")
    add("--to-offset", metavar="OFFSET")
    add("--shift-by", metavar="OFFSETS")
    add("--to-datetime", metavar="TIME")
    add("--by-duration", metavar="P1DT2H")
    add("--validate-regex", metavar="REGEX")
    add("--state", nargs="?", const="", metavar="STATES")
    add("--type", nargs="?", const="", metavar="TYPES")
    add("--version", action="version", version=version("muster"))
    for flag in ("--help", "--list", "--describe", "--delete", "--reset-offsets", "--delete-offsets", "--all-groups"):
        add(flag, action="store_true")
    for flag in ("--all-topics", "--members", "--offsets", "--verbose", "--dry-run", "--execute", "--export"):
        add(flag, action="store_true")
    for flag in ("--to-earliest", "--to-latest", "--to-current"):
        add(flag, action="store_true")
    return parser


def _check(parser: _Parser, parsed: argparse.Namespace) -> None:
    """Check in the order of Kafka's tool, which says only the first mistake."""
    unavailable = [
        name
        for name, actions in _ONLY_WITH.items()
        if _is_given(parsed, name) and not any(_is_given(parsed, action) for action in actions)
    ]
    if unavailable:
        parser.error(f"Option(s) {_options(unavailable)} are unavailable given other options on the command line")
    if not (parsed.bootstrap_server or _is_given(parsed, "validate_regex")):
        parser.error('Missing required argument "[bootstrap-server]"')
    for action in ("describe", "delete"):
        if _is_given(parsed, action):
            _check_scope(parser, parsed, action)
    if parsed.describe:
        if sum(_is_given(parsed, name) for name in _VIEWS) > 1:
            views = _options(("members", "offsets", "state"))
            parser.error(f"Option [describe] takes at most one of these options: {views}")
        if parsed.state:
            parser.error("Option [describe] does not take a value for [state]")
    if parsed.delete and parsed.topic:
        parser.error("The consumer does not support topic-specific offset deletion from a consumer group.")
    if parsed.delete_offsets and not (parsed.group and parsed.topic):
        parser.error("Option [delete-offsets] takes the following options: [group], [topic]")
    if parsed.reset_offsets:
        _check_reset(parser, parsed)
    _exclude(parser, parsed, "group", ("all_groups", "list"))
    _exclude(parser, parsed, "topic", ("list", "describe"))
    if sum(_is_given(parsed, name) for name in _ACTIONS) != 1:
        actions = ", ".join(f"--{_option(name)}" for name in _ACTIONS)
        parser.error(f"Command must include exactly one action: {actions}")


def _check_scope(parser: _Parser, parsed: argparse.Namespace, action: str) -> None:
    if not (parsed.group or parsed.all_groups):
        parser.error(f"Option [{_option(action)}] takes one of these options: [group], [all-groups]")


def _check_reset(parser: _Parser, parsed: argparse.Namespace) -> None:
    if parsed.dry_run and parsed.execute:
        parser.error("Option [reset-offsets] only accepts one of [execute] and [dry-run]")
    if not (parsed.dry_run or parsed.execute):
        print(_WARNING, file=sys.stderr)
    _check_scope(parser, parsed, "reset_offsets")
    for name in _TARGETS:
        _exclude(parser, parsed, name, [other for other in _TARGETS if other != name])


def _exclude(parser: _Parser, parsed: argparse.Namespace, name: str, others: Iterable[str]) -> None:
    for other in others if _is_given(parsed, name) else ():
        if _is_given(parsed, other):
            parser.error(f'Option "[{_option(name)}]" can\'t be used with option "[{_option(other)}]"')


def _read_values(parsed: argparse.Namespace) -> None:
    """Read numbers, and the one group of an action that takes one."""
    for name in _NUMBERS:
        text = getattr(parsed, name)
        if text is None:
            continue
        try:
            setattr(parsed, name, int(text))
        except ValueError:
            raise BadArgument(f"Cannot parse argument '{text}' of option {_option(name)}") from None
    if parsed.delete_offsets and len(parsed.group) > 1:
        raise BadArgument("Found multiple arguments for option group, but you asked for only one")


def _is_given(parsed: argparse.Namespace, name: str) -> bool:
    value = getattr(parsed, name)
    return value is not None and value is not False and value != []


def _option(name: str) -> str:
    return name.replace("_", "-")


def _options(names: Iterable[str]) -> str:
    return ", ".join(f"[{_option(name)}]" for name in names)
