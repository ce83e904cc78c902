"""Reads transcripts, runs them, and prints what they should contain.

A file is a sequence of scenarios. One begins with `# 9.1.5 words`: the numbers of docs/spec/group-protocol.md it shows
(or `# words`, for what only Muster does). A block is commands, a line `----`, then what they did, up to an empty line.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from tests.transcripts.language import Script

HERE = Path(__file__).parent
NUMBER = re.compile(r"\b9\.\d+\.(\d+)\b")


class Block(NamedTuple):
    commands: tuple[str, ...]
    output: tuple[str, ...]


class Scenario(NamedTuple):
    """`comments` are lines that explain, kept as they are."""

    title: str
    comments: tuple[str, ...]
    blocks: tuple[Block, ...]

    @property
    def numbers(self) -> set[int]:
        return {int(number) for number in NUMBER.findall(self.title)}


def files() -> list[Path]:
    return sorted(HERE.glob("*.txt"))


def read(path: Path) -> list[Scenario]:
    """Return the scenarios of a file, in order."""
    return [_scenario(text) for text in re.split(r"(?m)^(?=# )", path.read_text()) if text.strip()]


def _scenario(text: str) -> Scenario:
    title, _, rest = text.partition("\n")
    comments = tuple(line for line in rest.splitlines() if line.startswith("//"))
    script = "\n".join(line for line in rest.splitlines() if not line.startswith("//"))
    blocks = []
    for block in filter(None, re.split(r"\n\s*\n", script.strip("\n"))):
        commands, dashes, output = f"{block}\n".partition("----\n")
        assert dashes, f"{title}: a block without its ----"
        blocks.append(Block(tuple(commands.splitlines()), tuple(output.splitlines())))
    return Scenario(title.removeprefix("# "), comments, tuple(blocks))


def play(scenario: Scenario) -> Scenario:
    """Return the scenario with the present output of its commands."""
    script = Script()
    blocks = []
    for commands, _ in scenario.blocks:
        script.output.clear()
        for command in commands:
            try:
                script.run(command)
            except Exception as error:
                error.add_note(f"in {scenario.title!r}, at {command!r}, after:\n" + "\n".join(script.output))
                raise
        blocks.append(Block(commands, tuple(script.output)))
    try:
        script.close()
    except Exception as error:
        error.add_note(f"at the end of {scenario.title!r}")
        raise
    return scenario._replace(blocks=tuple(blocks))


def page(scenarios: list[Scenario]) -> str:
    """Return the text of the file."""
    return "\n".join("\n".join(_lines(scenario)) for scenario in scenarios)


def _lines(scenario: Scenario) -> Iterator[str]:
    yield f"# {scenario.title}"
    yield from scenario.comments
    for commands, output in scenario.blocks:
        yield from commands
        yield "----"
        yield from output
        yield ""
