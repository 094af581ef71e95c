# The two commands of a new user are `make demo` and `make test`; `make help` lists the rest.
PYTHON ?= python3
# `make install VARIANT=cuda` once: torch and vLLM for NVIDIA GPUs, until VARIANT=cpu. Another value rebuilds .venv.
VARIANT ?=
RUN := .venv/bin
export PATH := $(CURDIR)/.venv/bin:$(PATH)
# Containers often forbid Python to cache bytecode; every process would then recompile torch and vLLM.
unexport PYTHONDONTWRITEBYTECODE

# Two lanes of about the same length. What starts commands of the trainer comes before what makes process groups.
BESIDE := packages/rollout/tests/generator packages/rollout/tests/datasets
LANE_1 := $(wildcard tests/test_*.py) $(foreach package,records policy trainer,packages/$(package)/tests) tests/honest \
  tests/attacks $(BESIDE)
LANE_2 := $(foreach package,evaluator rollout,packages/$(package)/tests) $(BESIDE:%=--ignore %) \
  $(filter-out tests/honest/ tests/attacks/,$(sort $(dir $(wildcard tests/*/test_*.py))))

.DEFAULT_GOAL := help
.PHONY: help install demo test test-fast test-faults test-long test-native test-gpu lint format packages lock bench clean

help:  ## list what can be made
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

install:  ## set up .venv: tested pins, every package editable (seconds when nothing changed)
	@$(PYTHON) tools/install.py $(if $(VARIANT),--variant $(VARIANT))

demo: install  ## train a small policy by multi-turn GRPO on this machine, no GPU needed
	@$(RUN)/python -m warpsmith.trainer demo

# Half of the trainer's time is waiting, so its tests run beside the evaluator's; what they print comes after.
test: install test-native  ## every test that this machine can run, but for test-long
	@mkdir -p build
	@$(RUN)/python -m pytest -c pyproject.toml $(LANE_1) > build/lane-1.log 2>&1 & lane=$$!; \
	$(RUN)/python -m pytest -c pyproject.toml $(LANE_2); second=$$?; \
	wait $$lane; first=$$?; cat build/lane-1.log; exit $$((second ? second : first))

test-fast: install  ## the tests that take seconds
	$(RUN)/python -m pytest -m "not slow"

test-faults: install  ## kill, stop and starve each part of real runs at random moments
	$(RUN)/python -m pytest -m long tests/faults

test-long: install  ## test-faults, and whatever else is marked `long`
	$(RUN)/python -m pytest -m long
	$(RUN)/python -m pytest -m "" tests/attacks/test_attacks.py -k honest --attack-trials 6
	$(RUN)/python -m pytest -m "" tests/attacks/test_attacks.py --attack-recording on_device --attack-trials 6

test-native: install  ## the C++ parts under the address and undefined-behaviour sanitizers
	@$(RUN)/cmake -S . -B build/sanitize -G Ninja -DWARPSMITH_SANITIZE=ON -DCMAKE_BUILD_TYPE=Debug > /dev/null
	@$(RUN)/cmake --build build/sanitize
	@cd build/sanitize && $(CURDIR)/$(RUN)/ctest --output-on-failure

test-gpu:  ## what needs an NVIDIA GPU, and the attacks on one; after `make install VARIANT=cuda`
	$(RUN)/python -m pytest -m gpu packages/evaluator/tests packages/policy/tests
	$(RUN)/python -m pytest -m "" tests/attacks --attack-device cuda --attack-trials 6
	$(RUN)/python -m pytest tests/attacks --attack-device cuda --attack-recording on_device --attack-trials 6

lint: install  ## ruff, mypy strict, clang-format
	$(RUN)/ruff check .
	$(RUN)/ruff format --check .
	$(RUN)/mypy
	$(RUN)/clang-format --dry-run -Werror $$(find csrc -name '*.cpp' -o -name '*.h')

format: install  ## rewrite the sources as the linters want them
	$(RUN)/ruff check --fix .
	$(RUN)/ruff format .
	$(RUN)/clang-format -i $$(find csrc -name '*.cpp' -o -name '*.h')

packages: install  ## build wheel and sdist of each package, install each alone, run its tests there
	$(RUN)/python tools/packages.py

lock: install  ## resolve requirements/*.in again into requirements/*.lock (UPGRADE=--upgrade for the newest)
	$(RUN)/python tools/lock.py $(UPGRADE)

bench: install  ## every benchmark that this machine can run
	@failed=; for script in benchmarks/[a-z]*.py; do \
	  echo $$script; $(RUN)/python $$script || [ $$? = 77 ] || failed="$$failed $$script"; \
	done; [ -z "$$failed" ] || { echo "failed, or a promise not kept:$$failed"; exit 1; }

clean:  ## remove what was built, keep .venv
	rm -rf build dist .mypy_cache .pytest_cache .ruff_cache
