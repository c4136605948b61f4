# launchbench: the commands of the project. `make help` lists them.
#
# Needed on the machine: make, Python 3.11 to 3.13, a C++ compiler. Everything else is installed into .venv.
# PYTHON=...           the Python to make .venv with, when the one that is found is not the one you want
# CUDA=12, CUDA=13     the series of the CUDA packages; else the newest that the driver of this machine can run
# SNAKEMAKE_FLAGS=...  more flags for Snakemake, for example SNAKEMAKE_FLAGS="--dry-run"

PYTHON ?=
# Not ?=: on clusters a variable of this name may say something else.
CUDA :=
SNAKEMAKE_FLAGS ?=
LOCK_FLAGS ?=

# Relative on purpose: the path of the clone may have spaces. Programs are started as modules, because the
# first line of a script names the folder in which the environment was made, and a clone may be moved.
PY := .venv/bin/python
STAMP := .venv/.launchbench-installed
SERIES := src/launchbench/series.py
PIP_INSTALL := $(PY) -m pip install --disable-pip-version-check --no-input --progress-bar off --no-build-isolation
SNAKEMAKE := $(PY) -m snakemake

# What a user's own environment may say about other projects must not steer this one.
unexport PYTHONPATH PYTHONHOME PYTHONSTARTUP PYTHONOPTIMIZE PYTHONWARNINGS VIRTUAL_ENV MYPYPATH SNAKEMAKE_PROFILE
# Without it, every process compiles the package anew: half a second each, in hundreds of them.
unexport PYTHONDONTWRITEBYTECODE
unexport PIP_REQUIRE_VIRTUALENV PIP_TARGET PIP_PREFIX PIP_ROOT PIP_PYTHON PIP_CONSTRAINT PIP_REQUIREMENT
unexport PIP_NO_DEPS PIP_DRY_RUN PIP_NO_BUILD_ISOLATION PIP_IGNORE_INSTALLED PIP_EDITABLE
export PIP_USER := 0
export PIP_REQUIRE_HASHES := 0
export PYTHONNOUSERSITE := 1
export MPLBACKEND := Agg

.DEFAULT_GOAL := help
.NOTPARALLEL:
.PHONY: help report report-cached doctor test test-slurm lint lock clean install install-dev

help:
	@echo 'make report         build, measure on the cards of this machine, render the report into reports/'
	@echo 'make report-cached  render the report from results/ alone: no card, no compiler, nothing measured'
	@echo 'make doctor         say what will work on this machine or in this SLURM job, and what to do about the rest'
	@echo 'make test           every check: style, types, workflow lint, tests with their coverage'
	@echo 'make test-slurm     submit to a real SLURM that is started here (as root; installs it where apt-get is there)'
	@echo 'make lint           the checks of make test without the tests'
	@echo 'make lock           write the lock files anew (LOCK_FLAGS=--upgrade: with the newest releases)'
	@echo 'make clean          remove build/, .snakemake/ and what is in reports/; results/ always stays'
	@echo 'CUDA=12 or CUDA=13 chooses the CUDA packages; else the driver does.'
	@echo 'PYTHON=python3.12 chooses the Python, SNAKEMAKE_FLAGS="..." is handed to Snakemake.'

report: install
	@$(SNAKEMAKE) --cores 1 $(SNAKEMAKE_FLAGS)

# Not by --config: of two Snakemake heeds the last one, and SNAKEMAKE_FLAGS may have one.
report-cached: export LAUNCHBENCH_CARDS := none
report-cached: install
	@$(SNAKEMAKE) --cores 1 $(SNAKEMAKE_FLAGS)

doctor: install
	@$(PY) -m launchbench doctor

# One more than there are cores: tests of kills and locks wait.
WORKERS ?= $(shell expr $$(getconf _NPROCESSORS_ONLN) + 1)
test: lint
	@echo '== pytest' && $(PY) -m pytest -n $(WORKERS) --dist loadfile --no-loadscope-reorder --cov --cov-report=term-missing

