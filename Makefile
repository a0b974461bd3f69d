# Garrison. `make help` lists the targets.

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
MODULE := github.com/garrison-fleet/garrison
MODULES := proto pkg services/registry services/image-catalog services/task-dispatcher services/access services/gateway \
  services/executor services/operator deploy/allinone deploy/release e2e
VERSION := $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
BIN := $(CURDIR)/bin

BUF := go run github.com/bufbuild/buf/cmd/buf@v1.72.0
STATICCHECK := go run honnef.co/go/tools/cmd/staticcheck@v0.8.2
REVIVE := go run github.com/mgechev/revive@v1.13.0
GOVULNCHECK := go run golang.org/x/vuln/cmd/govulncheck@v1.1.4

# Static binaries without paths of this machine, with their version. Every step compiles with the same flags, so that
# the programs, vet, the linters and the tests share what is compiled.
export CGO_ENABLED ?= 0
export GOFLAGS := $(GOFLAGS) -trimpath -buildvcs=false
RACE :=
BUILD := go build $(RACE) -ldflags "-s -w -X $(MODULE)/pkg/version.Version=$(VERSION)"

PROGRAMS := garrisond garrison registry image-catalog task-dispatcher access gateway executor garrison-sim beacon rig
garrisond.src := ./deploy/allinone/cmd/garrisond
garrison.src := ./services/operator/cmd/garrison
registry.src := ./services/registry/cmd/registry
image-catalog.src := ./services/image-catalog/cmd/image-catalog
task-dispatcher.src := ./services/task-dispatcher/cmd/task-dispatcher
access.src := ./services/access/cmd/access
gateway.src := ./services/gateway/cmd/gateway
executor.src := ./services/executor/cmd/executor
garrison-sim.src := ./services/executor/simulation/garrison-sim
beacon.src := ./e2e/agents/beacon
rig.src := ./e2e/cmd/rig

AGENT ?= beacon
EXPORTER_VERSIONS := 1.9.1 1.10.2
KEEP ?=
RUN ?=

.DEFAULT_GOAL := help

