# `make` lists the targets. Everything sets itself up; Python 3.11 and the package registries are all that is needed.
# make up PORT=9092 STORAGE=3 GATEWAYS=1 CONTROLLERS=1 COORDINATORS=1 QUOTA_MANAGERS=1   shapes the cluster (remembered until `make wipe`)
# make backup FILE=metadata.backup   while it runs; make restore FILE=metadata.backup   while it is down; make rebuild
# make up HOST=192.168.1.5   lets other machines connect: the address by which they reach this one (some shells export a HOST,
# so it counts on the command line only)
# make up ROLES=node   a gateway in the process of each storage node, as many as cores unless NODES= says (docs/operate/node-role.md)
# make up SECURITY=on   clients need TLS, a user and ACLs; makes certificates and the first user (docs/security.md)
# make up TRACES=zipkin   a trace UI beside it (needs Java 17 and Maven; docs/operate/tracing.md)
# RUN=.run                                               names the folder it lives in, so that several can coexist

PYTHON ?= $(shell command -v python3.11 || command -v python3)
LOCAL = $(if $(filter file,$(origin PYTHON)),,PYTHON_GIVEN=yes )$(or $(PYTHON),$(error no Python on PATH: Penstock needs Python 3.11 or later (make PYTHON=/path/to/python3.11))) -m services.local
VENV := .venv/bin
PIPELINE := .tools/pipeline/venv/bin
PIPELINE_LONG := $(addprefix tests/pipeline/,chaos sink/test_data_source.py sink/test_replay_rates.py sink/test_saves.py test_beside_kafka.py test_killed_drivers.py test_killed_parquet_archive.py)
RUN ?= .run
TESTS ?=

KNOWN := ADD_SCRAM_FILE AGAINST CASE CONTEXT CONTROLLERS COORDINATORS CREDENTIALS CUTS DRY_RUN FAULTS FILE FIRST FORCE GATEWAYS HOST IMAGES JSON KAFKA KIND KINDS MINUTES NODES PACKAGES PORT PYTHON QUOTA_MANAGERS ROLES ROUNDS RUN RUNS SECONDS SECURITY SEED SEEDS STEPS STORAGE STORY TARGET TESTS TRACES TRANSACTION_COORDINATORS TRANSFERS
UNKNOWN := $(filter-out $(KNOWN),$(foreach name,$(.VARIABLES),$(if $(filter command,$(firstword $(origin $(name)))),$(name))))
$(if $(UNKNOWN),$(error no target takes $(UNKNOWN). What they take: $(KNOWN)))

# Where bytecode files are forbidden, each process of each cluster of the tests would compile all that it imports.
test test-all deploy-test pipeline-test pipeline-chaos simulate hunt fuzz chaos clients bench: export PYTHONDONTWRITEBYTECODE :=

.DEFAULT_GOAL := help
.PHONY: help up down wipe status backup restore rebuild from-kafka to-kafka setup test test-all setup-pipeline pipeline pipeline-test pipeline-chaos deploy-test helm-test check check-code simulate hunt fuzz audit chaos clients bench docs upgrade

help: ## list the targets
	@echo "Penstock. Targets:"
	@awk -F':.*## ' '/^[a-z-]+:.*## / {printf "  make %-14s %s\n", $$1, $$2}' Makefile

up: ## start what is down, wait until it is ready, print bootstrap.servers (PORT= STORAGE= GATEWAYS= CONTROLLERS= COORDINATORS= TRANSACTION_COORDINATORS= QUOTA_MANAGERS= ROLES=node NODES= HOST= SECURITY=on ADD_SCRAM_FILE= TRACES=zipkin RUN=)
	@$(LOCAL) up --run "$(RUN)" $(if $(PORT),--port $(PORT)) $(if $(STORAGE),--storage $(STORAGE)) \
		$(if $(GATEWAYS),--gateways $(GATEWAYS)) $(if $(CONTROLLERS),--controllers $(CONTROLLERS)) \
		$(if $(COORDINATORS),--coordinators $(COORDINATORS)) \
		$(if $(TRANSACTION_COORDINATORS),--transaction-coordinators $(TRANSACTION_COORDINATORS)) \
		$(if $(QUOTA_MANAGERS),--quota-managers $(QUOTA_MANAGERS)) $(if $(TRACES),--traces "$(TRACES)") \
		$(if $(SECURITY),--security "$(SECURITY)") $(if $(ROLES),--roles "$(ROLES)") $(if $(NODES),--nodes "$(NODES)") \
		$(if $(ADD_SCRAM_FILE),--add-scram-file "$(ADD_SCRAM_FILE)") \
		$(if $(filter command,$(firstword $(origin HOST))),--host "$(HOST)")

upgrade: ## restart what runs older code than this, one process at a time, each when the cluster is healthy; FORCE=1 also if it is not (docs/operate/upgrading.md)
	@$(LOCAL) upgrade --run "$(RUN)" $(if $(FORCE),--force)

