# The project's commands. `make` alone lists them; each sets up what it needs first.
PYTHON ?= python3
CXX := $(if $(filter default,$(origin CXX)),$(firstword $(foreach c,c++ g++ clang++,$(if $(shell command -v $(c)),$(c)))),$(CXX))
JOBS ?= 2
ARGS ?=

venv := .venv
py := $(venv)/bin/python
installed := $(venv)/.installed
torch := $(venv)/.torch
ray := $(venv)/.ray
fuzzing := $(venv)/.fuzzing
mutating := $(venv)/.mutating
built := $(venv)/.built
clients := build/clients/venv
asking := $(clients)/.installed
servers := build/vllm/venv
serving := $(servers)/.installed
sglang := build/sglang/venv
packers := build/wheels/venv
packing := $(packers)/.installed
playwright := build/browser/.installed
checked := build/browser/.checked
pages := src/ringtree/pages
scripts := $(shell find $(pages) tests -name '*.js' -o -name '*.mjs' -o -name '*.d.ts' -o -name tsconfig.json 2>/dev/null)
node := $(shell command -v npm >/dev/null && node -e 'process.exit(parseInt(process.versions.node) < 20 ? 1 : 0)' 2>/dev/null && echo yes)
csrc := $(shell find csrc -type f 2>/dev/null)
# An editable install knows the packages that were there when it was made: a list of them, written where it changes.
listed := $(shell { mkdir -p build; find src -name __init__.py | sort > build/packages.now; \
  cmp -s build/packages.now build/packages || cp build/packages.now build/packages; } 2>/dev/null)
packages := $(wildcard build/packages)
cxx_files := $(shell find csrc tests/csrc -name '*.h' -o -name '*.hpp' -o -name '*.cpp' -o -name '*.cc' 2>/dev/null)
# What the caller's own shell has set must not reach in; without bytecode on disk, each process compiles all again.
unexport PYTHONPATH PYTHONHOME PYTHONDONTWRITEBYTECODE VIRTUAL_ENV
export PATH := $(CURDIR)/$(venv)/bin:$(PATH)

.DEFAULT_GOAL := help
.PHONY: help demo test test-docs test-hosts test-slurm test-pages check check-types check-style check-pages bench validate browser screenshots test-torch test-torch-debian test-ray test-clients test-sglang test-vllm test-torch-suite test-mpi4py-suite test-long test-core test-all wheels test-wheels soak growth chaos fuzz mutants setup clean

help: ## list these targets
	@awk -F':.*## ' '/^[a-z0-9-]+:.*## / {printf "  make %-17s %s\n", $$1, $$2}' $(firstword $(MAKEFILE_LIST))

demo: $(built) ## see it work: prove a ring, train on 4 ranks, measure all_reduce, and look at it
	@$(py) examples/demo.py $(ARGS)

# Each of pytest's workers begins with a stretch of neighbours, which share ranks, a browser and what was computed.
pytest = $(py) -m pytest -n $(JOBS) --dist worksteal
# Where the tests of a mark are, unless ARGS names others: to look through all takes each worker ten seconds and more.
within = $(if $(filter tests/%,$(ARGS)),,$(1))

# To fork a rank costs a worker as much time as it has memory: those that fork many have only these rooms' tests.
ranks := tests/runtime tests/storage tests/mpi
quick = $(pytest) -m "not slow and not torch and not ray and not sglang and not vllm and not browser and not hosts and not docs and not wheels"
# With "-k name" one of the two parts may have no test.
some := $(if $(ARGS),|| [ $$? = 5 ])

test: $(built) ## run the tests (13 minutes on 2 cores; ARGS="-k name" for some of them)
	@$(quick) $(call within,$(ranks)) $(ARGS) $(some)
	@$(if $(filter tests/%,$(ARGS)),,$(quick) $(ranks:%=--ignore=%) $(ARGS) $(some))

test-docs: $(built) ## run what README, pages and examples show, and compare what they print (half a minute)
	@$(pytest) -m "docs and not slow and not torch" $(call within,$(wildcard tests/test_*.py)) $(ARGS)

