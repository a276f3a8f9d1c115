#!/bin/sh
# Installs a build into an empty folder and uses only what lies there: the command with its bundled model, and the library
# from a program of its own, shared and static.
#
#   installed-tree.sh BUILD CMAKE CC
set -eu

build=$1
cmake=$2
cc=$3
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
root=$work/root

fail() {
    echo "installed-tree: $*" >&2
    exit 1
}

"$cmake" --install "$build" --prefix "$work/first" > "$work/log" || { cat "$work/log"; fail "cmake --install failed"; }
mv "$work/first" "$root" # a tree that was moved still works
unset WINNOW_DATA
cd "$work"

# the command, found by its path and on the PATH, with the model that came along
"$root/bin/winnow" inspect k3-mini --json > inspect.json
grep -q "\"model\": \"$root/bin/../share/winnow/models/k3-mini\"" inspect.json || fail "inspect took another model"
PATH="$root/bin:$PATH" winnow run -p "The " -n 4 --json > run.json 2> run.err
grep -q '"tokens": 4' run.json || fail "run did not give 4 tokens: $(cat run.json run.err)"
(cd /; "$root/bin/winnow" --version) | grep -q '^winnow [0-9]' || fail "no version"
mkdir "$work/link" && ln -s "$root/bin/winnow" "$work/link/winnow"
"$work/link/winnow" inspect k3-mini > /dev/null || fail "a link to the program does not find the model"

# the library: every public header alone, then a program, shared and static
PKG_CONFIG_PATH=$(dirname "$(find "$root" -name winnow.pc)")
export PKG_CONFIG_PATH
config() { pkg-config --define-variable=prefix="$root" "$@" winnow; }
lib=$(config --variable=libdir)
[ -f "$lib/libwinnow.a" ] || fail "no libwinnow.a in $lib"
for h in "$here"/../../include/winnow/*.h; do
    echo "#include <winnow/$(basename "$h")>" > one.c
    # shellcheck disable=SC2046
    "$cc" -std=c11 -Wall -Werror -c $(config --cflags) one.c -o one.o || fail "$(basename "$h") does not compile"
done
wanted="winnow $(config --modversion): 8 layers of kimi-k3"
# shellcheck disable=SC2046
"$cc" -std=c11 "$here/program.c" $(config --cflags --libs) -Wl,-rpath,"$lib" -o shared
# shellcheck disable=SC2046
"$cc" -std=c11 "$here/program.c" $(config --cflags --libs --static | sed "s|-lwinnow|$lib/libwinnow.a|") -o static
for program in shared static; do
    said=$("./$program" "$root/share/winnow/models/k3-mini")
    [ "$said" = "$wanted" ] || fail "the $program program said '$said', wanted '$wanted'"
done

# and this test can fail: without its model the tree is not whole (another winnow may be installed, with a model of its own)
rm -r "$root/share/winnow"
if "$root/bin/winnow" inspect k3-mini --json > inspect.json 2> /dev/null && grep -q "\"model\": \"$root" inspect.json; then
    fail "the model was not taken from the installed tree"
fi
