"""EDGE: the command `musterd`: reads the configuration, then serves, checks, or runs one of its tools."""

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import Callable, Coroutine, Sequence
from pathlib import Path
from typing import Any

import structlog

from coordinator.accounts.records import AccountsCorrupt
from coordinator.build_info import version
from coordinator.config.config import ConfigError, load_config
from coordinator.config.help import CHECK, asked, help_text
from coordinator.io.exit import DISK_FAILED
from coordinator.io.service_manager import ServiceManager
from coordinator.runtime.group_configs import ConfigsCorrupt
from coordinator.start.check import check
from coordinator.start.daemon import serve
from coordinator.start.stderr import complain, log_to_stderr
from coordinator.topics.records import TopicsCorrupt
from partition_log.errors import FolderInUse, LogDamaged, SyncFailed

log = structlog.get_logger()


def main() -> None:
    """Run the command. Exits 0 after SIGTERM or SIGINT, 2 for a wrong configuration, 1 if the data folder cannot be
    served. `musterd log` and `musterd backup` are commands of their own: they serve nothing."""
    if sys.argv[1:2] in (["log"], ["backup"]):
        sys.exit(_tool(sys.argv[1])(sys.argv[2:]))
    question = asked(sys.argv[1:])
    if question is not None:
        try:
            print(help_text() if question == "help" else version(), flush=True)
        except BrokenPipeError:  # a pager has seen enough; what is left would be written at the exit
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return
    arguments = [argument for argument in sys.argv[1:] if argument != CHECK]
    try:
        config = load_config(arguments, os.environ, lambda path: Path(path).read_bytes())
        if CHECK in sys.argv[1:]:
            check(config)
            return
    except ConfigError as error:
        sys.exit(complain(str(error), 2))
    log_to_stderr()
    signal.signal(signal.SIGHUP, signal.SIG_IGN)  # until the loop runs: a terminal that closes must not end a recovery
    for warning in config.warnings:
        log.warning(warning)
    try:
        _runner()(serve(config, ServiceManager(os.environ)))
    except ConfigError as error:
        sys.exit(complain(str(error), 2))
    except (LogDamaged, TopicsCorrupt, ConfigsCorrupt, AccountsCorrupt) as error:
        sys.exit(complain(str(error), 1))
    except FolderInUse:
        advice = "stop that daemon first, or give this one a folder of its own (--data-dir)"
        sys.exit(complain(f"another daemon serves the data folder {config.data_dir}: {advice}", 1))
    except SyncFailed as error:
        sys.exit(complain(f"cannot serve: {error}", DISK_FAILED))
    except OSError as error:
        sys.exit(complain(f"cannot serve: {error}", 1))


def _tool(name: str) -> Callable[[Sequence[str]], int]:
    """Return a command that reads a data folder."""
    if sys.argv[1:3] == ["log", "move"]:
        from coordinator.gateway.io.move import move_command

        return lambda arguments: move_command.main(arguments[1:])
    from coordinator.tools import backup, log_command

    return backup.main if name == "backup" else log_command.main


def _runner() -> Callable[[Coroutine[Any, Any, None]], None]:
    with contextlib.suppress(ImportError):
        import uvloop

        return uvloop.run
    return asyncio.run


if __name__ == "__main__":
    main()
