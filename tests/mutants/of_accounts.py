"""Bugs of accounts: what was acknowledged and is gone, and what was refused and done."""

from tests.mutants.mutant import Edit, Mutant, Test

_WORLDS = Test("tests/simulation/test_accounts.py::test_nothing_acknowledged_is_lost_and_nothing_refused_has_an_effect")

MUTANTS = (
    Mutant(
        "acl-answered-before-it-is-durable",
        "A CreateAcls is answered while its record is only in memory: a crash loses the ACL",
        (
            Edit(
                "coordinator/handlers/create_acls.py",
                "    core.outbox.hold(core.accounts.position, ref, CreateAclsReply(results))\n",
                "    core.outbox.send(ref, CreateAclsReply(results))\n",
            ),
        ),
        _WORLDS,
    ),
    Mutant(
        "password-answered-before-it-is-durable",
        "A changed password is acknowledged before it is on disk: after a crash the old one lets its user in",
        (
            Edit(
                "coordinator/handlers/alter_user_scram_credentials.py",
                "    core.outbox.hold(core.accounts.position, ref, AlterUserScramCredentialsReply(results))\n",
                "    core.outbox.send(ref, AlterUserScramCredentialsReply(results))\n",
            ),
        ),
        _WORLDS,
    ),
    Mutant(
        "revoked-acl-is-remembered",
        "Decisions made before an ACL was revoked stay in force: its principal can still commit",
        (
            Edit(
                "coordinator/accounts/authorizer.py",
                "                    del self._prefix_lengths[len(acl.name)]\n        self._forget_decisions()\n",
                "                    del self._prefix_lengths[len(acl.name)]\n",
            ),
        ),
        _WORLDS,
    ),
    Mutant(
        "commit-is-known-by-its-topics",
        "A commit is served without a check of its group if its topics were permitted before",
        (
            Edit(
                "coordinator/node/authorization.py",
                "    if not known.get((GROUP, commit.group_id, _READ)):\n        return False\n",
                "",
            ),
        ),
        _WORLDS,
    ),
    Mutant(
        "token-answered-before-it-is-durable",
        "An access token is acknowledged while its record is only in memory: after a crash it is invalid",
        (
            Edit(
                "coordinator/handlers/create_token.py",
                "    core.outbox.hold(core.accounts.position, ref, reply)\n",
                "    core.outbox.send(ref, reply)\n",
            ),
        ),
        _WORLDS,
    ),
    Mutant(
        "token-deleted-before-it-is-durable",
        "The deletion of an access token is acknowledged before it is on disk: after a crash it is valid again",
        (
            Edit(
                "coordinator/handlers/delete_token.py",
                "    core.outbox.hold(core.accounts.position, ref, DeleteTokenReply(failed))\n",
                "    core.outbox.send(ref, DeleteTokenReply(failed))\n",
            ),
        ),
        _WORLDS,
    ),
    Mutant(
        "expired-login-is-served",
        "Requests are served though connections.max.reauth.ms has passed, or the token of the login has ended",
        (
            Edit(
                "coordinator/node/logins.py",
                "        if moment.monotonic_ms >= connection.session_ends_ms:\n",
                "        if moment.monotonic_ms >= connection.session_ends_ms and not state.mechanism:\n",
            ),
        ),
        _WORLDS,
    ),
    Mutant(
        "plain-is-not-compared",
        "The key of a password of PLAIN is derived but not compared: any password is accepted",
        (
            Edit(
                "coordinator/accounts/plain.py",
                "        self.is_right = hmac.compare_digest(derived.stored_key, known.stored_key)\n",
                '        self.is_right = derived.stored_key != b""\n',
            ),
        ),
        _WORLDS,
    ),
    Mutant(
        "audience-is-not-checked",
        "A token of the identity provider for another service is accepted",
        (
            Edit(
                "coordinator/accounts/oauth.py",
                '            wanted["aud"] = {"essential": True, "values": list(known.audiences)}\n',
                '            wanted["aud"] = {"essential": True}\n',
            ),
        ),
        _WORLDS,
    ),
)
