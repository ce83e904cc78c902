"""Bugs of what keeps strangers out: certificates, sessions, what is counted, what is shown."""

from tests.mutants.mutant import Edit, Mutant, Test

_LISTENING = "coordinator/io/tls/listening.py"
_CONNECTION = "coordinator/io/tls/connection.py"
_CONFIG = "coordinator/config/security.py"
_CONNECTIONS = "tests/edges/test_tls_connection.py"
_KEYS = "tests/config/test_security.py"

MUTANTS = (
    Mutant(
        "clients-may-show-no-certificate",
        "A client's certificate is checked if it shows one, and it need not",
        (Edit(_LISTENING, "context.verify_mode = ssl.CERT_REQUIRED", "context.verify_mode = ssl.CERT_OPTIONAL"),),
        Test(f"{_CONNECTIONS}::test_who_is_not_let_in_is_told_why_unless_too_many_are"),
    ),
    Mutant(
        "listener-without-tls-asks-nobody",
        "A listener that speaks no TLS counts as one that asks for certificates, and may listen on the network",
        (
            Edit(
                _CONFIG,
                "return self.speaks_tls(kind) and self.tls_client_ca_location is not None",
                "return self.tls_client_ca_location is not None",
            ),
        ),
        Test(f"{_KEYS}::test_where_clients_show_a_certificate_the_network_need_not_be_trusted"),
    ),
    Mutant(
        "tls-keys-to-no-effect",
        "Keys of TLS to the brokers are taken where there is no TLS to them: what is believed secured is in the clear",
        (Edit(_CONFIG, "    if not protocol.is_tls:\n", "    if not protocol:\n"),),
        Test(f"{_KEYS}::test_what_would_leave_open_what_somebody_believes_closed_is_refused"),
    ),
    Mutant(
        "password-in-the-repr",
        "Whoever prints the configuration prints the passwords in it",
        (
            Edit(
                "coordinator/config/keys.py",
                "        return HIDDEN\n\n\nclass",
                "        return str.__repr__(self)\n\n\nclass",
            ),
        ),
        Test(f"{_KEYS}::test_a_password_is_never_shown"),
    ),
    Mutant(
        "any-host-of-an-authority",
        "A broker is believed whatever host its certificate is for",
        (
            Edit(
                "coordinator/gateway/io/tls.py",
                "context.check_hostname = self._checks_names",
                "context.check_hostname = False",
            ),
        ),
        Test(f"{_CONNECTIONS}::test_keys_name_the_files_and_say_which_is_wrong"),
    ),
    Mutant(
        "old-times-old-files",
        "Certificates that were put in place with the times of those before are not seen",
        (
            Edit(
                "coordinator/io/tls/contexts.py",
                "found.st_mtime_ns, found.st_ctime_ns, found",
                "found.st_mtime_ns, found",
            ),
        ),
        Test(
            "tests/edges/test_tls_files.py::"
            "test_a_context_is_made_anew_when_a_file_is_another_and_kept_when_the_new_one_is_bad"
        ),
    ),
    Mutant(
        "what-waits-for-tls-is-not-counted",
        "What a client has not taken counts only once it is encrypted: slow readers take all memory",
        (Edit(_CONNECTION, "return self._waiting_bytes + (0 if", "return (0 if"),),
        Test(f"{_CONNECTIONS}::test_no_more_is_encrypted_ahead_than_a_little_and_all_of_it_counts"),
    ),
    Mutant(
        "all-is-encrypted-at-once",
        "An answer is encrypted whole, however little of it the client takes",
        (Edit(_CONNECTION, "while self._waiting and not self._is_held:", "while self._waiting:"),),
        Test(f"{_CONNECTIONS}::test_no_more_is_encrypted_ahead_than_a_little_and_all_of_it_counts"),
    ),
    Mutant(
        "close-forgets-what-waits",
        "A close over TLS does not wait for what was written before it",
        (Edit(_CONNECTION, "        if not self._waiting:\n            self._close()", "        self._close()"),),
        Test(f"{_CONNECTIONS}::test_either_loop_sends_all_that_was_written_before_a_close"),
    ),
    Mutant(
        "handshakes-without-end",
        "Any number of handshakes may be under way: each is an open file that nobody counts",
        (Edit(_LISTENING, "if self.under_way >= self._most:", "if self.under_way < 0:"),),
        Test(f"{_CONNECTIONS}::test_handshakes_are_counted_to_the_most"),
    ),
    Mutant(
        "link-outlives-its-login",
        "A link is used until the broker ends it, because it wants another login",
        (
            Edit(
                "coordinator/gateway/io/broker_client.py",
                "return self._session_ends_s is None or asyncio.get_running_loop().time() <= self._session_ends_s",
                "return True",
            ),
        ),
        Test("tests/edges/test_beside_brokers.py::test_a_link_is_used_no_longer_than_its_login_holds"),
    ),
)
