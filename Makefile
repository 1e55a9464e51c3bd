# The commands of the repository. The first of them works on a machine with nothing but Python 3.11 or later, make and git.

# The first of these that is 3.11 or later and has its venv module; make install PYTHON=... says which.
PYTHONS = $(or $(PYTHON),python3.13 python3.12 python3.11 python3.14 python3 python)
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.built-from-lock
BUILT := $(VENV)/.compiled-parts-built
# A test that starts a process would compile every module again where the environment keeps no bytecode; empty, it keeps it.
export PYTHONDONTWRITEBYTECODE :=
COMPILED := $(shell find muster -name '*.pyx' -o -name '*.pxd') setup.py deploy/build_backend.py

.PHONY: help install demo test test-rest test-all mutate lint docs bench lock wheel clean

help:
	@echo 'make install    .venv with everything of the lock; the command is then .venv/bin/muster'
	@echo 'make demo       how much less jobs wait than with Slurm-like scheduling, FIFO and LAS; with a page of charts'
	@echo 'make test       the tests; test-all: and those that need PyTorch, PostgreSQL or Slurm, or minutes; and the wheel in a fresh venv'
	@echo 'make mutate     do the tests notice a wrong line? 100 mutations, SEED=1; see docs/how-to/mutation-testing.md'
	@echo 'make lint       ruff, mypy, import rules, excluded words, and make docs'
	@echo 'make docs       the documentation as a site: build/site/index.html'
	@echo 'make bench      speed, the figures of docs/results/performance.md'
	@echo 'make lock       new versions into requirements.lock and requirements-dev.lock'

install: $(BUILT)

$(STAMP): requirements.lock requirements-dev.lock pyproject.toml experiments/pyproject.toml
	@test -x $(BIN)/python || { for python in $(PYTHONS); do \
			$$python -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || continue; \
			echo "$$python -m venv $(VENV)"; exec $$python -m venv $(VENV); \
		done; echo 'Python 3.11 or later, with its venv module, is needed' >&2; exit 1; }
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -r requirements-dev.lock
	@touch $@

# The compiled parts are built once, and again when one of their files has changed.
$(BUILT): $(STAMP) $(COMPILED)
	@echo 'Building the compiled parts: a minute or two'
	$(BIN)/python deploy/build_backend.py | xargs --no-run-if-empty $(BIN)/python -m pip install --quiet
	$(BIN)/python setup.py --quiet build_ext --inplace
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation \
		--config-settings editable_mode=compat --editable .
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --editable experiments
	$(BIN)/python -m pip check
	@touch $@

demo: install
	mkdir -p demo
	$(BIN)/muster generate synergy --jobs 1000 --load 5 --split 40,40,20 --multi-gpu --seed 1 -o demo/trace.csv --overwrite
	$(BIN)/muster compare demo/trace.csv --cluster examples/two-racks.toml --scheduler slurm-like \
		--scheduler fifo --scheduler las+proportional+consolidate \
		--scheduler "$$($(BIN)/python -c 'from muster.schedulers.presets import DEFAULT_SCHEDULER as name; print(name)')" \
		--out demo/result --overwrite

# One worker more than cores: many tests wait for a process that they have started.
SIDE_BY_SIDE = $(shell echo $$(($$(nproc) + 1)))

# A worker takes neighbours in a folder, so that what a module of tests shares is made once; then it helps the other.
test: install
	$(BIN)/python -m pytest -q -n $(SIDE_BY_SIDE) --dist worksteal -m 'not ($(REST))'

# What it takes beside Python packages is installed where this may be done; tests of what is missing say so and skip.
# Those of a real Slurm run beside all others (tests/conftest.py): two Slurms, Rays or browsers at a time on two cores
# made some of them fail.
test-rest: install wheel
	@if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null && \
		! { command -v pg_lsclusters && command -v prometheus && command -v slurmctld && command -v chromium; } >/dev/null; then \
		apt-get update -qq && apt-get install -qq -y --no-install-recommends $(PACKAGES) >/dev/null; fi
	$(BIN)/python -m pip install --quiet --disable-pip-version-check 'torch==2.13.0' 'playwright==1.65.2' 'ray==2.60.0' 'mcp==2.3.0'
	MUSTER_WHEEL="$$(echo build/wheel/*.whl)" $(BIN)/python -m pytest -q -n 2 --dist loadscope -m '$(REST)'

PACKAGES = postgresql prometheus slurmctld slurmd slurm-client munge chromium
REST = needs_torch or needs_postgres or needs_prometheus or needs_ray or needs_slurm or needs_browser or needs_mcp or builds_wheel or long

test-all: test test-rest

# Takes hours of processor time: a third of the mutations are compiled, and each survivor takes three minutes.
mutate: install
	$(BIN)/python -m tests.mutation --seed $(SEED) --workers $(WORKERS)

SEED = 1
WORKERS = $(shell nproc)

lint: install docs
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python -m tests.language

# Warnings are errors. Nothing in the pages is loaded from another host, so they can be read without a network.
docs: install
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build

bench: install
	$(BIN)/python -m benchmarks
	$(BIN)/python -m benchmarks.start
	$(BIN)/python -m benchmarks.synergy
	$(BIN)/python -m benchmarks.joint
	$(BIN)/python -m benchmarks.smd
	$(BIN)/python -m benchmarks.service
	$(BIN)/python -m benchmarks.pages
	$(BIN)/python -m benchmarks.interruptions
	$(BIN)/python -m benchmarks.default_scheduler

# The wheel, in a venv that has only what the wheel asks for.
wheel: install
	rm -rf build/wheel
	$(BIN)/python -m build --wheel --outdir build/wheel .
	$(BIN)/python -m venv build/wheel/venv
	build/wheel/venv/bin/python -m pip install --quiet --disable-pip-version-check \
		--constraint requirements.lock "$$(echo build/wheel/*.whl)[all]"
	cd build/wheel && venv/bin/muster generate mixed --jobs 20 --gpus 16 -o trace.csv \
		&& venv/bin/muster compare trace.csv --cluster 2x8gpu --out result

# Newest versions that pyproject.toml allows, taken on the oldest Python that Muster runs on, so that they exist for
# all. What is needed on some Pythons only carries its mark from pyproject.toml.
lock:
	rm -rf build/lock && python3.11 -m venv build/lock
	build/lock/bin/python -m pip install --quiet --disable-pip-version-check '.[all]'
	{ echo '# What Muster runs on, made by make lock.'; $(FREEZE); } > requirements.lock
	build/lock/bin/python -m pip install --quiet --disable-pip-version-check --constraint requirements.lock '.[dev,docs]'
	{ echo '# What Muster is developed with, made by make lock.'; echo '-r requirements.lock'; \
		build/lock/bin/python -m pip freeze --all | grep '^setuptools=='; \
		$(FREEZE) | grep --invert-match --line-regexp --fixed-strings --file requirements.lock; } \
		> requirements-dev.lock

FREEZE = build/lock/bin/python -m pip freeze --exclude muster-scheduler | sed "s/^backports.zstd==.*/&; python_version < '3.14'/"

clean:
	rm -rf $(VENV) build dist demo
	find muster -name '*.so' -delete