test-hosts: $(built) ## run the tests over several hosts, which are namespaces of this machine and need root (three minutes)
	@$(pytest) -m "hosts and not slow and not torch" $(call within,tests/runtime/hosts tests/storage) $(ARGS)

test-pages: $(built) ## run the tests of the pages in a browser, which `make browser` prepares (two minutes)
	@$(pytest) -m "browser and not slow" tests/pages $(ARGS)

test-torch: $(built) $(torch) ## install torch into .venv, and run the tests that need it (PIP_INDEX_URL says from where)
	@RINGTREE_TORCH_REQUIRED=1 $(pytest) -m "torch and not slow" tests/torch_backend tests/training tests/runtime tests/storage tests/cli tests/test_examples.py $(ARGS)

test-torch-debian: ## run those tests by Debian's newest torch, in build/debian (root, mmdebstrap; 5 minutes)
	@tests/torch_backend/debian.sh sid build/debian $(ARGS)

test-ray: $(built) $(ray) ## install Ray into .venv, and run the tests that need it (PIP_INDEX_URL says from where)
	@RINGTREE_RAY_REQUIRED=1 $(py) -m pytest -m "ray and not slow" tests/ray $(ARGS)

test-slurm: $(built) ## run ranks by Slurm on two nodes, which are namespaces of this machine and need root (a minute)
	@$(py) -m pytest -m slow tests/runtime/hosts/test_slurm.py $(ARGS)

check: $(built) ## lint, format, types, import contract: all that can be said without running
	@$(MAKE) --no-print-directory -j $(JOBS) --output-sync=target check-types check-pages check-style

check-types:
	mypy --strict src

check-style:
	ruff check .
	ruff format --check .
	lint-imports
	$(if $(cxx_files),clang-format --dry-run --Werror $(cxx_files))

# The part of make check that needs npm: types and lint of the pages' scripts.
check-pages: $(if $(node),$(checked))
	@$(if $(node),true,$(if $(filter 1,$(RINGTREE_BROWSER_REQUIRED)),$(call refuse,RINGTREE_BROWSER_REQUIRED=1$(comma) but $(no_node)),echo "make: the pages' scripts are not checked: $(no_node)"))

bench: $(built) ## measure all_reduce on 1, 2 and 4 ranks; writes build/bench.json
	@mkdir -p build
	ringtree bench all_reduce -n 1,2,4 -b 8 -e 64M -f 8 --json build/bench.json $(ARGS)

validate: $(built) ## predictions beside published nccl-tests tables (RINGTREE_DATA; ARGS=--sizes for each size)
	@$(py) -m benchmarks.validate $(ARGS)

browser: $(playwright) ## fetch what drives chromium, for the tests of the pages, and what checks their scripts

screenshots: $(built) $(playwright) ## take the pictures of the documentation again (docs/images)
	@$(py) -m docs.screenshots

test-clients: $(asking) ## Accelerate, Trainer, Lightning, DeepSpeed in Gloo's place; writes docs/clients.md (2 GB; minutes)
	@$(clients)/bin/python -m tests.torch_backend.clients $(ARGS)

test-sglang: $(sglang)/.installed ## SGLang on this machine's CPUs, by Gloo and by ringtree (an environment of 3 GB; minutes)
	@$(sglang)/bin/python -m pytest -m sglang tests/sglang $(ARGS)

test-vllm: $(serving) ## vLLM on CPUs, by its own shared memory and by ringtree (4 GB; a quarter of an hour)
	@$(servers)/bin/python -m pytest -m vllm tests/vllm $(ARGS)

test-torch-suite: $(built) $(torch) ## PyTorch's own suite, on Gloo and on ringtree; writes docs/torch_suite.md (minutes)
	@$(py) -m tests.torch_backend.suite $(ARGS)

test-mpi4py-suite: $(built) ## mpi4py's own tests on ringtree.mpi; RINGTREE_MPI4PY: its unpacked sdist; writes docs/mpi4py_suite.md
	@$(py) -m tests.mpi.suite "$${RINGTREE_MPI4PY:?the folder of an unpacked source distribution of mpi4py}" $(ARGS)

