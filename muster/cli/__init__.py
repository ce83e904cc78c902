"""EDGE: the `muster` command: look at groups, ask why they rebalanced, put records into topics and take them out."""

from muster.cli.command import app


def main() -> None:
    """Run the command; the process ends with its exit code: 0 done, 1 refused or not found, 2 misused."""
    app(prog_name="muster")


__all__ = ["app", "main"]
