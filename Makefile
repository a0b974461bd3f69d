# Garrison. `make help` lists the targets.

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
MODULE := github.com/garrison-fleet/garrison
MODULES := proto pkg services/registry services/image-catalog services/task-dispatcher services/executor services/operator deploy/allinone e2e
VERSION := $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
BIN := $(CURDIR)/bin

BUF := go run github.com/bufbuild/buf/cmd/buf@v1.72.0
STATICCHECK := go run honnef.co/go/tools/cmd/staticcheck@v0.8.2

# Static binaries without paths of this machine, with their version.
export CGO_ENABLED ?= 0
BUILD := go build -trimpath -buildvcs=false -ldflags "-s -w -X $(MODULE)/pkg/version.Version=$(VERSION)"

PROGRAMS := garrisond garrison registry image-catalog task-dispatcher executor beacon demo handover chaos
garrisond.src := ./deploy/allinone/cmd/garrisond
garrison.src := ./services/operator/cmd/garrison
registry.src := ./services/registry/cmd/registry
image-catalog.src := ./services/image-catalog/cmd/image-catalog
task-dispatcher.src := ./services/task-dispatcher/cmd/task-dispatcher
executor.src := ./services/executor/cmd/executor
beacon.src := ./e2e/agents/beacon
demo.src := ./e2e/cmd/demo
handover.src := ./e2e/cmd/handover
chaos.src := ./e2e/cmd/chaos

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
	@$(foreach p,$(PROGRAMS),$(BUILD) -o $(BIN)/$(p) $($(p).src) &&) true

.PHONY: demo
demo: build $(if $(filter node_exporter,$(AGENT)),exporters) ## show it at work; AGENT=node_exporter for an agent that nobody here wrote, KEEP=1 to leave it running
	@$(BIN)/demo --bin $(BIN) --agent $(AGENT) $(if $(KEEP),--keep)

UPGRADES ?= 100
TAKEOVER ?= overlap

.PHONY: handover
handover: build ## upgrade an agent UPGRADES=100 times while clients ask it, and count lost requests; TAKEOVER=restart for the other way, ITSELF=1 for comparison without a handover
	@$(BIN)/handover --bin $(BIN) --upgrades $(UPGRADES) --takeover $(TAKEOVER) $(if $(ITSELF),--itself)

ROUNDS ?= 10
MODE ?= both
KINDS ?=
SEED ?=

.PHONY: chaos
chaos: build ## run ROUNDS rounds of random faults in each MODE (apart, one, both) and check everything after each; KINDS=list, SEED=n
	@$(BIN)/chaos --bin $(BIN) --rounds $(ROUNDS) --mode $(MODE) --kinds "$(KINDS)" $(if $(SEED),--seed $(SEED)) --keep

.PHONY: exporters
exporters: ## build two releases of Prometheus node_exporter from its Go module
	@$(foreach v,$(EXPORTER_VERSIONS),$(MAKE) --no-print-directory $(BIN)/node_exporter-$(v) &&) true

$(BIN)/node_exporter-%:
	@mkdir -p $(BIN)
	@d=$$(mktemp -d) && trap 'rm -rf "$$d"' EXIT && cd / && \
	  GOWORK=off GOBIN=$$d go install -ldflags "-s -w -X github.com/prometheus/common/version.Version=$*" github.com/prometheus/node_exporter@v$* && \
	  mv $$d/node_exporter $@

.PHONY: test
test: build ## run the tests, with the race detector; RUN=regexp for some
	CGO_ENABLED=1 GARRISON_BIN=$(BIN) go test -race -count=1 -p 2 -timeout 20m $(if $(RUN),-run '$(RUN)') work

.PHONY: check
check: format vet staticcheck lint breaking fresh tidy-check test systemd-check ## everything that CI runs

.PHONY: format
format: ## fail when a file is not formatted
	@out=$$(gofmt -l $$(git ls-files '*.go')); if [ -n "$$out" ]; then echo "not formatted (run gofmt -w):"; echo "$$out"; exit 1; fi

.PHONY: vet
vet: ## go vet
	go vet work

.PHONY: staticcheck
staticcheck: ## staticcheck, pinned
	$(STATICCHECK) $(addsuffix /...,$(addprefix ./,$(MODULES)))

.PHONY: lint
lint: ## buf lint
	cd proto && $(BUF) lint

.PHONY: breaking
breaking: ## fail when the contract breaks what was released: proto/baseline.binpb
	cd proto && $(BUF) breaking --against baseline.binpb

.PHONY: baseline
baseline: ## at a release: what later changes of the contract must not break
	cd proto && $(BUF) build --exclude-source-info -o baseline.binpb

.PHONY: gen
gen: ## generate Go from the contract
	cd proto && rm -rf gen/garrison && $(BUF) generate

.PHONY: fresh
fresh: gen ## fail when generated code is not what the contract gives
	@if [ -n "$$(git status --porcelain proto/gen)" ]; then echo "proto/gen is stale (run make gen):"; git status --porcelain proto/gen; exit 1; fi

.PHONY: tidy
tidy: ## go mod tidy in every module
	@$(foreach m,$(MODULES),(cd $(m) && GOWORK=off go mod tidy) &&) true

.PHONY: tidy-check
tidy-check: ## fail when a go.mod is not tidy
	@$(foreach m,$(MODULES),(cd $(m) && GOWORK=off go mod tidy -diff) &&) true

