# Every command of the project. `make` alone lists them.
#
# Variables, given after the command (`make test PYTHON=python3.12`):
#   PYTHON  interpreter for a new environment; default: the first suitable one
#   NEWEST  interpreter of `make test-newest`; default: python3.13
#   VENV    folder of the environment; default: .venv
#   ARGS    further arguments for pytest, such as ARGS="-k tokenization"
#   OUTPUT  folder that `make demo` writes; default: demo_output
#   SEED    seed of the demo and of the soak test; default: 12345
#   KILLS   number of kills per job of the soak test; default: 50
#   SOAK    folder of the soak test; default: soak_output
#   FILES   files that `make mutants` changes
#   ROUNDS  times as many random files in `make fuzz` as in `make test`; default: 20
#   PIP     flags for pip; PIP= shows its progress

VENV = .venv
PYTHON =
NEWEST = python3.13
ARGS =
FILES =
OUTPUT = demo_output
SEED = 12345
KILLS = 50
SOAK = soak_output
ROUNDS = 20
PIP = --quiet
PIP_VERSION = 26.3

PY = $(VENV)/bin/python
SETUP_DONE = $(VENV)/.setup-done
LINT_DONE = $(VENV)/.lint-done
TORCH_DONE = $(VENV)/.torch-done
BROWSER_DONE = $(VENV)/.browser-done
JAX = $(VENV)-jax
JS = $(VENV)-js
NEW = $(VENV)-newest
RELEASE = $(VENV)-release
PAGES = README.md ARCHITECTURE.md CONTRIBUTING.md CHANGELOG.md LICENSE docs lab configs
ALL = not jax and not torch and not browser
CODE = albert_tf data_prep tests tools lab
INSTALL = -m pip install $(PIP) --disable-pip-version-check
PIP_INSTALL = "$(PY)" $(INSTALL)

SITE = import sysconfig; print(sysconfig.get_path('purelib'))

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help setup demo test test-all test-lab test-jax test-torch test-newest
.PHONY: test-browser fuzz mutants soak lint docs dist format clean

help:
	@echo "make setup  install everything into $(VENV) (minutes; once)"
	@echo "make demo   from a text file to a SavedModel on a tiny model"
	@echo "make test   run most tests (about nine minutes)"
	@echo "make test-all   and the slow ones"
	@echo "make test-lab   the tests of lab/"
	@echo "make test-jax, test-torch   the tests that need jax, or torch and"
	@echo "            transformers; each installs its packages"
	@echo "make test-browser   the server's page and transformers.js in Chromium,"
	@echo "            which must be there, as npm must"
	@echo "make test-newest   a part of the tests with NEWEST, TensorFlow 2.21"
	@echo "make soak   kill jobs at random moments and compare results (hours)"
	@echo "make mutants FILES=albert_tf/data/masking.py  mutation tests of files"
	@echo "make fuzz   try many random hostile files and flags (ROUNDS=20)"
	@echo "make lint   check format, style and types"
	@echo "make docs   the pages as a site in build/site; checks their links"
	@echo "make dist   wheel and source archive for a release, checked, in dist/"
	@echo "make format fix format and what else can be fixed automatically"
	@echo "make clean  remove the environment, caches and build folders"

setup: $(SETUP_DONE)

demo: setup
	tools/demo.sh "$(PY)" "$(OUTPUT)" "$(SEED)"

test: setup
	"$(PY)" tools/run_tests.py --ignore=tests/lab $(ARGS)

test-all: setup
	"$(PY)" tools/run_tests.py --ignore=tests/lab -m "$(ALL)" $(ARGS)

test-lab: setup
	"$(PY)" tools/run_tests.py tests/lab $(ARGS)

# jax is tested without TensorFlow.
test-jax: setup $(JAX)/.setup-done
	ALBERT_TF_JAX_PYTHON="$(JAX)/bin/python" "$(PY)" tools/run_tests.py \
	    -m jax tests/lab/test_train_step.py $(ARGS)

# tf2onnx takes 5 GB for a model of 90 MB.
test-torch: $(TORCH_DONE)
	MOST_MIB=8192 "$(PY)" tools/run_tests.py -m torch tests/parity/test_huggingface.py \
	    tests/parity/test_xlnet.py tests/parity/test_t5.py \
	    tests/parity/test_bert.py tests/parity/test_ernie.py \
	    tests/parity/test_foreign_tokenizers.py tests/parity/test_hub_folder.py \
	    tests/parity/test_keras_hub.py \
	    tests/parity/test_mediapipe.py tests/parity/test_sentence_folder.py \
	    tests/parity/test_rankings.py tests/parity/test_roberta.py \
	    tests/albert_tf/tasks/test_contract_of_classifiers.py $(ARGS)

# Chromium and npm are packages of the system: apt install chromium npm.
test-browser: $(BROWSER_DONE) $(JS)/.setup-done
	ALBERT_TF_JS="$(JS)" "$(PY)" tools/run_tests.py -m browser \
	    tests/end_to_end/test_browser.py tests/end_to_end/test_transformers_js.py \
	    $(ARGS)

# TensorFlow 2.21 writes two lines about itself, whatever the level of its log.
test-newest: $(NEW)/.setup-done
	"$(NEW)/bin/python" tools/run_tests.py tests/albert_tf/text \
	    tests/albert_tf/model/network tests/albert_tf/model/heads \
	    tests/albert_tf/serving/services/test_encoder_service.py \
	    tests/end_to_end/test_packed_training.py tests/test_wheel.py $(ARGS)

