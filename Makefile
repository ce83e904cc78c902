# One environment, installed in three steps that each leave a stamp: a second run of any target starts at once.
PYTHON ?= python3
VENV   ?= .venv
ARGS   ?=
SEEDS  ?= 300
INPUTS ?= 100000
ROUNDS ?= 10
KILLS  ?= 1000
SPARK  ?= 4.2
# Kinds of simulated worlds; each runs, whatever the ones before it find.
WORLDS := tests.simulation tests.client.streams.connector_histories $(addprefix tests.simulation., \
          balanced_world beside_world accounts_world consumer_world cluster_world)
BIN    := $(VENV)/bin
PIP    := $(BIN)/python -m pip --disable-pip-version-check --quiet
SERVE  := $(VENV)/.installed-daemon
DEMO   := $(VENV)/.installed-demo
ALL    := $(VENV)/.installed-all

# Each process of the tests would compile the sources anew.
unexport PYTHONDONTWRITEBYTECODE

# COMPILED=1: the hot path is compiled first, and the tests refuse to run without it.
COMPILED ?=
export COMPILED
LIBRARIES := $(if $(COMPILED),compiled)

.NOTPARALLEL:
.PHONY: help setup run demo report compiled pure test quick check lint simulate fuzz explore bench crash torture owners sharing spark mutants interop differential franzgo balanced outages nodes transactions faults table scenarios reference config wire transcripts wheel clean

help: ## this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

setup: $(ALL) ## install everything into .venv

run: $(SERVE) ## serve with the defaults; ARGS="--data-dir DIR --set KEY=VALUE" passes flags
	@exec $(BIN)/musterd $(ARGS)

demo: $(DEMO) ## the flights of New York through one group: Spark, plain consumers, one of Kafka's, one killed
	@$(BIN)/python -m demo $(ARGS)

report: $(DEMO) ## the demo, then pipelines on what its groups did: report.html
	@$(BIN)/python -m demo --report report.html $(ARGS)

compiled: $(ALL) ## compile the hot path with mypyc, in place; some minutes, and a C compiler
	$(BIN)/python hatch_build.py compile

pure: ## remove what was compiled in place
	find coordinator diagnosis membership muster partition_log protocol purgatory pyspark_muster -name '*.so' -delete
	rm -f muster__mypyc*.so

test: $(ALL) $(LIBRARIES) ## lint and tests, but for long ones and two thirds of enumerations; ARGS="-k NAME" chooses; COMPILED=1
	@$(BIN)/python -m tests.suite $(ARGS)

quick: $(ALL) $(LIBRARIES) ## ruff, import contracts, tests without processes, Spark and worlds, a tenth of enumerations
	@$(BIN)/python -m tests.suite --quick $(ARGS)

check: $(ALL) ## what CI runs: lint and every test; then tests of the compiled hot path
	@$(BIN)/python -m tests.suite --all $(ARGS)
	@$(BIN)/python -m tests.suite --compiled $(ARGS)

lint: $(ALL) ## ruff, mypy --strict and the import contracts
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo

simulate: $(ALL) ## SEEDS=N simulated worlds of each kind, each checked after every step; ARGS is for the first kind alone
ifeq ($(ARGS),)
	@failed=0; for kind in $(WORLDS); do \
		echo "$$kind --seeds $(SEEDS)"; $(BIN)/python -m $$kind --seeds $(SEEDS) || failed=1; \
	done; exit $$failed
else
	$(BIN)/python -m tests.simulation --seeds $(SEEDS) $(ARGS)
endif

fuzz: $(ALL) ## INPUTS=N broken inputs for each decoder of strangers' bytes, and for a whole node
	$(BIN)/python -m tests.protocol.kafka.fuzz --inputs $(INPUTS) $(ARGS)

explore: $(ALL) ## ROUNDS=N times the properties, each time with examples nobody has seen; ARGS="-k NAME" chooses
	set -e; for round in $$(seq $(ROUNDS)); do \
		MUSTER_EXAMPLES=explore TEST_ENUMERATIONS=all $(BIN)/python -m pytest -q -m hypothesis -n 2 --dist loadgroup $(ARGS); \
	done

bench: $(ALL) ## microseconds a request, rebalance times and timers, next to a bare echo server
	$(BIN)/python -m bench $(ARGS)

crash: $(ALL) ## kill -9 the daemon under commits, again and again
	$(BIN)/python -m bench.crash $(ARGS)

torture: $(ALL) ## KILLS=N times kill -9 with segments so small that any phase is hit
	$(BIN)/python -m bench.crash --torture --kills $(KILLS) $(ARGS)

owners: $(ALL) ## kill readers by grants and their daemon over a million records: one owner a partition
	$(BIN)/python -m bench.owners $(ARGS)

sharing: $(ALL) ## two Spark queries and two services in one group: scaled, drained, killed, held; each record once
	$(BIN)/python -m bench.sharing $(ARGS)

