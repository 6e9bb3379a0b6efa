# Workpull. `make` lists the targets. Everything that is built or downloaded
# goes to the cache folder and build/.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
MAKEFLAGS += --no-print-directory

# The cache folder: WORKPULL_CACHE, or workpull in the user's cache folder.
export WORKPULL_CACHE := $(or $(WORKPULL_CACHE),$(or $(XDG_CACHE_HOME),$(HOME)/.cache)/workpull)
BIN := $(WORKPULL_CACHE)/bin

# Images are named $(IMAGE_PREFIX)/<name>:$(IMAGE_TAG).
IMAGE_PREFIX ?= localhost/workpull
IMAGE_TAG ?= dev
export IMAGE_PREFIX IMAGE_TAG

# The race detector needs cgo; everything that is shipped is built without.
GO_BUILD := CGO_ENABLED=0 go build -trimpath -ldflags "-s -w"
CLUSTER := cd test/cluster && go run ./cmd/cluster

# Modules of this repository that hold code of ours.
MODULES := . test/cluster tools bench
# All of them, for `go mod tidy`.
ALL_MODULES := $(patsubst %/go.mod,%,$(sort $(shell find . -name go.mod -not -path './build/*')))

# The pinned tools (tools/README.md), built once per version.
# $(call version,folder,module): what the folder's go.mod requires.
version = $(shell awk '{ for (i = 1; i < NF; i++) if ($$i == "$(2)" && $$(i+1) ~ /^v/) print $$(i+1) }' tools/$(1)/go.mod)

HELM_VERSION := $(call version,helm,helm.sh/helm/v4)
KUSTOMIZE_VERSION := $(call version,kustomize,sigs.k8s.io/kustomize/kustomize/v5)
GOLANGCI_LINT_VERSION := $(call version,golangci-lint,github.com/golangci/golangci-lint/v2)
KWOK_VERSION := $(call version,kwok,sigs.k8s.io/kwok)
CONTROLLER_GEN_VERSION := $(call version,.,sigs.k8s.io/controller-tools)

export HELM := $(BIN)/tools-helm-$(HELM_VERSION)/helm
export KUSTOMIZE := $(BIN)/tools-kustomize-$(KUSTOMIZE_VERSION)/kustomize
GOLANGCI_LINT := $(BIN)/tools-golangci-lint-$(GOLANGCI_LINT_VERSION)/golangci-lint
KWOK := $(BIN)/tools-kwok-$(KWOK_VERSION)/kwok
CONTROLLER_GEN := $(BIN)/tools-controller-gen-$(CONTROLLER_GEN_VERSION)/controller-gen

##@ General

.PHONY: help
help: ## Show this list
	@awk 'BEGIN { FS = ":.*## " } \
	  /^##@ / { printf "\n%s\n", substr($$0, 5) } \
	  /^[a-zA-Z0-9_-]+:.*## / { printf "  %-16s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: build