.PHONY: help
help: ## list the targets
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / {printf "  %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: build
build: ## build every program into bin/
	@mkdir -p $(BIN)
	@$(BUILD) -o $(BIN)/ $(foreach p,$(PROGRAMS),$($(p).src))

.PHONY: demo
demo: build $(if $(filter node_exporter,$(AGENT)),exporters) ## run the demo; AGENT=node_exporter: a third-party agent; KEEP=1: leave it running
	@$(BIN)/rig demo --bin $(BIN) --agent $(AGENT) $(if $(KEEP),--keep)

UPGRADES ?= 100
TAKEOVER ?= overlap

.PHONY: handover
handover: build ## upgrade an agent UPGRADES=100 times under load, count lost requests; TAKEOVER=restart or ITSELF=1 to compare
	@$(BIN)/rig handover --bin $(BIN) --upgrades $(UPGRADES) --takeover $(TAKEOVER) $(if $(ITSELF),--itself)

ROUNDS ?= 10
MODE ?= both
KINDS ?=
SEED ?=

.PHONY: chaos
chaos: build ## run ROUNDS=10 rounds of random faults and check everything after each; MODE=apart|one|both, KINDS=list, SEED=n
	@$(BIN)/rig chaos --bin $(BIN) --rounds $(ROUNDS) --mode $(MODE) --kinds "$(KINDS)" $(if $(SEED),--seed $(SEED))

FAULT ?= 0

.PHONY: sim
sim: build ## install and upgrade an agent on SERVERS=100 simulated servers; FAULT=0.05, KILL=1, SEED=n; ROLLOUT=1 KILL=2s: in waves
	@$(BIN)/rig simulate --bin $(BIN) --servers $(or $(SERVERS),100) --fault $(FAULT) $(if $(SEED),--seed $(SEED)) \
	  $(if $(ROLLOUT),--rollout $(if $(KILL),--kill-every $(KILL)),$(if $(KILL),--kill)) \
	  $(if $(WAVES),--waves $(WAVES)) $(if $(MAX_BROKEN),--max-broken $(MAX_BROKEN)) $(if $(DURATION),--duration $(DURATION)) $(if $(CONCURRENCY),--concurrency $(CONCURRENCY))

.PHONY: screens
screens: build ## compare what a person sees of 300 simulated servers and a rollout with e2e/screens; UPDATE=1 writes it
	@GARRISON_BIN=$(BIN) e2e/screens.sh

CASES ?= 100000

.PHONY: prop
prop: ## check the promises of rollouts on CASES=100000 random fleets, strategies and histories with stale engines
	go test -count=1 -timeout 1h ./services/registry/internal/rollout -run KeepThePromises -rapid.checks=$(CASES)

RUNS ?= 200

.PHONY: forecast
forecast: ## print what rollouts of RUNS=200 good and bad versions do to SERVERS=10000 virtual servers
	go test -count=1 -timeout 1h ./services/registry/internal/rollout/forecast -run FindsFaults -v -runs $(RUNS) \
	  -servers $(or $(SERVERS),10000)

DEPLOYMENT ?= both

.PHONY: attack
attack: build ## run the book of attacks, a line for each with its figures; DEPLOYMENT=one|apart|both, RUN=regexp for some
	@cd e2e/attack && GARRISON_BIN=$(BIN) go test -count=1 -timeout 60m -full -deployment $(DEPLOYMENT) \
	  -run 'TestTheBook$(if $(RUN),/.*/$(RUN))'

LOSSES ?= alone,none,lagging,killed,paused,cut off,two dead
TIMES ?= 1

.PHONY: cluster-test
cluster-test: build ## read from a replica that lags; lose each server of the bus under load, beside a bus of one; SERVERS=200, LOSSES=kinds, TIMES=1
	GARRISON_CLUSTER=1 go test -count=1 -timeout 5m -run 'LagsBehind|FreshRead' \
	  ./pkg/bus ./services/registry/internal/serve/intents ./services/executor/internal/link
	$(BIN)/rig failover --bin $(BIN) --servers $(or $(SERVERS),200) --rounds $(TIMES) --only '$(LOSSES)'

.PHONY: exporters
exporters: ## build two releases of Prometheus node_exporter from its Go module
	@$(foreach v,$(EXPORTER_VERSIONS),$(MAKE) --no-print-directory $(BIN)/node_exporter-$(v) &&) true

$(BIN)/node_exporter-%:
	@mkdir -p $(BIN)
	@d=$$(mktemp -d) && trap 'rm -rf "$$d"' EXIT && cd / && \
	  GOWORK=off GOBIN=$$d go install -ldflags "-s -w -X github.com/prometheus/common/version.Version=$*" \
	    github.com/prometheus/node_exporter@v$* && \
	  mv $$d/node_exporter $@

.PHONY: test
test: build ## run all tests; RUN=regexp for some; LANES="plain crowded scenario" for some of e2e/test.sh
	@RUN='$(RUN)' e2e/test.sh

.PHONY: check
check: format commits fetch build compile ## everything that CI runs; ends with what failed
	@e2e/check.sh

.PHONY: nightly
nightly: build ## what takes too long for each change: all tests with the race detector, faults, kills, attacks, fuzzing
	@e2e/nightly.sh

N ?= 20

.PHONY: flaky
flaky: build ## run the tests of PKG="./pkg/..." N=20 times beside a load of four; RUN=regexp for some
	@RUN='$(RUN)' e2e/flaky.sh $(N) $(PKG)

# A download that starts on busy processors runs into the time-outs of its handshake, so all of them come first.
.PHONY: fetch
fetch: ## download the modules that builds, tests, linters and generators need; three tries
	@for try in 1 2 3; do \
	  failed=; \
	  for m in $(MODULES); do \
	    out=$$(cd $$m && GOWORK=off go mod tidy -diff 2>&1 >/dev/null) || case "$$out" in *"Get \""*) failed=$$out;; esac; done; \
	  for tool in "$(BUF) --version" "$(STATICCHECK) -version" "$(REVIVE) -version"; do \
	    out=$$($$tool 2>&1) || failed=$$out; done; \
	  [ -n "$$failed" ] || exit 0; sleep 5; done; \
	echo "cannot download what the checks need:"; echo "$$failed"; exit 1

# Tests that wait for processes have bounds, so nothing compiles beside them.
.PHONY: compile
compile: ## compile what the tests need
	@go list -test -deps -export $(addsuffix /...,$(addprefix ./,$(MODULES))) >/dev/null
	@$(MAKE) --no-print-directory raced

.PHONY: raced
raced: ## build the programs of the lane scenario with the race detector, into bin/raced
	@$(MAKE) --no-print-directory build BIN=$(BIN)/raced CGO_ENABLED=1 RACE=-race \
	  PROGRAMS="garrisond registry image-catalog task-dispatcher access executor garrison beacon"

