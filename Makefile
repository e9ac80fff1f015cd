# Two commands: `make run` and `make test`. Both fetch what cargo cannot into .runtime/ (see scripts/fetch_runtime.py).

PYTHON ?= python3
CARGO ?= cargo
export CARGO_TERM_COLOR ?= auto

FUZZ_SECONDS ?= 600

.PHONY: run test fuzz bench bench-peers clients console-test train-smoke container-test s3-test release clean runtime training-runtime postgres-runtime tools

run: runtime ## Builds the server and starts it on 127.0.0.1:7700 with the shipped model and its data in ./data
	$(CARGO) run --release -- serve

# API tests that do not apply to PostgreSQL: they need a snapshot, which that store does not have, read the size of SQLite's log, or
# check a search's method: PostgreSQL compares a query with all passages of a small collection, at full precision.
NOT_ON_POSTGRES = archives snapshot imported_and_restored event_streams_have_their_own_limit event_streams_are_not_compressed \
	no_request_causes_a_server_error no_foreign_page_starts a_job_is_canceled_by_those_who_may \
	the_encoder_are_counted uses_the_graph_below_a_thousand_passages can_set_ef_search_and_oversampling

# Tests the whole workspace at once, so that dependencies are built once. The modules that the trainer uses must also compile without
# the server's features.
test: runtime training-runtime postgres-runtime ## Runs all tests that need no GPU and no Docker engine
	$(CARGO) test --workspace
	DRAGOMAN_TEST_STORE=postgres $(CARGO) test --workspace --test api -- $(NOT_ON_POSTGRES:%=--skip %)
	$(CARGO) check --package dragoman --lib --no-default-features

fuzz: runtime ## Looks for inputs that break the server, for FUZZ_SECONDS (600); see tests/fuzz/main.rs
	DRAGOMAN_FUZZ_S=$(FUZZ_SECONDS) $(CARGO) test --test fuzz -- --test-threads 1 --nocapture

bench: runtime postgres-runtime bench-peers ## Prints ratios measured in one run on this machine
	$(CARGO) bench --bench embedding --bench http --bench text --bench index --bench filters --bench mining --bench start_up --bench memory --bench growth --bench search --bench peers --bench stores

bench-peers: tools ## Installs the databases that `make bench` compares with into .runtime
	@test -x .runtime/chroma/bin/chroma || { $(PYTHON) -m venv .runtime/chroma && .runtime/chroma/bin/pip install --quiet chromadb==1.5.9; }

clients: runtime ## Generates clients from the API description and runs them against a live server; builds and tests the packages in clients/; imports exports of other databases
	scripts/clients.sh
	scripts/client_packages.sh
	scripts/migration.sh

console-test: runtime ## Clicks through the web console in headless Chromium, with the built program
	scripts/console_tests.sh

train-smoke: training-runtime runtime ## Runs all training steps on a few sentences, from text to a bundle: checks the steps, not the model
	scripts/train_smoke.sh

# To package a program that is already built: make release PROGRAM=…
PROGRAM ?= target/release/dragoman

container-test: runtime postgres-runtime $(PROGRAM) ## Builds and tests the image on this machine's Docker engine; without an engine, says so and skips
	scripts/container_test.sh $(PROGRAM)

s3-test: runtime $(PROGRAM) ## Stores scheduled snapshots on an S3 server from PyPI and restores them
	scripts/s3_test.sh $(PROGRAM)

release: runtime $(PROGRAM) ## Packages the program for this machine with everything it needs: dist/dragoman-VERSION-MACHINE-linux.tar.gz
	scripts/release.sh $(PROGRAM)

target/release/dragoman: tools
	$(CARGO) build --release --locked --bin dragoman

clean: ## Removes what was built and fetched, but not the data or trained models
	$(CARGO) clean
	rm -rf .runtime dist runs/smoke

runtime: tools
	@$(PYTHON) scripts/fetch_runtime.py serving

training-runtime: tools
	@$(PYTHON) scripts/fetch_runtime.py training

postgres-runtime: tools
	@$(PYTHON) scripts/fetch_runtime.py postgres

tools:
	@command -v $(CARGO) >/dev/null || { echo "error: cargo is missing; install a Rust toolchain (1.92 or newer)" >&2; exit 1; }
	@command -v c++ >/dev/null || { echo "error: a C++ compiler is missing; install one (on Debian: the package g++)" >&2; exit 1; }
	@command -v $(PYTHON) >/dev/null || { echo "error: $(PYTHON) is missing; install Python 3 (on Debian: the packages python3 and python3-pip)" >&2; exit 1; }