soak: setup
	"$(PY)" -m lab.soak --output_dir="$(SOAK)" --kills=$(KILLS) \
	    --seed="$(SEED)" $(ARGS)

# An interrupted run continues. ARGS: see lab/mutants.
mutants: setup
	"$(PY)" -m lab.mutants $(FILES) $(ARGS)

# A new seed each time, which is printed; FUZZ_SEED=N repeats a run.
fuzz: setup
	@seed=$${FUZZ_SEED:-$$(date +%s)}; echo "FUZZ_SEED=$$seed"; \
	FUZZ_SEED=$$seed FUZZ_ROUNDS="$(ROUNDS)" \
	    "$(PY)" tools/run_tests.py tests/hostile -m "$(ALL)" $(ARGS)

lint: $(LINT_DONE)
	@failed=; \
	"$(PY)" -m ruff format --check $(CODE) || failed="$$failed format"; \
	"$(PY)" -m ruff check $(CODE) || failed="$$failed style"; \
	"$(PY)" -m mypy || failed="$$failed types"; \
	test -z "$$failed" || { echo "Not in order:$$failed" >&2; exit 1; }

docs: $(LINT_DONE)
	@rm -rf build/pages && mkdir -p build/pages
	@ln -s $(PAGES:%=../../%) ../../tools/site/api.md build/pages
	NO_MKDOCS_2_WARNING=1 "$(PY)" -m mkdocs build --strict \
	    -f tools/site/mkdocs.yml
	@! grep -rE '<(script|img|iframe)[^>]* src="?(https?:)?//' build/site --include=*.html
	@echo "build/site/index.html"

dist: $(RELEASE)/.setup-done
	rm -rf dist
	"$(RELEASE)/bin/python" -m build --no-isolation
	"$(RELEASE)/bin/python" -m twine check --strict dist/*

format: $(LINT_DONE)
	"$(PY)" -m ruff check --fix $(CODE)
	"$(PY)" -m ruff format $(CODE)

clean:
	rm -rf "$(VENV)" "$(JAX)" "$(JS)" "$(NEW)" "$(RELEASE)" build dist *.egg-info
	rm -rf .pytest_cache .ruff_cache .mypy_cache .mutants .hypothesis
	find $(CODE) -name __pycache__ -type d -prune -exec rm -rf {} +

# The marker is written last. If it is missing, an earlier set-up was interrupted,
# and the environment is created again. If it is older than the requirements, the
# environment is updated.
$(SETUP_DONE): requirements.txt constraints.txt pyproject.toml
	@if [ ! -e "$@" ]; then sh tools/make_venv.sh "$(VENV)" $(PYTHON); fi
	@rm -f "$@" "$(LINT_DONE)" "$(TORCH_DONE)" "$(BROWSER_DONE)"
	@echo "Installing 175 packages into $(VENV): some minutes, 4 GB."
	$(PIP_INSTALL) "pip==$(PIP_VERSION)"
	$(PIP_INSTALL) -r requirements.txt --group exports --group lab \
	    -c constraints.txt --build-constraint constraints.txt
	@: # Commands run from other folders, too.
	@echo "$(CURDIR)" >"$$("$(PY)" -c "$(SITE)")/albert_tf.pth"
	@touch "$@"

$(LINT_DONE): $(SETUP_DONE) pyproject.toml
	$(PIP_INSTALL) --group lint --group docs -c constraints.txt
	@touch "$@"

$(BROWSER_DONE): $(SETUP_DONE) pyproject.toml
	$(PIP_INSTALL) --group browser -c constraints.txt
	@touch "$@"

# With other versions than the pinned ones, pip may download gigabytes for GPUs.
$(TORCH_DONE): $(SETUP_DONE) pyproject.toml
	@echo "Installing torch and transformers into $(VENV): 0.9 GB."
	$(PIP_INSTALL) --group parity -c constraints.txt
	$(PIP_INSTALL) --no-deps mediapipe==1.2.3  # Its cv2 and ours collide.
	$(PIP_INSTALL) --no-deps keras-hub==0.32.0  # Pins a kagglesdk.
	@touch "$@"

$(JAX)/.setup-done: requirements-jax.txt
	sh tools/make_venv.sh "$(@D)" $(PYTHON)
	@echo "Installing $< into $(@D): 0.6 to 1.3 GB."
	"$(@D)/bin/python" $(INSTALL) "pip==$(PIP_VERSION)"
	"$(@D)/bin/python" $(INSTALL) -r $<
	@touch "$@"

# Without scripts, which would download libraries for GPUs.
$(JS)/.setup-done: Makefile
	npm install --prefix "$(@D)" --ignore-scripts --no-audit --no-fund \
	    --loglevel=error @huggingface/transformers@4.3.2
	@touch "$@"

$(NEW)/.setup-done: requirements-newest.txt pyproject.toml
	sh tools/make_venv.sh "$(@D)" $(NEWEST)
	@echo "Installing $< into $(@D): 3 GB."
	"$(@D)/bin/python" $(INSTALL) "pip==$(PIP_VERSION)"
	"$(@D)/bin/python" $(INSTALL) -r $< --group tests
	@touch "$@"

$(RELEASE)/.setup-done: pyproject.toml
	sh tools/make_venv.sh "$(@D)" $(PYTHON)
	"$(@D)/bin/python" $(INSTALL) "pip==$(PIP_VERSION)"
	"$(@D)/bin/python" $(INSTALL) --group release -c constraints.txt
	@touch "$@"