down: ## stop everything, keep the data
	@$(LOCAL) down --run "$(RUN)"

wipe: ## stop everything, remove the data, also the lake of `make pipeline`
	@$(LOCAL) wipe --run "$(RUN)"

status: ## say how the cluster is, and show each process: role, readiness, memory, addresses (JSON=1 for programs); fails unless it is healthy
	@$(LOCAL) status --run "$(RUN)" $(if $(JSON),--json)

backup: ## save the metadata that etcd holds in FILE=, while the cluster runs (CREDENTIALS=1 with the SCRAM credentials of users)
	@$(LOCAL) backup --run "$(RUN)" $(if $(CREDENTIALS),--with-credentials) "$(or $(FILE),$(error give the file: make backup FILE=metadata.backup))"

restore: ## fill a new etcd from FILE=, while the cluster is down; the old etcd's data is kept (ADD_SCRAM_FILE= users to add)
	@$(LOCAL) restore --run "$(RUN)" $(if $(ADD_SCRAM_FILE),--add-scram-file "$(ADD_SCRAM_FILE)") "$(or $(FILE),$(error give the file: make restore FILE=metadata.backup))"

rebuild: ## fill a new etcd from what the storage nodes hold, while the cluster is down (DRY_RUN=1 only shows it; FILE= a backup, if there is one; ADD_SCRAM_FILE= users to add)
	@$(LOCAL) rebuild --run "$(RUN)" $(if $(ADD_SCRAM_FILE),--add-scram-file "$(ADD_SCRAM_FILE)") $(if $(FILE),--backup "$(FILE)") $(if $(DRY_RUN),--dry-run)

from-kafka: ## make a cluster of a stopped Kafka's log directories, in place (KAFKA="each broker's LOG_DIR,LOG_DIR or its server.properties"; DRY_RUN=1 only tells)
	@$(LOCAL) from-kafka --run "$(RUN)" $(if $(PORT),--port $(PORT)) $(if $(SECURITY),--security "$(SECURITY)") $(if $(DRY_RUN),--dry-run) $(or $(KAFKA),$(error give the log directories: make from-kafka KAFKA=/var/lib/kafka/data))

to-kafka: ## have a new Kafka begin with this cluster's metadata and logs, while the cluster is down (KAFKA="the formatted metadata.log.dir of each controller"; CREDENTIALS=1 with users' SCRAM credentials)
	@$(LOCAL) to-kafka --run "$(RUN)" $(if $(CREDENTIALS),--with-credentials) $(or $(KAFKA),$(error give the formatted metadata.log.dir: make to-kafka KAFKA=/var/lib/kafka/metadata))

setup: ## install what tests and checks need
	@$(LOCAL) setup --dev

setup-pipeline: ## install what the pipeline on Spark needs into .tools/pipeline: PySpark, and jars from Maven (needs Java 17 to run)
	@$(LOCAL) setup --pipeline

pipeline: setup-pipeline up ## topics of this machine's packages into a lake by Spark jobs, on the local cluster; again: goes on (RUN= PORT=)
	@servers=$$($(LOCAL) status --run "$(RUN)" | sed -n 's/^bootstrap.servers=//p') && \
		$(PIPELINE)/python -m services.pipeline.examples.packages "$$servers" "$(RUN)/pipeline" \
		$$(grep -qs '"security": "on"' "$(RUN)/cluster.json" && echo "$(RUN)/security")
	@$(PIPELINE)/python -m services.pipeline run "$(RUN)/pipeline/packages.toml"

test: setup ## units, contracts and one cluster with one client of each kind, about four minutes (TESTS=tests/wire for some, all of them)
	$(VENV)/python -m tests.support.contained_run -n 4 $(if $(TESTS),$(TESTS),--quick)

test-all: setup ## every test, about twenty minutes: also Java clients, Apache Kafka beside ours, failures of real processes, simulated clusters
	$(VENV)/python -m tests.support.contained_run -n 3 --quick --rest

deploy-test: setup ## install, upgrade and migrate in the ways that users do, as root on Linux; long forms need Docker
	$(VENV)/python -m tests.support.contained_run -n 2 --deploy $(TESTS)

pipeline-test: setup setup-pipeline ## the pipeline on Spark with real clusters and ten kills of a transform, six to eight minutes (TESTS=tests/pipeline for all)
	$(PIPELINE)/python -m tests.support.contained_run -n 2 --dist loadfile --no-loadscope-reorder --pipeline $(or $(TESTS),tests/pipeline $(addprefix --ignore=,$(PIPELINE_LONG)))

pipeline-chaos: setup setup-pipeline ## kill jobs of the pipeline at every step and compare what comes out: RUNS=100 KINDS=transform,replay SEED=
	$(PIPELINE)/python -m tests.pipeline.chaos --runs $(or $(RUNS),100) $(if $(KINDS),--kinds $(KINDS)) $(if $(SEED),--seed $(SEED))

