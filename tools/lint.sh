#!/bin/sh
# clang-format in check mode over every C file, and clang-tidy with .clang-tidy's checks over those of the library and the
# command. BUILD is a folder that cmake configured for clang (its compile_commands.json is read). Usage: lint.sh BUILD
set -eu

root=$(cd "$(dirname "$0")/.." && pwd)
cd "$root"
git ls-files '*.c' '*.h' | grep -v '^src/quant/grids' | xargs clang-format --dry-run -Werror

# each file in a process of its own, as many as there are processors; nothing is said but what it finds
said=$(mktemp)
trap 'rm -f "$said"' EXIT
if ! git ls-files 'src/*.c' 'cli/*.c' | grep -v -e /arm/ -e '^src/quant/grids' |
    xargs -P "$(getconf _NPROCESSORS_ONLN)" -n 1 clang-tidy -p "$1" --quiet > "$said" 2> /dev/null; then
    cat "$said"
    exit 1
fi
echo "lint: nothing to say"