.PHONY: static
static: vet proto-lint breaking fresh tidy-check lint ## every check that runs nothing

BASE ?= HEAD

.PHONY: quick
quick: ## vet, source rules and short tests of the packages that changed since BASE=HEAD; under a minute
	@e2e/quick.sh $(BASE)

.PHONY: cover
cover: ## test coverage of PKG=./pkg/...; writes bin/cover.html
	@mkdir -p $(BIN)
	go test -short -coverprofile=$(BIN)/cover.out -coverpkg=$(PKG) $(PKG)
	go tool cover -html=$(BIN)/cover.out -o $(BIN)/cover.html
	@go tool cover -func=$(BIN)/cover.out | tail -1

PKG ?= ./pkg/...
FUZZTIME ?= 30s

.PHONY: fuzz
fuzz: ## run every fuzz test for FUZZTIME=30s
	@git grep -l '^func Fuzz' -- '*_test.go' | while read -r f; do \
	  for n in $$(sed -n 's/^func \(Fuzz[A-Za-z0-9_]*\).*/\1/p' "$$f"); do \
	    go test -run '^$$' -fuzz "^$$n\$$" -fuzztime $(FUZZTIME) "./$$(dirname "$$f")" || exit 1; done; done

.PHONY: vuln
vuln: ## govulncheck, pinned; needs the vulnerability database on the network
	$(GOVULNCHECK) $(addsuffix /...,$(addprefix ./,$(MODULES)))

.PHONY: doc
doc: ## print the Go documentation of PKG=./pkg/...
	@for p in $$(go list $(PKG)); do go doc -all "$$p" || exit 1; echo; done

.PHONY: run
run: build ## run garrisond and one executor in a temporary directory; Ctrl-C stops and deletes them
	@deploy/run.sh $(BIN)

.PHONY: format
format: ## fail when a file is not formatted
	@out=$$(gofmt -l $$(git ls-files '*.go')); if [ -n "$$out" ]; then \
	  echo "not formatted (run gofmt -w):"; echo "$$out"; exit 1; fi

.PHONY: vet
vet: ## go vet
	go vet work

.PHONY: lint
lint: ## lint Go code: staticcheck and revive, pinned
	$(STATICCHECK) $(addsuffix /...,$(addprefix ./,$(MODULES)))
	$(REVIVE) -config e2e/arch/revive.toml -set_exit_status -exclude ./proto/gen/... \
	  $(addsuffix /...,$(addprefix ./,$(MODULES)))

.PHONY: commits
commits: ## fail when a commit subject since CONTRIBUTING.md exceeds 72 columns
	@first=$$(git log --diff-filter=A --format=%h -- CONTRIBUTING.md | tail -1); \
	long=$$(git log --format='%h%x09%s' $${first:-HEAD}..HEAD | awk -F'\t' 'length($$2) > 72'); \
	if [ -n "$$long" ]; then echo "commit subjects over 72 columns:"; echo "$$long"; exit 1; fi

.PHONY: proto-lint
proto-lint: ## buf lint
	cd proto && $(BUF) lint

.PHONY: breaking
breaking: ## fail when the contract breaks the released one, proto/baseline.binpb
	cd proto && $(BUF) breaking --against baseline.binpb

.PHONY: baseline
baseline: ## at a release: record the contract that later changes must not break
	cd proto && $(BUF) build --exclude-source-info -o baseline.binpb

.PHONY: gen
gen: ## generate Go from the contract and from the page of refusal codes
	cd proto && rm -rf gen/garrison && $(BUF) generate
	go generate ./pkg/code
	$(OPENAPI) >$(OPENAPI_FILE).new && mv $(OPENAPI_FILE).new $(OPENAPI_FILE)

OPENAPI := (cd proto && $(BUF) build -o -) | go run ./services/gateway/internal/openapi/generate
OPENAPI_FILE := services/gateway/internal/openapi/openapi.json

.PHONY: fresh
fresh: ## fail when generated code does not match the contract or the page of codes; changes nothing, so that others can compile meanwhile
	@d=$$(mktemp -d) && trap 'rm -rf "$$d"' EXIT && (cd proto && $(BUF) generate -o $$d) && \
	  diff -r $$d/gen/garrison proto/gen/garrison >$$d/differs || { echo "proto/gen is stale (run make gen):"; cat $$d/differs; exit 1; }
	@go test ./pkg/code/generate
	@$(OPENAPI) | cmp - $(OPENAPI_FILE) || { echo "$(OPENAPI_FILE) is stale (run make gen)"; exit 1; }