test-long: $(built) ## the long campaigns (an hour and a half; ARGS=tests/verify for one room's)
	RINGTREE_EXAMPLES=500 $(pytest) -m "slow or hypothesis" --durations=20 $(ARGS)

test-core: ## the engine's core under sanitizers and model checkers, fuzzers' inputs, instructions counted (four minutes)
	@$(MAKE) --no-print-directory -j $(JOBS) --output-sync=target -C tests/csrc model tsan asan replay count kernels  # the longest first

test-all: ## all tests there are: test, test-docs, test-hosts, test-pages, test-torch, test-ray, test-long, test-core
	$(MAKE) test
	$(MAKE) test-hosts
	$(MAKE) test-docs
	$(MAKE) test-pages
	$(MAKE) test-torch
	$(MAKE) test-ray
	$(MAKE) test-long
	$(MAKE) test-core

soak: $(built) ## calls of every kind on a busy machine (half an hour; ARGS="--minutes 5"); writes build/soak.json
	@mkdir -p build
	@$(py) -m tests.runtime.soak --json build/soak.json $(ARGS)

growth: $(built) ## 100,000 calls of ever-new sizes, 10,000 groups, 1,000 worlds: nothing grows (minutes); build/growth.json
	@mkdir -p build
	@$(py) -m tests.runtime.growth --json build/growth.json $(ARGS)

chaos: $(built) ## 1,000 random faults, 100 over hosts, 100 by torch: no hang, wrong result, leak (minutes; ARGS="--count 9"); build/chaos*.json
	@mkdir -p build
	@$(py) -m tests.runtime.chaos --json build/chaos.json $(ARGS)
	$(if $(ARGS),,@$(py) -m tests.runtime.chaos --hosts --count 100 --json build/chaos_hosts.json)
	$(if $(ARGS),,@$(py) -m tests.runtime.chaos --torch --count 100 --json build/chaos_torch.json)

fuzz: $(built) $(fuzzing) ## inputs of any bytes for the core (needs clang) and every reader (ARGS="--seconds 10"; 20 minutes)
	@$(py) -m tests.fuzz $(ARGS)

mutants: $(built) $(mutating) ## change the proof and the core, and see whether a test notices (ARGS="--sample 20"; an hour)
	@$(py) -m tests.mutants.verify $(ARGS)
	@$(py) -m tests.mutants.core $(ARGS)

wheels: $(packing) ## build dist/: the source distribution and wheels, as far as this machine can (minutes)
	@$(packers)/bin/python -m release.wheels $(ARGS)

test-wheels: $(built) ## install what `make wheels` built in empty environments, and run it there (minutes)
	@$(py) -m pytest -m "wheels" tests/release $(ARGS)

setup: $(built) ## create .venv with ringtree (editable) and every tool

clean: ## remove what was built, .venv included
	rm -rf $(venv) build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# -- setting up: stamped, so that it happens once, and again only where something it depends on has changed

refuse = { echo "make: $(1)" >&2; exit 1; }

$(py):
	@command -v $(PYTHON) >/dev/null || $(call refuse,no $(PYTHON) found; install Python 3.10 or newer$(comma) or say make PYTHON=/path/to/python3)
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10))' \
	  || $(call refuse,$(PYTHON) is older than 3.10; say make PYTHON=/path/to/a/newer/python3)
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null \
	  || $(call refuse,$(PYTHON) cannot make virtual environments; install python3-venv)
	@$(PYTHON) -c 'import os, sys, sysconfig; sys.exit(not os.path.exists(sysconfig.get_path("include") + "/Python.h"))' \
	  || $(call refuse,the headers of $(PYTHON) are missing; install python3-dev)
	@test -n "$(CXX)" || $(call refuse,no C++ compiler found; install g++ or clang)
	@echo 'int main() { return []<class T>(T x) { return x; }(0); }' | $(CXX) -std=c++20 -x c++ -fsyntax-only - 2>/dev/null \
	  || $(call refuse,$(CXX) does not compile C++20; install g++ 10 or clang 12 or newer$(comma) or say make CXX=/path/to/it)
	@echo "setting up .venv: about a minute, once"
	@$(PYTHON) -m venv $(venv)

comma := ,
no_node := no npm with node 20 or newer found; install nodejs and npm