spark: $(ALL) ## SPARK=4.2: Spark's tests with another pyspark, which is installed into .spark-4.2; some minutes
	test -d .spark-$(SPARK) || $(PIP) install --no-deps --target .spark-$(SPARK) "pyspark==$(SPARK).*"
	PYTHONPATH=$(CURDIR)/.spark-$(SPARK) $(BIN)/python -m pytest -q -n 0 tests/spark tests/edges/test_spark*.py $(ARGS)

mutants: $(ALL) ## put deliberate bugs into copies of the code: each must be found
	$(BIN)/python -m tests.mutants $(ARGS)

interop: $(ALL) ## other clients of any language against a fresh daemon; ARGS="kcat java --only mixed" chooses
	$(BIN)/python -m interop $(ARGS)

differential: $(ALL) ## ROUNDS=N random histories put to an Apache Kafka 4.3.1 and to musterd in step: answers compared
	$(BIN)/python -m interop.differential --rounds $(ROUNDS) $(ARGS)

franzgo: $(ALL) ## franz-go's own group tests, KIP-848 variants too, three rounds at a fresh daemon; wants Go
	$(BIN)/python -m interop.franz_go $(ARGS)

balanced: $(ALL) ## other clients with group.protocol=consumer at an Apache Kafka 4.3.1 and at musterd, side by side
	$(BIN)/python -m interop.consumer $(ARGS)

outages: $(ALL) ## musterd in front of three Apache Kafka brokers, killed, restarted and away, under load; 8 minutes
	$(BIN)/python -m interop.outages $(ARGS)

nodes: $(ALL) ## three musterd over the log of three Apache Kafka brokers, killed, stopped, asleep, cut off; 25 minutes
	$(BIN)/python -m interop.shared_log
	$(BIN)/python -m interop.nodes $(ARGS)

transactions: $(ALL) ## other clients' transactions through two musterd that are killed: each record once; 10 minutes
	$(BIN)/python -m interop.exactly_once $(ARGS)

faults: $(ALL) ## disks and networks that fail for real: loop devices, namespaces; 6 minutes, root; ARGS="freezes" chooses
	$(BIN)/python -m bench.faults $(ARGS)

table: $(ALL) ## print the state tables into docs/state-table.md, and permissions into docs/security.md
	$(BIN)/python -m coordinator.tools.state_table_page > docs/state-table.md
	$(BIN)/python -m coordinator.tools.access_page < docs/security.md > docs/security.md.new
	mv docs/security.md.new docs/security.md

scenarios: $(ALL) ## print which test shows which scenario into docs/scenarios.md
	$(BIN)/python -m tests.client.scenarios > docs/scenarios.md

reference: $(ALL) ## print the client's classes, settings and errors into docs/client.md
	$(BIN)/python -m tests.client.reference < docs/client.md > docs/client.md.new
	mv docs/client.md.new docs/client.md

config: $(SERVE) ## print the keys into deploy/musterd.toml
	$(BIN)/python -m coordinator.config.help > deploy/musterd.toml

wire: $(ALL) ## print the methods and APIs into docs/wire.md and docs/kafka.md
	$(BIN)/python -m protocol.native.page < docs/wire.md > docs/wire.md.new
	mv docs/wire.md.new docs/wire.md
	$(BIN)/python -m protocol.kafka.page < docs/kafka.md > docs/kafka.md.new
	mv docs/kafka.md.new docs/kafka.md

transcripts: $(ALL) ## rewrite the transcripts with what the code does now: read the diff
	REWRITE_TRANSCRIPTS=1 $(BIN)/python -m pytest -q tests/transcripts $(ARGS)

wheel: $(ALL) ## build the pure wheel into dist/ and, where there is a C compiler, that of this platform
	$(PIP) wheel --no-deps --no-build-isolation --wheel-dir dist .
	@! $(BIN)/python hatch_build.py possible || { set -x; \
		HATCH_BUILD_HOOK_ENABLE_CUSTOM=true $(PIP) wheel --no-deps --no-build-isolation --wheel-dir dist .; }

clean: pure ## remove the environment, caches, what was compiled, and the default data folder
	rm -rf $(VENV) .spark-* dist build muster-data spark-warehouse .mypy_cache .ruff_cache .pytest_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
		|| { echo 'Python 3.11 or newer is needed: make PYTHON=python3.11 ...' >&2; exit 1; }
	@$(PYTHON) -m venv $(VENV)

$(SERVE): pyproject.toml | $(BIN)/python
	@echo 'installing the daemon into $(VENV)' >&2
	@$(PIP) install --editable .
	@touch $@

$(DEMO): pyproject.toml | $(BIN)/python
	@echo 'installing the daemon, Spark and the flights into $(VENV): a gigabyte, a minute or two' >&2
	@$(PIP) install --editable '.[demo]'
	@touch $@ $(SERVE)

$(ALL): pyproject.toml | $(BIN)/python
	@echo 'installing everything, the checkers included, into $(VENV): a gigabyte, a minute or two' >&2
	@$(PIP) install --editable '.[dev]'
	@touch $@ $(SERVE) $(DEMO)
