"""`muster users list`, `create NAME`, `password NAME` and `delete NAME`.

A password is read from the terminal, or from the first line of standard input; it is never an argument, which any user
who lists processes can read. The command derives the key, and does not send the password.
"""

import hashlib
import os
import sys
from collections.abc import Mapping
from getpass import getpass
from typing import Annotated, Final

import typer

from muster.admin.asking import Complaint, NotFound
from muster.blocking.cluster import ClusterClient, expect
from muster.cli.asking import ActRefused, AsJson, Bootstrap, administering
from muster.cli.showing import show_json, show_table
from muster.errors import Refused
from protocol.errors import ErrorCode
from protocol.messages.acls import (
    AlterUserScramCredentials,
    AlterUserScramCredentialsReply,
    DescribedUserScram,
    DescribeUserScramCredentials,
    DescribeUserScramCredentialsReply,
    ScramDeletion,
    ScramUpsertion,
)

app = typer.Typer(no_args_is_help=True)

_ITERATIONS: Final = 8_192
_HASHES: Final[Mapping[int, str]] = {1: "sha256", 2: "sha512"}
_MECHANISMS: Final[Mapping[int, str]] = {1: "SCRAM-SHA-256", 2: "SCRAM-SHA-512"}
_NOT_PERMITTED: Final = "no access rule permits this: users are for those who may DESCRIBE, and ALTER, the cluster"

Name = Annotated[str, typer.Argument(metavar="NAME")]


@app.command("list")
def list_command(ctx: typer.Context, bootstrap: Bootstrap = None, as_json: AsJson = False) -> None:
    """All users, and the mechanisms they have credentials of."""
    with administering(ctx, bootstrap, _NOT_PERMITTED) as cluster:
        users = _users(cluster)
    if as_json:
        show_json([{"name": one.user, "mechanisms": _mechanisms(one)} for one in users])
    elif users:
        show_table(("USER", "MECHANISMS"), ((one.user, ", ".join(_mechanisms(one))) for one in users))
    else:
        print("There are no users yet: `muster users create NAME` makes one.")


@app.command()
def create(ctx: typer.Context, name: Name, bootstrap: Bootstrap = None) -> None:
    """Make a user. The password is read from the terminal, or from standard input."""
    with administering(ctx, bootstrap, _NOT_PERMITTED) as cluster:
        if any(one.user == name for one in _users(cluster)):
            raise ActRefused(f"there is a user {name!r} already: `muster users password` sets another password")
        _set(cluster, name, _read_password(name))
    print(f"Made user {name}.")


@app.command()
def password(ctx: typer.Context, name: Name, bootstrap: Bootstrap = None) -> None:
    """Set a user's password. It is read from the terminal, or from standard input."""
    with administering(ctx, bootstrap, _NOT_PERMITTED) as cluster:
        _known(cluster, name)
        _set(cluster, name, _read_password(name))
    print(f"Set the password of user {name}.")


@app.command()
def delete(ctx: typer.Context, name: Name, bootstrap: Bootstrap = None) -> None:
    """Delete a user's credentials. Connections that are logged in stay so until their login expires."""
    with administering(ctx, bootstrap, _NOT_PERMITTED) as cluster:
        user = _known(cluster, name)
        deletions = tuple(ScramDeletion(name, one.mechanism) for one in user.credential_infos)
        _alter(cluster, AlterUserScramCredentials(deletions))
    print(f"Deleted user {name}.")


def _users(cluster: ClusterClient) -> list[DescribedUserScram]:
    reply = expect(DescribeUserScramCredentialsReply, cluster.ask(DescribeUserScramCredentials()))
    _check(reply.error_code, reply.error_message)
    return sorted(reply.results, key=lambda one: one.user)


def _known(cluster: ClusterClient, name: str) -> DescribedUserScram:
    found = [one for one in _users(cluster) if one.user == name]
    if not found:
        raise NotFound(f"there is no user {name!r}: see `muster users list`")
    return found[0]


def _mechanisms(user: DescribedUserScram) -> list[str]:
    return [_MECHANISMS.get(one.mechanism, str(one.mechanism)) for one in user.credential_infos]


def _read_password(name: str) -> str:
    if sys.stdin.isatty():
        first = getpass(f"Password of {name}: ")
        if first != getpass("The same again: "):
            raise Complaint("the two passwords differ; nothing was changed")
    else:
        first = sys.stdin.readline().rstrip("\r\n")
    if not first:
        raise Complaint("a password must not be empty; nothing was changed")
    return first


def _set(cluster: ClusterClient, name: str, secret: str) -> None:
    upsertions = []
    for mechanism, hash_name in _HASHES.items():
        salt = os.urandom(24)
        salted = hashlib.pbkdf2_hmac(hash_name, secret.encode(), salt, _ITERATIONS)
        upsertions.append(ScramUpsertion(name, mechanism, _ITERATIONS, salt, salted))
    _alter(cluster, AlterUserScramCredentials((), tuple(upsertions)))


def _alter(cluster: ClusterClient, message: AlterUserScramCredentials) -> None:
    reply = expect(AlterUserScramCredentialsReply, cluster.ask(message))
    for one in reply.results:
        _check(one.error_code, one.error_message)


def _check(code: ErrorCode, sentence: str | None) -> None:
    if code:
        raise Refused(code, sentence or code.name)