.PHONY: tidy
tidy: ## go mod tidy in every module
	@$(foreach m,$(MODULES),(cd $(m) && GOWORK=off go mod tidy) &&) true

.PHONY: tidy-check
tidy-check: ## fail when a go.mod is not tidy
	@$(foreach m,$(MODULES),(cd $(m) && GOWORK=off go mod tidy -diff) &&) true

.PHONY: golden
golden: ## rewrite the golden files and the diagrams
	go test -count=1 ./pkg/topology ./services/image-catalog ./services/access \
	  ./services/{registry,image-catalog,task-dispatcher,access}/internal/view -run 'Golden|Readme|Layout|ThePage' -update
	UPDATE=1 go test -count=1 ./services/registry ./services/executor/internal/lifecycle -run 'Diagram|ThePage'

AGENTS ?= 10
QUICK ?=
comma := ,

.PHONY: bench
bench: build ## run the benchmarks of e2e/bench/README.md and name what got worse; ONLY=NAMES for some; SERVERS=N of the inventory or the fleet; QUICK=1: a tenth; RECORD=1: record the ratios
	@GARRISON_BIN=$(BIN) go test ./e2e/bench -v -run '^$$' -bench '(?i)^Benchmark($(if $(ONLY),$(subst $(comma),|,$(ONLY)),.*))$$' \
	  -benchtime 1x -timeout 0 -agents $(AGENTS) $(if $(SERVERS),-servers $(SERVERS)) $(if $(QUICK),-quick) $(if $(RECORD),-record)

.PHONY: pairs
pairs: build ## compare the processor time of two builds, the directories BEFORE and AFTER, changed in turns; SERVERS=300
	@$(BIN)/rig pairs --bins $(BEFORE),$(AFTER) --servers $(or $(SERVERS),300)

KILLS ?= 1000
CUTS ?= 200
WITHIN ?=

.PHONY: crash
crash: ## kill an executor KILLS times in each operation, also at each start of a new version, and cut the power CUTS times; report leftovers; WITHIN=20m bounds each test
	@mkdir -p $(BIN)
	@services/executor/crash.sh $(BIN) $(KILLS) $(CUTS) $(WITHIN)

.PHONY: slow-disk
slow-disk: ## upgrade an agent on a disk throttled to 2 MB/s; needs root and the blkio controller
	cd services/executor && GARRISON_SLOW_DISK=1 go test -count=1 -timeout 2m -v -run 'OnASlowDisk' ./internal/engine

.PHONY: crash-seeds
crash-seeds: ## seed one bug after another into the executor and count those that the crash tests catch
	@mkdir -p $(BIN)
	@services/executor/crash-seeds.sh $(BIN)

SELF ?=
KEY ?=

.PHONY: self-image
self-image: build ## build an image that upgrades executors to this source; SELF=1.2.3 is its version; KEY=FILE signs it
	@test -n "$(SELF)" || { echo "missing version: make self-image SELF=1.2.3"; exit 2; }
	@d=$$(mktemp -d) && trap 'rm -rf "$$d"' EXIT && cp deploy/executor/garrison.yaml $$d/ && \
	  go build -trimpath -buildvcs=false -ldflags "-s -w -X $(MODULE)/pkg/version.Version=$(SELF)" -o $$d/executor $(executor.src) && \
	  $(BIN)/garrison image build $$d --version $(SELF) $(if $(KEY),--key $(KEY)) --out $(BIN)/executor-$(SELF).gimg

# Tests share the one systemd, so they run one after the other. A fetch has nothing to do with the supervisor.
SYSTEMD_BENCH := $(BIN)/systemd