helm-test: setup ## install the chart on a Kubernetes, upgrade it under load, scale storage 3, 4, 3: CONTEXT= of kubectl, IMAGES= registry/penstock; without them on one of its own, as root
	$(VENV)/python -m tests.deploy.chart.on_kubernetes $(if $(CONTEXT),--context "$(CONTEXT)") $(if $(IMAGES),--images "$(IMAGES)")

check: check-code ## lint, format, types, import rules, generated files
	$(VENV)/python -m tests.docs.house_rules
	$(VENV)/python -m services.gateway.protocol_docs.protocol_page --check
	$(VENV)/python -m tests.docs.pictures --check
	$(VENV)/python -m tests.docs.settings_page --check
	$(VENV)/python -m tests.docs.configs_page --check
	$(VENV)/python -m tests.docs.metrics_page --check
	$(VENV)/python -m tests.docs.chart_page --check
	$(VENV)/python -m tests.monitoring.monitoring_files --check
	$(VENV)/python -m tests.docs.log_events_page --check

# What no test checks, too. CI runs this part and the tests (tests/docs/test_checks_in_ci.py).
check-code: setup
	$(VENV)/ruff check .
	$(VENV)/ruff format --check .
	$(VENV)/mypy
	$(VENV)/lint-imports
	$(VENV)/python -m libs.wire.generate --check

simulate: setup ## a disk, a partition's replicas, a consumer group, transactions, compacted topics, client quotas, a cluster on virtual time: SEED=7 replays, SEEDS=1000 makes many (KIND=disk|component|groups|transactions|compaction|quotas|cluster|planted|failed|properties FIRST= STORY=1)
	$(VENV)/python -m tests.simulation $(if $(KIND),--$(KIND)) $(if $(SEED),--seed $(SEED)) $(if $(SEEDS),--seeds $(SEEDS)) \
		$(if $(SECONDS),--seconds $(SECONDS)) $(if $(FIRST),--first $(FIRST)) $(if $(STEPS),--steps $(STEPS)) $(if $(STORY),--story)

hunt: setup ## fresh seeds of every kind of simulation in turn, beside other work; goes on where the last hunt ended, and keeps what fails (MINUTES=30 KINDS=disk,groups)
	@$(VENV)/python -m tests.simulation.hunt $(if $(MINUTES),--minutes $(MINUTES)) $(if $(KINDS),--kinds $(KINDS))

fuzz: setup ## coverage-guided fuzzing of what reads bytes from outside: the short form of CI, or for SECONDS= or RUNS= inputs each (TARGET=batches SEED=)
	@$(VENV)/python -m tests.fuzz.set_up
	@$(VENV)/python -m tests.fuzz $(TARGET) $(if $(SECONDS),--seconds $(SECONDS)) $(if $(RUNS),--runs $(RUNS)) $(if $(SEED),--seed $(SEED))

audit: setup ## known vulnerabilities of the pinned packages, by pip-audit; CI does not run it, since an advisory may come any day (PACKAGES="aiohttp cryptography")
	@$(VENV)/python -m tests.dependencies.audit $(PACKAGES)

chaos: setup ## power cuts of a real disk, processes that die and hang, under real clients, as root on Linux: CUTS=50 FAULTS=40 TRANSFERS=100 (SEED=)
	$(VENV)/python -m tests.system.chaos $(if $(CUTS),--cuts $(CUTS)) $(if $(FAULTS),--faults $(FAULTS)) $(if $(TRANSFERS),--transfers $(TRANSFERS)) $(if $(SEED),--seed $(SEED))

clients: setup ## run only the tests with real clients (AGAINST=kafka: those with groups, against Apache Kafka)
	$(if $(AGAINST),PENSTOCK_GROUPS_AGAINST=$(AGAINST)) $(VENV)/python -m pytest tests/compat/clients$(if $(AGAINST),/groups)

bench: setup ## measure beside Apache Kafka; prints JSON lines, and writes .bench/report.html (CASE=lean-produce,lean-fetch-64KB: cases with one of these in their names; ROLES=node: lean cases of the node role; ROUNDS= SECONDS=)
	$(VENV)/python -m tests.bench --report .bench/report.html $(if $(filter node,$(ROLES)),--lean --nodes) $(if $(CASE),--only "$(CASE)") $(if $(ROUNDS),--rounds $(ROUNDS)) $(if $(SECONDS),--seconds $(SECONDS))

docs: setup ## write what is made from code: pages (protocol, settings, configs, metrics, log events), dashboards and alerts, and draw the tables of states in docs/
	$(VENV)/python -m services.gateway.protocol_docs.protocol_page
	$(VENV)/python -m tests.docs.pictures
	$(VENV)/python -m tests.docs.settings_page
	$(VENV)/python -m tests.docs.configs_page
	$(VENV)/python -m tests.docs.metrics_page
	$(VENV)/python -m tests.docs.chart_page
	$(VENV)/python -m tests.monitoring.monitoring_files
	$(VENV)/python -m tests.docs.log_events_page
