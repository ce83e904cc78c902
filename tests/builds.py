"""The build that is tested: the sources, or with `COMPILED=1` the libraries beside them. Never one for the other."""

import os
from pathlib import Path

import hatch_build

VARIABLE = "COMPILED"
ROOT = Path(__file__).parents[1]


def is_compiled() -> bool:
    """True if the compiled hot path is asked for."""
    return bool(os.environ.get(VARIABLE))


def complaint(root: Path, *, compiled: bool) -> str | None:
    """Return why the tests would not test the requested build; None if they would."""
    if compiled:
        late = hatch_build.out_of_date(root)
        return f"COMPILED=1, and {late[0]} is not compiled as it stands now: `make compiled` does it" if late else None
    found = hatch_build.libraries(root)
    if not found:
        return None
    return f"{found[0].relative_to(root)} hides its source: `make pure` removes it, `make test COMPILED=1` tests it"
