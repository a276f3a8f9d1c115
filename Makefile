# Two commands do everything on a fresh Debian 12: `make demo` and `make test`. Each installs what it needs (as root, or with
# sudo), builds, and runs. The build itself is CMake's; see docs/hacking.md for the presets.

# libbz2-dev: libzip's static form wants it and does not bring it
PACKAGES = gcc cmake ninja-build pkg-config libc6-dev libjansson-dev libpcre2-dev libzip-dev libbz2-dev libssl-dev \
    libxxhash-dev libpopt-dev libcmocka-dev
BUILD = build/release

.PHONY: all configure build command test demo deps install check-all asan tsan clang-test aarch64 old-cpu macos fuzz lint sparse kills report-browser clean

all: build

# Asks the package system first: on a machine that has all, nothing needs root or a network. Elsewhere than on Debian the
# packages are the user's affair (README).
deps:
	@tools/install-packages.sh $(PACKAGES)

configure: deps | $(BUILD)
	@cmake --preset release > $(BUILD)-configure.log 2>&1 || { cat $(BUILD)-configure.log; exit 1; }

build: configure
	@cmake --build --preset release

# the command alone: who wants to see it need not wait for the tests
command: configure
	@cmake --build --preset release --target winnow

$(BUILD): ; @mkdir -p $@

test: build
	ctest --preset release

demo: command
	@WINNOW=$(BUILD)/cli/winnow WINNOW_DATA=data tools/demo.sh

install: build
	cmake --install $(BUILD)

# ---- longer suites, each a target of its own; .ci/run calls them ----

# every test again under ASan and UBSan, and what threads share under TSan
asan: deps
	cmake --preset asan && cmake --build --preset asan && ctest --preset asan
tsan: deps
	cmake --preset tsan && cmake --build --preset tsan && \
	    ctest --preset tsan -R 'sys/|kernels/|formats/test_source|graph/|engine/|jobs/test_calibrate|jobs/test_probe|jobs/test_eval|jobs/test_hashing|jobs/test_prune_hashes'
clang-test: deps
	@tools/install-packages.sh clang
	cmake --preset clang && cmake --build --preset clang && ctest --preset clang

# NEON: cross-compiled; what computes, the readers and a whole model run under qemu
aarch64:
	@tools/install-arm64.sh
	cmake --preset aarch64 && cmake --build --preset aarch64
	ctest --preset aarch64 -R 'base/|sys/|quant/|kernels/|formats/|graph/|engine/test_golden'

# the start-up and a short run on a processor of 2008, under qemu
old-cpu: build
	@tools/install-packages.sh qemu-user
	ctest --preset release -R 'kernels/test_kernels_old_cpu|cli/an-old-processor'

# the published files of Kimi-K3 in full size, their data left out; the maker is in the shared folder
sparse: build
	tools/make-sparse.sh build/sparse
	WINNOW_SPARSE=$(CURDIR)/build/sparse ctest --preset release \
	    -R 'formats/test_source|model/test_bind$$|model/test_inspect|jobs/test_prune_sparse|jobs/test_plan_sparse|jobs/test_calibrate_need|cli/full-size'

# calibrate, probe, eval and prune killed at 200 random moments each, and taken up; prune also before every one of its writes
kills: build
	WINNOW_KILLS=200 ctest --preset release -R 'jobs/test_calibrate_resume|jobs/test_probe_resume'
	WINNOW_KILLS=200 $(BUILD)/tests/test_eval_resume
	WINNOW_KILLS=200 $(BUILD)/tests/test_prune_resume
	WINNOW_KILLS=200 $(BUILD)/tests/test_prune_consume

# the library's sources for Apple silicon; compiled, not run
macos:
	tools/check-macos.sh

# what a browser says of a report; Chromium is installed, skipped where it cannot be
report-browser: build
	@WINNOW=$(CURDIR)/$(BUILD)/cli/winnow WINNOW_DATA=$(CURDIR)/data tools/check-report.sh $(OUT)

fuzz: deps
	@tools/install-packages.sh clang libclang-rt-14-dev
	cmake --preset fuzz && cmake --build --preset fuzz --target fuzz_targets
	tools/fuzz.sh build/fuzz $(or $(SECONDS),60)

lint: deps
	@tools/install-packages.sh clang clang-format clang-tidy
	cmake --preset clang > /dev/null
	tools/lint.sh build/clang

check-all: test demo report-browser asan tsan clang-test aarch64 old-cpu macos fuzz lint

clean:
	rm -rf build
