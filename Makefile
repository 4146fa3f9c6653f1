# One entry point for people and for CI, thin over Meson. Each target first installs what it lacks,
# on Debian with apt.
.DEFAULT_GOAL := help
.PHONY: help build run test lint asan bench instructions sim sim-long sim-mutants explore coverage \
  prove docs fuzz faults faults-long load hazards interop servers page openapi compose \
  compose-images kubernetes kubelet up install deb dist dist-check \
  release-notes clean
MAKEFLAGS += --no-print-directory
PREFIX ?= /usr/local
FUZZ_SECONDS ?= 60

# REDIS_SERVER=/path/to/server: what the tests start as their redis-server.
on_server = $(if $(REDIS_SERVER),tests/servers/with.sh "$(REDIS_SERVER)")

# $(call configure,FOLDER,OPTIONS): once; ninja does it again by itself when a meson.build changes.
configure = [ -f $(1)/build.ninja ] || { meson setup $(2) $(1) >$(1).log 2>&1 || \
  { cat $(1).log; rm -f $(1).log; exit 1; }; rm -f $(1).log; }

help: ## This list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

build: ## The program, at build/lockagent
	@deploy/install-deps.sh build
	@$(call configure,build,-Dtests=false)
	@ninja -C build --quiet

run: ## An agent on 127.0.0.1:8080 (LISTEN=...) over five Redis masters of its own, until Ctrl-C
	@deploy/install-deps.sh run
	@$(MAKE) build
	@exec deploy/local/run.sh build/lockagent

test: ## All tests (REDIS_SERVER=/path/to/server, as of faults, hazards and interop)
	@deploy/install-deps.sh test
	@$(call configure,build-test,)
	@ninja -C build-test --quiet
	@$(on_server) tests/run build-test --num-processes $$((3 * $$(nproc))) # many of them wait

lint: ## Formatting, clang-tidy, warnings of both compilers, shellcheck, and the lints of our own
	@deploy/install-deps.sh lint
	@export CC=clang; $(call configure,build-lint,-Dmutants=false)
	@tests/lint/run build-lint

asan: ## The tests of C again under AddressSanitizer, LeakSanitizer and UndefinedBehaviorSanitizer
	@deploy/install-deps.sh test
	@$(call configure,build-asan,-Db_sanitize=address$(,)undefined -Db_lundef=false)
	@ninja -C build-asan --quiet
	@export ASAN_OPTIONS=abort_on_error=1:detect_leaks=1:strict_string_checks=1; \
	  ASAN_OPTIONS=$$ASAN_OPTIONS:detect_stack_use_after_return=1 \
	  UBSAN_OPTIONS=halt_on_error=1:abort_on_error=1:print_stacktrace=1 \
	  tests/run build-asan --timeout-multiplier 4 --num-processes $$((2 * $$(nproc)))

bench: ## Pairs per second beside other clients and under load (QUICK=1, WRITE=1, ONLY="pairs held")
	@deploy/install-deps.sh test
	@$(call configure,build-bench,--buildtype=release)
	@ninja -C build-bench --quiet lockagent bench_tools
	@tests/bench/bench.py build-bench $(if $(QUICK),--quick) $(if $(ONLY),--only "$(ONLY)") \
	  $(if $(WRITE),--write) $(if $(AGAIN),--again)

instructions: ## A master's instructions for each lock, beside the allowed ones (WRITE=1)
	@deploy/install-deps.sh instructions
	@$(call configure,build-test,)
	@ninja -C build-test --quiet bench_tools
	@tests/bench/instructions.py build-test $(if $(WRITE),--write)

sim: ## The core under a virtual clock: each mutant, and 25,000 new seeds (SEED=n replays one)
	@deploy/install-deps.sh test
	@$(call configure,build-test,)
	@ninja -C build-test --quiet
	@tests/sim/run.py build-test --runs $(or $(RUNS),25000) $(if $(SHORT),--short) \
	  $(if $(SEED),--seed $(SEED)) --options="$(OPTIONS)"