$(installed): pyproject.toml | $(py)
	@CXX="$(CXX)" $(py) -m pip install --quiet --no-compile --disable-pip-version-check --editable '.[dev]'
	@touch $@

$(torch): tests/torch_backend/requirements.txt | $(installed)
	@echo "installing torch"
	@$(py) -m pip install --quiet --disable-pip-version-check --requirement $<
	@touch $@

$(ray): tests/ray/requirements.txt | $(installed)
	@echo "installing Ray"
	@$(py) -m pip install --quiet --disable-pip-version-check --requirement $<
	@touch $@

$(fuzzing): tests/fuzz/requirements.txt | $(installed)
	@echo "installing atheris"
	@$(py) -m pip install --quiet --disable-pip-version-check --requirement $<
	@touch $@

$(mutating): tests/mutants/requirements.txt | $(installed)
	@echo "installing cosmic-ray"
	@$(py) -m pip install --quiet --disable-pip-version-check --requirement $<
	@touch $@

# torchrec asks for FBGEMM built for CUDA, where that for CPUs serves it, and for another torchmetrics than Lightning's.
$(asking): tests/torch_backend/clients/requirements.txt pyproject.toml $(csrc)
	@echo "installing clients in build/clients"
	@$(PYTHON) -m venv $(clients)
	@$(clients)/bin/python -m pip install --quiet --disable-pip-version-check -r tests/torch_backend/requirements.txt
	@DS_BUILD_OPS=0 $(clients)/bin/python -m pip install --quiet --disable-pip-version-check --requirement $< --editable .
	@$(clients)/bin/python -m pip install --quiet --disable-pip-version-check --no-deps torchrec==1.8.0
	@touch $@

# PyPI's torchvision is built for CUDA: beside vLLM's torch for CPUs it keeps transformers from its models.
$(serving): tests/vllm/requirements.txt pyproject.toml $(csrc)
	@echo "installing vLLM in build/vllm"
	@$(PYTHON) -m venv $(servers)
	@$(servers)/bin/python -m pip install --quiet --disable-pip-version-check --requirement $< --editable .
	@$(servers)/bin/python -m pip uninstall --quiet --yes torchvision torchaudio torchcodec
	@touch $@

$(sglang)/.installed: tests/sglang/requirements.txt tests/torch_backend/requirements.txt pyproject.toml $(csrc)
	@echo "installing SGLang in build/sglang"
	@$(PYTHON) -m venv $(sglang)
	@$(sglang)/bin/python -m pip install --quiet --disable-pip-version-check -r tests/torch_backend/requirements.txt
	@$(sglang)/bin/python -m pip install --quiet --disable-pip-version-check --requirement $< --editable .
	@$(sglang)/bin/python -m pip install --quiet --disable-pip-version-check --no-deps sglang==0.5.23
	@touch $@

$(packing): release/requirements.txt | $(py)
	@$(py) -m venv $(packers)
	@$(packers)/bin/python -m pip install --quiet --disable-pip-version-check --requirement $<
	@touch $@

$(playwright): tests/pages/browser/package.json tests/pages/browser/package-lock.json
	@command -v npm >/dev/null || $(call refuse,no npm found; install nodejs and npm)
	@mkdir -p $(@D) && cp $^ $(@D)
	@cd $(@D) && npm ci --no-audit --no-fund --loglevel=error
	@touch $@

# A view at a time: its scripts share one scope with no other view's.
$(checked): $(playwright) eslint.config.mjs $(scripts)
	printf '%s\n' $(dir $(wildcard $(pages)/*/tsconfig.json)) | \
	  xargs -n 1 -P $(JOBS) build/browser/node_modules/.bin/tsc --typeRoots build/browser/node_modules/@types -p
	build/browser/node_modules/.bin/eslint .
	@touch $@

$(built): $(installed) CMakeLists.txt $(csrc) src/ringtree/_native.pyi $(packages)
	@$(if $(filter $(installed),$?),true,echo "building the engine" && CXX="$(CXX)" $(py) -m pip install --quiet --disable-pip-version-check --no-build-isolation --no-deps --editable .)
	@touch $@
