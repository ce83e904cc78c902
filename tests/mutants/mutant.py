"""Deliberate bugs, and the tests that must find them."""

from pathlib import Path

import msgspec

from tests.mutants.scenario import Scenario

OURS = "ours"


class Edit(msgspec.Struct, frozen=True):
    """In the file, which is named from the root, `text` occurs once; `replacement` takes its place."""

    file: str
    text: str
    replacement: str

    def apply(self, root: Path) -> str:
        """The file's text with the bug in it. Raises `ValueError` if the text is not there, or not once."""
        source = (root / self.file).read_text()
        if (count := source.count(self.text)) != 1:
            raise ValueError(f"{self.file} has {self.text!r} {count} times")
        return source.replace(self.text, self.replacement)


class Transcript(msgspec.Struct, frozen=True):
    """A file of `tests/transcripts`, by its name without the ending."""

    stem: str

    @property
    def words(self) -> tuple[str, ...]:
        return ("test", f"tests/transcripts/test_transcripts.py::test_what_happens_is_what_is_written[{self.stem}]")

    @property
    def told(self) -> str:
        return f"transcript `{self.stem}`"


class Worlds(msgspec.Struct, frozen=True):
    """Seeds of the simulation, `count` of them from `first` on; one of them must break."""

    count: int = 80
    first: int = 0

    @property
    def words(self) -> tuple[str, ...]:
        return ("worlds", str(self.first), str(self.count))

    @property
    def told(self) -> str:
        return f"simulation, seeds {self.first} to {self.first + self.count - 1}"


class Test(msgspec.Struct, frozen=True):
    """A test by its name as pytest has it; without `[...]` all of its cases."""

    __test__ = False
    node: str

    @property
    def words(self) -> tuple[str, ...]:
        return ("test", self.node)

    @property
    def told(self) -> str:
        file, _, name = self.node.removeprefix("tests/").partition("::")
        return f"`{file}`: {name.removeprefix('test_').partition('[')[0].replace('_', ' ')}"


Check = Transcript | Worlds | Test | Scenario


class Mutant(msgspec.Struct, frozen=True):
    """`story` is one sentence; `origin` names the ticket of the coordinator that had this bug, or is `OURS`."""

    name: str
    story: str
    edits: tuple[Edit, ...]
    check: Check
    origin: str = OURS


def without(scenario: str, story: str, *edits: Edit) -> Mutant:
    """The rule of a scenario taken out: it has the scenario's number for a name, and that number's test must see it."""
    return Mutant(scenario.lower(), story, edits, Scenario(scenario))