sim-long: ## The same with five million new seeds (RUNS=...)
	@$(MAKE) sim RUNS=$(or $(RUNS),5000000)

coverage: ## What the simulator's schedules reach of the core, against the goals
	@deploy/install-deps.sh coverage
	@$(call configure,build-coverage,-Db_coverage=true -Dmutants=false -Dwerror=false)
	@ninja -C build-coverage --quiet tests/sim/sim tests/sim/sim_tight tests/guard/guard_world
	@tests/coverage/run.py build-coverage

prove: ## No undefined behaviour, for every input: Frama-C's Eva on small C (ONLY=round, BUGS=0)
	@deploy/install-deps.sh prove || echo "frama-c cannot be had here"
	@tests/prove/run.py $(if $(ONLY),--only "$(ONLY)") $(if $(filter 0,$(BUGS)),--drivers)

explore: ## Every schedule of small worlds, up to their bounds (SHORT=1: as in CI; SCRIPTS=...)
	@deploy/install-deps.sh test
	@$(call configure,build-explore,--buildtype=release -Db_ndebug=false)
	@ninja -C build-explore --quiet tests/explore/explore tests/guard/guard_world
	@tests/explore/run.py build-explore $(if $(SHORT),--short) \
	  $(if $(WRITE),--write docs/testing.md) $(SCRIPTS)

sim-mutants: ## Finds the killing seeds of all mutants again, and writes them down
	@deploy/install-deps.sh test
	@$(call configure,build-test,)
	@ninja -C build-test --quiet
	@tests/sim/find_seeds.py build-test
	@tests/sim/table.py docs/testing.md --write
	@tests/rules/rules.py write .

docs: ## What README.md, docs/ and the manual page show of the program, made anew
	@deploy/install-deps.sh test
	@$(call configure,build-test,)
	@ninja -C build-test --quiet lockagent
	@tests/sim/table.py docs/testing.md --write
	@tests/rules/rules.py write .
	@tests/docs/check.py build-test/lockagent --write

fuzz: ## All that parses, conversations and the core's schedule under libFuzzer (FUZZ_SECONDS=60)
	@deploy/install-deps.sh fuzz
	@export CC=clang; \
	  $(call configure,build-fuzz,-Dfuzz=true -Db_sanitize=address$(,)undefined -Db_lundef=false)
	@ninja -C build-fuzz --quiet fuzz_targets
	@tests/fuzz/run build-fuzz $(FUZZ_SECONDS)

faults: ## Real agents and masters under every fault, with a checker (SEED=1, ONLY=upgrade)
	@deploy/install-deps.sh test
	@$(call configure,build-test,)
	@ninja -C build-test --quiet
	@$(on_server) tests/faults/run.py build-test --seed $(or $(SEED),1) \
	  $(if $(ONLY),--only "$(ONLY)")

faults-long: ## The same in random order with new seeds, for TIME=3600 seconds from SEED=(random)
	@deploy/install-deps.sh test
	@$(call configure,build-test,)
	@ninja -C build-test --quiet
	@$(on_server) tests/faults/run.py build-test --for $(or $(TIME),3600) \
	  --seed $(or $(SEED),$$(od -An -N3 -tu4 /dev/urandom | tr -d ' '))

load: ## Holders beside strangers at work: no lock is lost (SHORT=1: as in CI; ONLY=reads)
	@deploy/install-deps.sh test
	@$(call configure,build-test,)
	@ninja -C build-test --quiet lockagent load_tools
	@$(on_server) tests/load/run.py build-test $(if $(SHORT),--short) $(if $(ONLY),--only "$(ONLY)")

hazards: ## Recipes for locks on Redis, each shown broken there and not here (WRITE=1, ONLY=DEL)
	@deploy/install-deps.sh test
	@$(call configure,build-test,)
	@ninja -C build-test --quiet
	@$(on_server) tests/hazards/run.py build-test $(if $(ONLY),--only "$(ONLY)") $(if $(WRITE),--write)

