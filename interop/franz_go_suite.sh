#!/bin/sh
# franz-go's own group tests against a server, over and over:
#
#   interop/franz_go_suite.sh HOST:PORT [ROUNDS=3]
#
# TestGroupETL chains three groups of six to nine consumers over four topics, members joining, leaving and quitting
# without their last commit, and allows no record to be lost or seen twice: with range, cooperative-sticky, and that with
# static members, all three at once. Variants of what a server doesn't advertise (KIP-848) skip themselves: -test.skip
# would keep their places in a semaphore of four.
# Exit 0 when every round passes. A failed round's log stays in the cache folder and is named.
# TESTS="^TestTxnEtl$" chooses others, WITHIN=300s gives them another time, COPIES=3 their topics more replicas.
# KGO_TEST_RECORDS (10000), KGO_LOG_LEVEL (none; "info" or "debug" to see the client's side) are passed on.
set -eu

VERSION=v1.22.2
SERVER=${1:?usage: $0 HOST:PORT [ROUNDS]}
ROUNDS=${2:-3}
CACHE=${XDG_CACHE_HOME:-$HOME/.cache}/muster-interop/franz-go-suite
TEST=$CACHE/kgo-$VERSION.test

if ! command -v go >/dev/null; then
    echo "not here: go" >&2
    exit 77
fi

# Its tests need nothing but the module itself; -mod=mod lets ours, of one requirement, write its own sums.
if [ ! -x "$TEST" ]; then
    mkdir -p "$CACHE/module"
    cd "$CACHE/module"
    rm -f go.mod go.sum
    go mod init franz-go-suite >/dev/null 2>&1
    GOFLAGS=-mod=mod go get "github.com/twmb/franz-go@$VERSION"
    GOFLAGS=-mod=mod go test -c -o "$TEST.new" github.com/twmb/franz-go/pkg/kgo
    mv "$TEST.new" "$TEST"
fi

export KGO_SEEDS="$SERVER" KGO_TEST_RF="${COPIES:-1}"
export KGO_TEST_RECORDS="${KGO_TEST_RECORDS:-10000}" KGO_LOG_LEVEL="${KGO_LOG_LEVEL:-none}"
round=1
failed=0
while [ "$round" -le "$ROUNDS" ]; do
    log=$CACHE/round-$round.log
    started=$(date +%s)
    if "$TEST" -test.v -test.timeout "${WITHIN:-120s}" -test.run "${TESTS:-^(TestGroupETL|TestGroupSimple)\$}" >"$log" 2>&1; then
        echo "round $round of $ROUNDS: passed in $(($(date +%s) - started)) s"
    else
        failed=$((failed + 1))
        echo "round $round of $ROUNDS: FAILED after $(($(date +%s) - started)) s, see $log"
    fi
    grep -E '^ *--- (PASS|FAIL|SKIP)' "$log" || true
    round=$((round + 1))
done
echo "$((ROUNDS - failed)) passed, $failed failed"
[ "$failed" -eq 0 ]
