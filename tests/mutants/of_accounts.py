"""Bugs of accounts: what was acknowledged and is gone, and what was refused and done."""

from tests.mutants.mutant import Edit, Mutant, Test

_WORLDS = Test("tests/simulation/test_accounts.py::test_nothing_acknowledged_is_lost_and_nothing_refused_has_an_effect")

MUTANTS = (
    Mutant(
        "acl-answered-before-it-is-durable",
        "A CreateAcls is answered while its record is in memory alone: a crash takes the ACL back",
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
        "Decisions that were made before an ACL was revoked stand: its principal goes on committing",
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
        "A commit is served without a look at its group if its topics were permitted before",
        (
            Edit(
                "coordinator/node/authorization.py",
                "    if not known.get((GROUP, commit.group_id, _READ)):\n        return False\n",
                "",
            ),
        ),
        _WORLDS,
    ),
)
