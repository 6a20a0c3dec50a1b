# `make` or `make help` lists the targets.

SHELL         := bash
GOLANGCI      := v2.15.0
KAFKA_PORT    ?= 19092
FUZZTIME      ?= 30s
BENCHTIME     ?= 1s
BIN           := build/bin

.DEFAULT_GOAL := help

.PHONY: help
help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: build
build: ## build the command into build/bin
	go build -o $(BIN)/ ./cmd/...

.PHONY: test
test: ## run all tests that need no broker
	go test ./...

.PHONY: race
race: ## run the same tests under the race detector
	go test -race ./...

.PHONY: lint
lint: $(BIN)/golangci-lint-$(GOLANGCI) ## check the house rules: go vet, golangci-lint, internal/lint
	go vet ./...
	$< run ./...
	go test -count=1 ./internal/lint

# The version is part of the name, so that a new pin installs itself.
$(BIN)/golangci-lint-$(GOLANGCI):
	mkdir -p $(BIN)
	GOBIN=$(CURDIR)/$(BIN) go install github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$(GOLANGCI)
	mv $(BIN)/golangci-lint $@

.PHONY: kafka-up
kafka-up: ## start a real Kafka on 127.0.0.1:19092 (scripts/kafka/README.md)
	scripts/kafka/start.sh --port $(KAFKA_PORT)

.PHONY: kafka-down
kafka-down: ## stop it
	scripts/kafka/stop.sh

.PHONY: test-kafka
test-kafka: ## run the tests against a real Kafka: KAFKA_BROKERS if set, else one started here
	@brokers=$${KAFKA_BROKERS:-$$(scripts/kafka/start.sh --port $(KAFKA_PORT) | sed 's/^KAFKA_BROKERS=//')}; \
	[ -n "$$brokers" ] || exit 1; \
	set -x; STREAMDEDUP_REQUIRE_KAFKA=1 KAFKA_BROKERS=$$brokers go test -count=1 -timeout 20m ./internal/kafkatest ./internal/kafkaio ./internal/e2e/...

.PHONY: chaos
chaos: ## run three instances on three brokers through two minutes of crashes, and audit every record (SEED=n)
	go run ./internal/chaos --duration 2m $(if $(SEED),--seed $(SEED))

.PHONY: chaos-long
chaos-long: ## the same for half an hour
	go run ./internal/chaos --duration 30m $(if $(SEED),--seed $(SEED))

.PHONY: bench
bench: ## run every benchmark (BENCHTIME=1s)
	go test -run '^$$' -bench . -benchmem -benchtime $(BENCHTIME) ./...

.PHONY: long
long: ## run the tests at ten times their default length
	STREAMDEDUP_LONG=1 go test -count=1 -timeout 60m ./...

.PHONY: fuzz
fuzz: ## run each fuzz target for FUZZTIME (30s)
	@set -e; for pkg in $$(go list ./...); do \
		for target in $$(go test -list '^Fuzz' $$pkg | grep '^Fuzz' || true); do \
			echo "$$pkg $$target"; \
			go test -run '^$$' -fuzz "^$$target\$$" -fuzztime $(FUZZTIME) $$pkg; \
		done; \
	done

.PHONY: ci
ci: ## run what the continuous integration runs
	.ci/run