# apt-get may be missing or without a network: the tests then say what they lack and are skipped.
test-slurm: install-dev
	@if ! command -v slurmctld >/dev/null && [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
	  echo '== apt-get install slurm-wlm munge'; \
	  { timeout 60 apt-get -qq update && \
	    DEBIAN_FRONTEND=noninteractive timeout 180 apt-get -qq install --no-install-recommends slurm-wlm munge; \
	  } >/dev/null || echo 'launchbench: apt-get could not install SLURM' >&2; \
	fi
	@echo '== pytest tests/slurm' && $(PY) -m pytest -m slurm tests/slurm

lint: install-dev
	@echo '== ruff check' && $(PY) -m ruff check .
	@echo '== ruff format' && $(PY) -m ruff format --check .
	@echo '== mypy' && $(PY) -m mypy
	@echo '== snakefmt' && $(PY) -m snakefmt --check Snakefile workflow
	@echo '== snakemake --lint' && $(SNAKEMAKE) --lint

# Every lock starts from its present pins, so that only what has to change does. The locks of the users start
# from that of the developers: all hold the same releases, but for the series of cuda-python.
LOCK = $(PY) -m uv pip compile --quiet --no-config --universal --python-version 3.11 --generate-hashes \
	--custom-compile-command 'make lock' $(LOCK_FLAGS)
BINDINGS := ^cuda-(bindings|python)==
lock:
	@$(PY) -c 'import uv' 2>/dev/null || { echo 'launchbench: make lock needs uv: run make install-dev first' >&2; exit 1; }
	@echo '== requirements-dev.lock' && $(LOCK) pyproject.toml --extra test --extra slurm --extra cuda13 --group build -o requirements-dev.lock >/dev/null
	@cp requirements-dev.lock requirements.lock.new
	@echo '== requirements.lock' && $(LOCK:--upgrade=) pyproject.toml --extra slurm --extra cuda13 --group build -o requirements.lock.new >/dev/null
	@awk '/^[^ #]/ {other = /$(BINDINGS)/} !other' requirements.lock.new > requirements-cuda12.lock.new
	@[ -n '$(findstring --upgrade,$(LOCK_FLAGS))' ] || [ ! -e requirements-cuda12.lock ] || \
	  awk '/^[^ #]/ {own = /$(BINDINGS)/} own' requirements-cuda12.lock >> requirements-cuda12.lock.new
	@echo '== requirements-cuda12.lock' && $(LOCK:--upgrade=) pyproject.toml --extra slurm --extra cuda12 --group build -o requirements-cuda12.lock.new >/dev/null
	@mv requirements.lock.new requirements.lock && mv requirements-cuda12.lock.new requirements-cuda12.lock
	@echo '== requirements-nvcc.lock' && $(LOCK) requirements-nvcc.in -o requirements-nvcc.lock >/dev/null

clean:
	rm -rf build .snakemake reports/*

install:
	@$(call ensure,)

install-dev:
	@$(call ensure,requirements-dev.lock)

# $(call key,LOCKS): what an installation was made from: contents and place (the package is installed as a link
# to this folder), never the times of files, which are arbitrary in a clone.
key = $$(cat $(1) pyproject.toml | cksum) $(1) $$PWD

# $(call ensure,LOCK): .venv holds the releases of the users' lock, or those of the developers' LOCK, and the package.
# The stamp goes first and comes last, so that an interrupted installation is begun anew; an environment that was
# complete is only brought up to date. What developers have is of series 13: that of series 12 is put on top.
define ensure
set -eu; \
case '$(CUDA)' in ''|12|13) ;; *) echo "launchbench: CUDA=$(CUDA): expected 12 or 13" >&2; exit 1;; esac; \
if [ -n "$$PYTHON" ] && [ -e $(STAMP) ] && \
   [ "$$("$$PYTHON" -c $(version) 2>/dev/null)" != "$$($(PY) -c $(version) 2>/dev/null)" ]; then rm -f $(STAMP); fi; \
if [ -e $(STAMP) ] && ! $(PY) -I -S -c '' 2>/dev/null; then rm -f $(STAMP); fi; \
python=$(PY); present=13; \
if [ ! -e $(STAMP) ]; then $(find_python) python=$$found; \
elif grep -q ' requirements-cuda12[.]lock ' $(STAMP); then present=12; fi; \
series='$(CUDA)'; [ -n "$$series" ] || series=$$("$$python" -I -S $(SERIES) $$present); \
if [ "$$series" = 12 ]; then users=requirements-cuda12.lock; all="$(1) $$users"; \
else users=requirements.lock; all=$(1); fi; \
all=$$(echo $${all:-$$users}); \
if [ -e $(STAMP) ] && grep -qxF "$(call key,$$all)" $(STAMP); then exit 0; fi; \
if [ ! -e $(STAMP) ]; then \
  echo "launchbench: making .venv with $$found"; \
  "$$found" -m venv --clear .venv; \
fi; \
rm -f $(STAMP); \
echo "launchbench: installing $$all into .venv (about a minute the first time)"; \
sed -n '/^setuptools==/,/[^\\]$$/p' $$users > .venv/build-backend.lock; \
$(PIP_INSTALL) --quiet --require-hashes -r .venv/build-backend.lock; \
for lock in $$all; do $(PIP_INSTALL) --require-hashes -r $$lock; done; \
$(PIP_INSTALL) --quiet --no-deps -e .; \
{ echo "$(call key,$$all)"; [ "$$all" = $$users ] || echo "$(call key,$$users)"; } > $(STAMP).new; \
mv $(STAMP).new $(STAMP); \
echo 'launchbench: installed'
endef

export PYTHON
version := 'import sys; print(sys.version_info[:2])'

# Sets $found. The releases that every locked package has a ready-made wheel for are looked for first.
define find_python
found=; unfit=; \
for last in 13 99; do for candidate in $${PYTHON:-python3 python3.13 python3.12 python3.11 python3.14}; do \
  [ -z "$$found" ] || continue; \
  "$$candidate" -c "import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, $$last))" >/dev/null 2>&1 || continue; \
  if "$$candidate" -c 'import ensurepip, venv' >/dev/null 2>&1; then found=$$candidate; else unfit=$$candidate; fi; \
done; done; \
if [ -z "$$found" ] && [ -n "$$unfit" ]; then \
  echo "launchbench: $$unfit lacks the modules venv and ensurepip (on Debian and Ubuntu: apt install python3-venv)" >&2; exit 1; \
elif [ -z "$$found" ]; then \
  echo "launchbench: no Python 3.11 or newer among: $${PYTHON:-python3, python3.11 to python3.14}; name one with PYTHON=/path/to/python3" >&2; exit 1; \
fi;
endef