.PHONY: golden
golden: ## write the golden files anew
	GARRISON_BIN=$(BIN) go test -count=1 ./pkg/topology ./services/registry/... ./services/image-catalog/... ./services/task-dispatcher/... ./services/operator/... -run 'Golden|Readme|README' -update

.PHONY: bench
bench: build ## measure the figures of e2e/bench/README.md
	go run ./e2e/bench --bin $(BIN) $(if $(ONLY),--only $(ONLY))

KILLS ?= 1000
CUTS ?= 200
WITHIN ?=

.PHONY: crash
crash: ## kill an executor KILLS times in each operation, its own replacement too, and cut the power CUTS times; print what was left; WITHIN=20m for as many as there is time for in each test
	@mkdir -p $(BIN)
	@services/executor/crash.sh $(BIN) $(KILLS) $(CUTS) $(WITHIN)

.PHONY: slow-disk
slow-disk: ## upgrade an agent on a disk that is slowed down to 2 MB/s; needs root and the blkio controller
	cd services/executor && GARRISON_SLOW_DISK=1 go test -count=1 -timeout 2m -v -run 'OnASlowDisk' ./internal/engine

.PHONY: crash-seeds
crash-seeds: ## put one bug after another into the executor; count which the crash tests catch
	@mkdir -p $(BIN)
	@services/executor/crash-seeds.sh $(BIN)

SELF ?=
KEY ?=

.PHONY: self-image
self-image: build ## build an image that brings servers' executors to this source: SELF=1.2.3 is its version; KEY=FILE signs it
	@test -n "$(SELF)" || { echo "say the version: make self-image SELF=1.2.3"; exit 2; }
	@d=$$(mktemp -d) && trap 'rm -rf "$$d"' EXIT && cp deploy/executor/garrison.yaml $$d/ && \
	  go build -trimpath -buildvcs=false -ldflags "-s -w -X $(MODULE)/pkg/version.Version=$(SELF)" -o $$d/executor $(executor.src) && \
	  $(BIN)/garrison image build $$d --version $(SELF) $(if $(KEY),--key $(KEY)) -o $(BIN)/executor-$(SELF).gimg

SYSTEMD_BENCH := $(BIN)/systemd

.PHONY: systemd-test
systemd-test: ## run the engine's tests with agents as services of real systemd, and the executor as its unit, started here in namespaces; needs root, systemd and dbus. RUN=regexp for some
	@mkdir -p $(SYSTEMD_BENCH)
	@go test -c -o $(SYSTEMD_BENCH)/engine.test ./services/executor/internal/engine
	@go test -c -o $(SYSTEMD_BENCH)/executor.test ./services/executor
	@$(BUILD) -o $(SYSTEMD_BENCH)/agent ./services/executor/internal/engine/testdata/agent
	@$(BUILD) -o $(SYSTEMD_BENCH)/self ./services/executor/testdata/self
	@$(foreach v,1.0.0 2.0.0 3.0.0,$(BUILD) -ldflags "-s -w -X $(MODULE)/pkg/version.Version=$(v)" -o $(SYSTEMD_BENCH)/executor-$(v) $(executor.src) &&) true
	@cp deploy/systemd/garrison-executor.service $(SYSTEMD_BENCH)/
	@cd $(SYSTEMD_BENCH) && $(CURDIR)/services/executor/systemd-test.sh 600 '\
	  install -D executor-1.0.0 /usr-local/executor; sed "s:/usr/local/bin/executor:/usr-local/executor:" garrison-executor.service > /run/systemd/system/garrison-executor.service && \
	  systemd-analyze verify --man=no /run/systemd/system/garrison-executor.service && \
	  mkdir -p /srv && export TMPDIR=/srv && GARRISON_SUPERVISOR=systemd GARRISON_TEST_AGENT=/bench/agent /bench/engine.test -test.timeout 480s -test.run "$(or $(RUN),.)" && \
	  GARRISON_TEST_BENCH=/bench /bench/executor.test -test.timeout 100s -test.run "$(or $(RUN),TheUnit)"'

.PHONY: systemd-check
systemd-check: ## systemd-test where this machine can run it; otherwise say why not
	@for p in unshare nsenter pgrep /usr/lib/systemd/systemd /usr/bin/dbus-daemon; do \
	  command -v $$p >/dev/null || { echo "SKIPPED: make systemd-test: $$p is missing"; exit 0; }; done; \
	if unshare --mount --pid --fork --cgroup --ipc --uts true; then $(MAKE) --no-print-directory systemd-test; \
	else echo "SKIPPED: make systemd-test: this machine does not allow namespaces"; fi

.PHONY: images
images: build ## build the container images, from scratch and our own static binaries
	$(BUILD) -o $(BIN)/nats-server github.com/nats-io/nats-server/v2
	./deploy/images.sh $(BIN)

COMPOSE := $(shell if docker compose version >/dev/null 2>&1; then echo docker compose; else echo docker-compose; fi)

.PHONY: up
up: images ## start it in containers
	$(COMPOSE) up -d

.PHONY: down
down: ## stop the containers and delete their data
	$(COMPOSE) down -v --remove-orphans

.PHONY: compose-test
compose-test: images ## run the demo's scenario against containers
	GARRISON_BIN=$(BIN) go test -count=1 -timeout 10m -tags compose -run Compose -v ./e2e/

.PHONY: clean
clean: ## delete what was built
	rm -rf $(BIN)
