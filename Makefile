# What a person would type. Everything is set up first; nothing asks a question.
#
#   make run      build the program for this machine, then show what it does here
#   make test     build, then run every test
#   make help     the rest

BUILD     ?= build
JOBS      ?= $(shell nproc)
PRESET    ?= release
CMAKE     = cmake --preset $(PRESET) -B $(BUILD)
CONFIGURE = scripts/configure $(BUILD) $(PRESET)
export JOBS

.DEFAULT_GOAL := help

help: ## list these targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 20

setup: ## install what is missing (Debian packages where possible)
	@scripts/setup

configure: setup
	@$(CONFIGURE) -UHEDDLE_QUICK

build: configure ## build libraries, program and tests into build/
	@scripts/build $(BUILD)

# Nothing but the program, its plug-ins and the instruction set of this machine, unless more was built before.
run: ## build and run the main job on what ships with the project
	@scripts/setup program
	@[ -f $(BUILD)/CMakeCache.txt ] || $(CONFIGURE) -DHEDDLE_QUICK=ON
	@scripts/build $(BUILD) heddle heddle_plugins
	@scripts/demo $(BUILD)

test: build ## build and run every test
	@ctest --test-dir $(BUILD) -j $(JOBS) --output-on-failure

unit: configure ## build and run the unit tests: half a minute, but for the build
	@scripts/build $(BUILD) unit_tests
	@ctest --test-dir $(BUILD) -L unit -j $(JOBS) --output-on-failure

test-long: build ## 10,000 random graphs over random devices (HEDDLE_FUZZ_GRAPHS=n for more)
	@HEDDLE_FUZZ_GRAPHS=$${HEDDLE_FUZZ_GRAPHS:-10000} $(BUILD)/tests/sched_fuzz

sweep: build ## fail every call to the system at every point, where `make test` draws some
	@HEDDLE_SWEEP=full $(BUILD)/tests/faults_test
	@HEDDLE_SWEEP=full $(BUILD)/tests/program_sweep_test

test-arm: setup ## cross-build for 64-bit Arm, and run the tests of kernels under emulation
	@JOBS=$(JOBS) scripts/test-arm $(BUILD)-arm

test-cuda: setup ## build the CUDA backend, and check the device of this machine with it
	@$(CMAKE)-cuda -DHEDDLE_CUDA=ON >$(BUILD)-cuda-configure.log 2>&1 || { cat $(BUILD)-cuda-configure.log; exit 1; }
	@cmake --build $(BUILD)-cuda -j $(JOBS) --target ggml-cuda ggml-sim heddle campaign conformance_test cuda_choice_test \
		cuda_client_test cuda_faults_test cuda_formats_test cuda_groups_test cuda_kernels_test cuda_plugin_test cuda_products_test cuda_several_test cuda_test \
		cuda_whisper_test gpu_test
	@scripts/test-cuda $(BUILD)-cuda

test-vulkan: build ## check the Vulkan backend on the first driver of this machine, also under the validation layer
	@scripts/test-vulkan $(BUILD)

bench: build ## build and run the benchmarks
	@scripts/bench $(BUILD)

lint: setup ## check rules and layout, and run clang-tidy
	@scripts/lint $(BUILD)

format: ## lay out the sources with clang-format
	@scripts/format

fuzz: setup ## 60 seconds each of hostile GGUF files, messages and graphs of other ranks (FUZZ_SECONDS=n for more)
	@scripts/fuzz

campaign: setup ## random cases through every door for HOURS=1 on all cores (COVERAGE=1: which lines they run)
	@HOURS=$(or $(HOURS),1) JOBS=$(JOBS) BUILD=$(BUILD) PRESET=$(PRESET) COVERAGE=$(COVERAGE) scripts/campaign

sanitize: setup ## the tests under the address and undefined-behaviour sanitizers
	@$(MAKE) test PRESET=asan BUILD=$(BUILD)-asan

sanitize-threads: setup ## the tests under the thread sanitizer
	@$(MAKE) test PRESET=tsan BUILD=$(BUILD)-tsan

sanitize-quick: setup ## the bounded suite under both, as every change must pass it
	@JOBS=$(JOBS) scripts/sanitize quick

sanitize-all: setup ## every test under both, and valgrind; logs in build-sanitize/
	@JOBS=$(JOBS) scripts/sanitize all

coverage: setup ## the lines and branches of src that the tests reach
	@JOBS=$(JOBS) scripts/coverage $(BUILD)-coverage

docs: build ## write the pages that are made from the code
	@scripts/docs $(BUILD)

install: build ## install (DESTDIR, PREFIX)
	@cmake --install $(BUILD) $(if $(PREFIX),--prefix $(PREFIX))

package: build ## make a Debian package in build/packages
	@cd $(BUILD) && cpack

clean: ## remove everything that was built
	@rm -rf $(BUILD) $(BUILD)-*

.PHONY: help setup configure build run test unit test-long sweep test-arm bench lint format fuzz campaign sanitize sanitize-threads sanitize-quick sanitize-all coverage docs install package clean
