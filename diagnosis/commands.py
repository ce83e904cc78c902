"""Commands that help, as a shell takes them: ids and names are whatever clients made of them."""

import shlex


def command(verb: str, name: str, *options: str) -> str:
    """Return the command that does this to what has that name: `command("groups evict", "g", "--member", "m")`."""
    words = [*options, "--", name] if name.startswith("-") else [name, *options]
    return " ".join(["muster", verb, *map(shlex.quote, words)])
