"""Folder and verdict of programs that watch invariants over a whole cluster."""

import argparse
import tempfile
from collections.abc import Callable
from pathlib import Path

from bench import builds


def add_keep(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--keep", type=Path, help="a folder for what all of them leave and say")


def judged(keep: Path | None, run: Callable[[Path], list[str]]) -> int:
    """Run in this folder or in one that goes, print what did not hold, and return the exit code. 0 as well where what
    it takes is not to be had."""
    with tempfile.TemporaryDirectory(prefix="muster-interop-") as scratch:
        try:
            failed = run(keep or Path(scratch))
        except builds.NotHere as why:
            print(f"not here: {why}")
            return 0
    for one in failed:
        print(f"FAILED {one}")
    print(f"{len(failed)} failed" if failed else "all of it held")
    return 1 if failed else 0