build: ## Build the binaries into build/bin
	@mkdir -p build/bin
	for cmd in cmd/*/; do $(GO_BUILD) -o build/bin/ "./$$cmd"; done

.PHONY: clean
clean: ## Remove build/ (the cache folder stays)
	rm -rf build

##@ Code

PROTO := $(shell git ls-files --cached --others --exclude-standard '*.proto' | grep -v testdata)

.PHONY: generate
generate: $(CONTROLLER_GEN) ## Generate deepcopy, CRDs, RBAC, protobuf code and the charts' copies
	cd tools && go run ./protogen -root .. $(PROTO)
	cd tools && go run ./protogen -root .. -plugin 'go tool protoc-gen-go-grpc' $(PROTO)
	$(CONTROLLER_GEN) object paths=./api/...
	$(CONTROLLER_GEN) crd:generateEmbeddedObjectMeta=true paths=./api/... output:crd:dir=config/crd/bases
	go run ./internal/crdgen config/crd/bases
	$(CONTROLLER_GEN) rbac:roleName=workpull-operator paths=./controllers/... output:rbac:dir=config/rbac
	mkdir -p charts/workpull-crds/files charts/workpull/files
	rm -f charts/workpull-crds/files/*.yaml
	cp config/crd/bases/*.yaml charts/workpull-crds/files/
	cp config/rbac/role.yaml charts/workpull/files/role.yaml

.PHONY: verify
verify: verify-generated verify-tidy verify-format ## Check generated files, go.mod files and formatting

# Compares the files before and after, not with git: work in progress can be
# verified too.
GENERATED = git ls-files --cached --others --exclude-standard -- \
  '*.pb.go' '*zz_generated*' config/crd/bases config/rbac/role.yaml charts/workpull-crds/files charts/workpull/files

.PHONY: verify-generated
verify-generated:
	@mkdir -p build
	$(GENERATED) | sort | xargs sha256sum > build/generated.before
	$(MAKE) generate > build/generate.log 2>&1 || { cat build/generate.log; exit 1; }
	$(GENERATED) | sort | xargs sha256sum > build/generated.after
	diff build/generated.before build/generated.after || { echo "generated files were out of date: commit the result of make generate" >&2; exit 1; }

.PHONY: verify-tidy
verify-tidy:
	for m in $(ALL_MODULES); do (cd "$$m" && go mod tidy -diff) || { echo "$$m/go.mod is not tidy: run go mod tidy there" >&2; exit 1; }; done

.PHONY: verify-format
verify-format:
	out="$$(git ls-files --cached --others --exclude-standard '*.go' | xargs gofmt -l)"; \
	if [ -n "$$out" ]; then printf 'not formatted by gofmt:\n%s\n' "$$out" >&2; exit 1; fi

.PHONY: lint
lint: lint-go lint-dependencies lint-charts ## go vet, golangci-lint, dependency directions, helm lint

.PHONY: lint-go
lint-go: $(GOLANGCI_LINT)
	for m in $(MODULES); do \
	  (cd "$$m" && go vet -tags e2e ./... && $(GOLANGCI_LINT) run --config $(CURDIR)/.golangci.yml ./...); \
	done

# depguard sees what a package imports itself; this sees what it links.
# Older versions of Olric lose members that start together (docs/decisions/001).
OLRIC_MIN := v0.3.18

.PHONY: lint-dependencies
lint-dependencies:
	@if go list -deps ./cmd/operator | grep -E 'goakt|workpull/operator/workpull'; then echo "cmd/operator must not link GoAkt" >&2; exit 1; fi
	@if go list -deps ./workpull/... | grep -E '^(k8s\.io|sigs\.k8s\.io)/'; then echo "workpull must not link Kubernetes" >&2; exit 1; fi
	@olric="$$(go list -m -f '{{.Version}}' github.com/tochemey/olric)"; \
	if [ "$$(printf '%s\n' $(OLRIC_MIN) "$$olric" | sort -V | head -n 1)" != $(OLRIC_MIN) ]; then \
	  echo "github.com/tochemey/olric is $$olric, want $(OLRIC_MIN) or newer (docs/decisions/001)" >&2; exit 1; fi

.PHONY: lint-charts
lint-charts: $(HELM)
	$(HELM) lint --strict charts/workpull charts/workpull-crds

##@ Tests

.PHONY: test
test: test-setup ## Unit tests, transcripts, and controllers against a real API server
	KUBEBUILDER_ASSETS="$$($(CLUSTER) assets)"; export KUBEBUILDER_ASSETS; \
	  go test -race -timeout 20m ./workpull/... ./queue/... ./runtime/...; \
	  go test -timeout 20m -run '^TestCluster' ./workpull; \
	  $(MAKE) sim; \
	  go test -timeout 20m $$(go list ./... | grep -v -e /operator/workpull -e /operator/queue -e /operator/runtime)
	cd test/cluster && go test ./...
	cd tools && go test ./...
	cd bench && go test ./...

KILLS ?= 500

.PHONY: crash
crash: ## Kill the process of each durable queue, at any moment and at each durable step: make crash KILLS=500
	KILLS=$(KILLS) go test -count 1 -timeout 60m -v ./queue/internal/crash

.PHONY: conformance
conformance: ## Run the pattern's tests and write docs/conformance.md
	go run ./workpull/internal/conformance

.PHONY: verify-conformance
verify-conformance: ## Fail when a rule has no test, a test fails, or docs/conformance.md is another
	go run ./workpull/internal/conformance -check

.PHONY: mutants
mutants: ## Break the controllers in one place at a time, and write docs/mutants.md: which test noticed each
	go run ./workpull/internal/mutants

.PHONY: verify-mutants
verify-mutants: ## Fail when a mutant survives, or docs/mutants.md lists others
	go run ./workpull/internal/mutants -check

.PHONY: bench-workpull
bench-workpull: ## Measure the pattern: a table, and .bench/workpull.jsonl
	cd bench && go run ./workpull -out $(CURDIR)/.bench/workpull.jsonl

.PHONY: bench-queue
bench-queue: ## Measure the durable queues: a table, and .bench/queue.jsonl
	mkdir -p .bench
	cd bench && go run ./queue -dir $(CURDIR)/.bench -out $(CURDIR)/.bench/queue.jsonl

# The same seeds give the same figures, so the plot is part of the docs.
.PHONY: sim-scaling
sim-scaling: ## Simulate elasticity beside HPA+KEDA and an oracle: a table, .bench/scaling.jsonl and a plot
	go run ./controllers/scaling/sim -out .bench/scaling.jsonl -plot docs/concepts/scaling.svg

# Each fuzz target of the pattern, as folder:name.
FUZZ_TARGETS = $(shell grep -roE '^func Fuzz[A-Za-z]+' --include='*_test.go' workpull | sed -E 's|/[^/]*:func |:|' | sort)
FUZZTIME ?= 30s

.PHONY: fuzz
fuzz: ## Fuzz what decodes bytes from the wire, each target in turn: make fuzz FUZZTIME=5m
	for target in $(FUZZ_TARGETS); do \
	  go test -run '^$$' -fuzz "^$${target#*:}$$" -fuzztime $(FUZZTIME) "./$${target%%:*}"; \
	done

.PHONY: sim
sim: ## Simulate the pattern under faults: some six million steps
	go test -count 1 ./workpull/internal/sim

.PHONY: soak
soak: ## Simulate for as long as told: make soak DURATION=1h, or SEEDS=100000
	go test -count 1 -timeout 0 ./workpull/internal/sim -run TestSeeds -v -args -parallel 0 -first $(or $(FIRST),100000) \
	  $(if $(SEEDS),-seeds $(SEEDS),-duration $(or $(DURATION),10m))

.PHONY: test-setup
test-setup: $(HELM) $(KUSTOMIZE) postgres-setup
	@if ! command -v gcc > /dev/null; then \
	  echo "the race detector needs a C compiler: installing gcc and libc6-dev"; \
	  [ "$$(id -u)" = 0 ] || { echo "not root: install gcc and libc6-dev yourself" >&2; exit 1; }; \
	  apt-get update -q && DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends gcc libc6-dev; \
	fi
	$(CLUSTER) assets > /dev/null

# Tests run PostgreSQL servers of their own.
.PHONY: postgres-setup
postgres-setup:
	@if ! ls /usr/lib/postgresql/*/bin/initdb > /dev/null 2>&1; then \
	  echo "the tests run PostgreSQL servers of their own: installing Debian's, without starting its service"; \
	  [ "$$(id -u)" = 0 ] || { echo "not root: install postgresql-15 or later yourself" >&2; exit 1; }; \
	  export DEBIAN_FRONTEND=noninteractive; \
	  apt-get update -q && apt-get install -y -q --no-install-recommends postgresql-common; \
	  sed -i -E 's/^#?(create_main_cluster) .*/\1 = false/' /etc/postgresql-common/createcluster.conf; \
	  apt-get install -y -q --no-install-recommends postgresql; \
	fi