.PHONY: systemd-test
systemd-test: build ## test the engine and the units under a real systemd in namespaces; needs root, systemd, dbus; RUN=regexp
	@mkdir -p $(SYSTEMD_BENCH)
	@go test -vet=off -c -o $(SYSTEMD_BENCH)/ ./services/executor/internal/engine ./services/executor ./deploy/allinone
	@$(BUILD) -o $(SYSTEMD_BENCH)/agent ./services/executor/internal/engine/testdata/agent
	@$(BUILD) -o $(SYSTEMD_BENCH)/self ./services/executor/testdata/self
	@$(foreach v,1.0.0 2.0.0 3.0.0,$(BUILD) -ldflags "-s -w -X $(MODULE)/pkg/version.Version=$(v)" -o $(SYSTEMD_BENCH)/executor-$(v) $(executor.src) &&) true
	@$(BUILD) -ldflags "-s -w -X $(MODULE)/pkg/version.Version=99.0.0" -o $(SYSTEMD_BENCH)/garrisond-next $(garrisond.src)
	@cp $(addprefix $(BIN)/,garrisond registry image-catalog task-dispatcher access) deploy/systemd/*.service deploy/systemd/garrison.sysusers $(SYSTEMD_BENCH)/
	@cd $(SYSTEMD_BENCH) && $(CURDIR)/services/executor/systemd-test.sh 2400 '\
	  install -D executor-1.0.0 /usr-local/executor; sed "s:/usr/local/bin/executor:/usr-local/executor:" garrison-executor.service > /run/systemd/system/garrison-executor.service && \
	  systemd-analyze verify --man=no /run/systemd/system/garrison-executor.service && \
	  systemd-sysusers /bench/garrison.sysusers && \
	  for p in garrisond registry image-catalog task-dispatcher access; do install -D $$p /usr-local/$$p; done && \
	  for u in garrisond garrison@; do sed "s:/usr/local/bin/:/usr-local/:" $$u.service > /run/systemd/system/$$u.service; done && \
	  systemd-analyze verify --man=no /run/systemd/system/garrisond.service /run/systemd/system/garrison@registry.service && \
	  GARRISON_TEST_BENCH=/bench /bench/allinone.test -test.timeout 300s -test.parallel 1 -test.v -test.run "$(or $(RUN),TheUnit)" && \
	  mkdir -p /srv && export TMPDIR=/srv && GARRISON_SUPERVISOR=systemd GARRISON_TEST_AGENT=/bench/agent /bench/engine.test -test.timeout 1800s -test.parallel 1 -test.run "$(or $(RUN),$(ENGINE),.)" -test.skip AFetchFromTheBus && \
	  GARRISON_TEST_BENCH=/bench /bench/executor.test -test.timeout 300s -test.parallel 1 -test.run "$(or $(RUN),TheUnit)"'

# The engine's tests in the files that name a supervisor.
SUPERVISED = $(shell cd services/executor/internal/engine && grep -liE 'systemd|supervis' *_test.go | \
  xargs sed -n 's/^func \(Test[A-Za-z0-9]*\).*/\1/p' | paste -sd '|')

.PHONY: systemd-check
systemd-check: ## systemd-test of what names a supervisor, where this machine can run it; otherwise print why not
	@for p in unshare nsenter pgrep /usr/lib/systemd/systemd /usr/bin/dbus-daemon; do \
	  command -v $$p >/dev/null || { echo "SKIPPED: make systemd-test: $$p is missing"; exit 0; }; done; \
	if unshare --mount --pid --fork --cgroup --ipc --uts true; then \
	  $(MAKE) --no-print-directory systemd-test ENGINE='$(SUPERVISED)'; \
	else echo "SKIPPED: make systemd-test: this machine does not allow namespaces"; fi

LOCAL ?=
KEYS ?=

.PHONY: release
release: ## make the release VERSION=1.2.3 in bin/release; KEY=FILE signs it, KEYS=FILE: the two public keys; LOCAL=1: a build to try
	@go run ./deploy/release/cmd/release --version '$(VERSION)' --out $(BIN)/release $(if $(LOCAL),--local) \
	  $(if $(KEYS),--keys '$(KEYS)') $(if $(KEY),--key '$(KEY)')

.PHONY: release-test
release-test: build ## install and upgrade packages under a real systemd, and make a release twice; needs root, systemd; QUICK=1: once
	@RUN='$(RUN)' QUICK='$(QUICK)' deploy/release/release-test.sh $(BIN)

.PHONY: images
images: build ## build the container images, from scratch and our own static binaries
	$(BUILD) -o $(BIN)/nats-server github.com/nats-io/nats-server/v2
	./deploy/images.sh $(BIN)

COMPOSE := $(shell if docker compose version >/dev/null 2>&1; then echo docker compose; else echo docker-compose; fi)

.PHONY: up
up: images ## start Garrison in containers
	$(COMPOSE) up -d

.PHONY: down
down: ## stop the containers and delete their data
	$(COMPOSE) down -v --remove-orphans

.PHONY: compose-test
compose-test: images ## run the demo's scenario against containers
	GARRISON_BIN=$(BIN) go test -count=1 -timeout 10m -tags compose -run Compose -v ./e2e/sessions

.PHONY: clean
clean: ## delete build output
	rm -rf $(BIN)
