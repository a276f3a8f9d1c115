#!/bin/sh
# clang-format in check mode over every C file, and clang-tidy with .clang-tidy's checks. Usage: lint.sh BUILD
set -eu

root=$(cd "$(dirname "$0")/.." && pwd)
cd "$root"
files=$(git ls-files '*.c' '*.h' | grep -v '^src/quant/grids')
# shellcheck disable=SC2086
clang-format --dry-run -Werror $files
# shellcheck disable=SC2046
clang-tidy -p "$1" --quiet $(git ls-files 'src/*.c' 'cli/*.c' | grep -v -e /arm/ -e '^src/quant/grids') 2>&1 |
    grep -E 'warning:|error:' && exit 1
echo "lint: nothing to say"