# The tests' cluster, beside the demo's. `make e2e-run RUN=TestScale` repeats one
# test on the cluster of `make e2e-up`.
E2E_CLUSTER := $(CURDIR)/build/bin/cluster
RUN ?= .

.PHONY: e2e
e2e: ## End-to-end tests on a real cluster of our own (needs root)
	trap '$(MAKE) e2e-down' EXIT; $(MAKE) e2e-up; $(MAKE) e2e-run

.PHONY: e2e-up
e2e-up: $(HELM) $(KUSTOMIZE) postgres-setup images
	$(MAKE) images IMAGES=e2e-worker:./test/e2e/worker
	@mkdir -p build/bin
	cd test/cluster && go build -o $(E2E_CLUSTER) ./cmd/cluster
	$(E2E_CLUSTER) --name e2e up --nodes 3
	$(E2E_CLUSTER) --name e2e load-image build/images/{operator,workpull,e2e-worker}.tar

.PHONY: e2e-run
e2e-run: $(HELM) $(KUSTOMIZE)
	E2E_CLUSTER=$(E2E_CLUSTER) WORKPULL_CLUSTER=e2e go test -tags e2e -count 1 -timeout 30m -v -run '$(RUN)' ./test/e2e

.PHONY: e2e-down
e2e-down:
	$(CLUSTER) --name e2e down

