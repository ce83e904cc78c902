"""The list of bugs as tables of the docs: `docs/testing.md` has those of the service, `docs/rules.md` those that take a
rule out which a scenario shows.
"""

from tests.mutants.catalogue import MUTANTS
from tests.mutants.mutant import Mutant
from tests.mutants.scenario import Scenario

BEGIN, END = "<!-- mutants -->", "<!-- end of mutants -->"


def table() -> str:
    lines = ["| name | bug | whose | caught by |", "|---|---|---|---|"]
    lines += [
        f"| {one.name} | {one.story} | {one.origin} | {one.check.told} |"
        for one in MUTANTS
        if not isinstance(one.check, Scenario)
    ]
    return "\n".join(lines)


def printed(page: str) -> str:
    """The page with the table of today."""
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n{table()}\n{END}{after}"


def rules() -> str:
    """docs/rules.md."""
    lines = [
        "# Rules of client-balanced groups, taken out",
        "",
        "Printed by `python -m tests.mutants --rules`; rules of all else: [mutants](testing.md#mutants). Each rule is",
        "taken out of the code, and the test of its scenario, alone, must say so with an assertion. `make mutants`",
        "tries them all, `make mutants ARGS=cb12` one.",
        "",
        "| # | the rule taken out | in | found by |",
        "|---|---|---|---|",
    ]
    lines += [_row(one, one.check) for one in MUTANTS if isinstance(one.check, Scenario)]
    return "\n".join(lines) + "\n"


def _row(mutant: Mutant, check: Scenario) -> str:
    files = ", ".join(f"`{file}`" for file in dict.fromkeys(edit.file for edit in mutant.edits))
    return f"| {check.number} | {mutant.story} | {files} | {check.told} |"
