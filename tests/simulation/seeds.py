"""The command line of a kind of world: so many seeds on some processes; prints which of them broke, and how."""

import argparse
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor


def seeds_parser(description: str) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--seeds", type=int, default=100)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--workers", type=int, default=2)
    return parser


def run_seeds(given: argparse.Namespace, what: str, run: Callable[[int], str]) -> int:
    """Call `run` with each seed; it returns the failure, empty if there is none. Return the exit code."""
    with ProcessPoolExecutor(given.workers) as pool:
        failures = list(filter(None, pool.map(run, range(given.first, given.first + given.seeds), chunksize=8)))
    print("\n".join([*failures, f"{given.seeds} {what}, {len(failures)} broken"]))
    return 1 if failures else 0