##@ Images and cluster

# name of the image : package
IMAGES := \
  operator:./cmd/operator \
  workpull:./cmd/workpull \
  example-thumbnailer:./examples/thumbnailer \
  example-sink:./examples/thumbnailer/sink

.PHONY: images
images: ## Build the images as archives into build/images (no daemon needed)
	@mkdir -p build/images/bin
	for image in $(IMAGES); do \
	  name="$${image%%:*}"; \
	  $(GO_BUILD) -o "build/images/bin/$$name" "$${image#*:}"; \
	  (cd test/cluster && go run ./cmd/mkimage --ref "$(IMAGE_PREFIX)/$$name:$(IMAGE_TAG)" \
	    --out "$(CURDIR)/build/images/$$name.tar" --entrypoint "/$$name" "$(CURDIR)/build/images/bin/$$name"); \
	done

.PHONY: cluster-build
cluster-build: ## Build Kubernetes, etcd and CoreDNS into the cache (long when cold)
	$(CLUSTER) build

.PHONY: cluster-up
cluster-up: ## Bring a cluster of two nodes up (needs root)
	$(CLUSTER) up

.PHONY: cluster-down
cluster-down: ## Bring the cluster down
	$(CLUSTER) down

.PHONY: demo
demo: $(HELM) ## Show it at work on a real cluster (CLUSTER=existing: that of the kubeconfig)
	go run ./test/demo up

.PHONY: demo-down
demo-down: $(HELM) ## Remove what the demo made
	go run ./test/demo down

##@ Tools

# $(call tool,folder,package,binary,flags for the linker)
define tool
	mkdir -p $(dir $(3))
	cd tools/$(1) && CGO_ENABLED=0 go build -trimpath -ldflags "-s -w $(4)" -o $(3) $(2)
endef

.PHONY: tools
tools: $(HELM) $(KUSTOMIZE) $(GOLANGCI_LINT) $(KWOK) $(CONTROLLER_GEN) ## Build the pinned tools into the cache

.PHONY: helm kustomize golangci-lint kwok controller-gen
helm: $(HELM)
kustomize: $(KUSTOMIZE)
golangci-lint: $(GOLANGCI_LINT)
kwok: $(KWOK)
controller-gen: $(CONTROLLER_GEN)

$(HELM):
	$(call tool,helm,helm.sh/helm/v4/cmd/helm,$@,-X helm.sh/helm/v4/internal/version.version=$(HELM_VERSION))
$(KUSTOMIZE):
	$(call tool,kustomize,sigs.k8s.io/kustomize/kustomize/v5,$@)
$(GOLANGCI_LINT):
	$(call tool,golangci-lint,github.com/golangci/golangci-lint/v2/cmd/golangci-lint,$@,-X main.version=$(GOLANGCI_LINT_VERSION:v%=%))
$(KWOK):
	$(call tool,kwok,sigs.k8s.io/kwok/cmd/kwok,$@)
$(CONTROLLER_GEN):
	$(call tool,.,sigs.k8s.io/controller-tools/cmd/controller-gen,$@)
