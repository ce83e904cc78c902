"""The list of bugs as a table of `docs/testing.md`."""

from tests.mutants.catalogue import MUTANTS

BEGIN, END = "<!-- mutants -->", "<!-- end of mutants -->"


def table() -> str:
    lines = ["| bug | whose | caught by |", "|---|---|---|"]
    lines += [f"| {one.story} | {one.origin} | {one.check.told} |" for one in MUTANTS]
    return "\n".join(lines)


def printed(page: str) -> str:
    """The page with the table of today."""
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n{table()}\n{END}{after}"