interop: ## Other clients beside agents, on the same masters and keys (WRITE=1, ONLY=redsync)
	@deploy/install-deps.sh test
	@$(call configure,build-test,)
	@ninja -C build-test --quiet
	@$(on_server) tests/interop/run.py build-test $(if $(ONLY),--only "$(ONLY)") \
	  $(if $(WRITE),--write)

servers: ## Integration tests and hazards on every server to be had (QUICK=1, WRITE=1, ONLY=8.0)
	@deploy/install-deps.sh test
	@$(call configure,build-test,)
	@ninja -C build-test --quiet
	@tests/servers/run.py build-test $(if $(ONLY),--only "$(ONLY)") $(if $(QUICK),--quick) \
	  $(if $(WRITE),--write)

page: ## The status page in a headless Chromium, on desk and phone (WRITE=1: docs/ pictures)
	@deploy/install-deps.sh test page
	@$(call configure,build-test,)
	@ninja -C build-test --quiet lockagent
	@tests/page/run.py build-test $(if $(WRITE),--pictures docs) $(if $(ONLY),--only "$(ONLY)")

openapi: ## Clients that two generators make of the API's description, and a real agent (needs Go)
	@deploy/install-deps.sh test
	@$(call configure,build-test,)
	@ninja -C build-test --quiet lockagent
	@tests/openapi/run.py build-test

up: ## docker-compose.yml: the agent, five masters and an app; says what to do without a registry
	@deploy/install-deps.sh up
	@deploy/compose/images.sh check
	@if command -v docker-compose >/dev/null; then docker-compose up -d --build; \
	  else docker compose up -d --build; fi

compose-images: ## What docker-compose.yml starts from, from Debian's packages, where no registry is
	@deploy/install-deps.sh compose-images
	@deploy/compose/images.sh make

compose: ## The containers: images, five masters, the agent, an app; a smoke test of it all
	@deploy/install-deps.sh compose
	@tests/compose/smoke.sh

kubernetes: ## Manifests and charts: rendered, read strictly, PodSecurity (needs Go; WRITE=1)
	@deploy/install-deps.sh kubernetes
	@$(call configure,build-test,)
	@ninja -C build-test --quiet lockagent
	@tests/kubernetes/render.sh build-kubernetes build-test/lockagent $(if $(WRITE),--write)

kubelet: ## The sidecar on a kubelet, in namespaces of its own (root, Docker, Go; 10 min once)
	@deploy/install-deps.sh node
	@tests/kubernetes/node/build.sh build-kubernetes
	@deploy/compose/images.sh make
	@docker build -q -t lockagent:node .
	@tests/kubernetes/node/run.sh build-kubernetes lockagent:node curlimages/curl:8.14.1

install: ## The program, manual page, completions and systemd unit, below PREFIX and DESTDIR
	@deploy/install-deps.sh build
	@$(call configure,build-install,-Dtests=false --buildtype=release --strip)
	@meson configure build-install --prefix=$(PREFIX)
	@meson install -C build-install

deb: ## Debian's package into build-deb, tried in a system of its own (as root)
	@deploy/install-deps.sh deb
	@tests/deb/run.sh build-deb

dist: ## The last commit's source archive into build-dist, with checksums
	@deploy/install-deps.sh dist
	@deploy/dist.sh build-dist

dist-check: dist ## Its tests on fresh Debian 12 and 13, in containers (SUITE=unit, ONLY=images)
	@deploy/install-deps.sh compose-images
	@ONLY="$(ONLY)" SUITE="$(SUITE)" tests/dist/check.sh build-dist

release-notes: ## What CHANGELOG.md says of this version; fails if its figures are of another one
	@tests/docs/version.py --notes
	@tests/bench/program.py

clean: ## Removes what the targets above have built
	@rm -rf build build-test build-lint build-asan build-bench build-coverage build-explore \
	  build-deb build-dist build-fuzz build-install build-kubernetes build-servers

, := ,
