"""`muster completion bash|zsh|fish`: a shell's script that completes commands and options, by Typer."""

from enum import StrEnum
from typing import Annotated

import typer
from typer.completion import get_completion_inspect_parameters, shell_complete

PROGRAM = "muster"
_VARIABLE = "_MUSTER_COMPLETE"

get_completion_inspect_parameters()  # registers the shells, which Typer does only for its own options, unused here


class CompletedShell(StrEnum):
    """A shell that completes."""

    BASH = "bash"
    ZSH = "zsh"
    FISH = "fish"


def completion(ctx: typer.Context, shell: Annotated[CompletedShell, typer.Argument()]) -> None:
    """Print a script that completes commands and options of muster in a shell.

    bash: `eval "$(muster completion bash)"` in ~/.bashrc. zsh: the same in ~/.zshrc, after compinit. fish: `muster
    completion fish > ~/.config/fish/completions/muster.fish`.
    """
    code = shell_complete(ctx.find_root().command, {}, PROGRAM, _VARIABLE, f"source_{shell.value}")
    if code:
        raise typer.Exit(code)
