#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# install_test.sh BUILD: make install and uninstall with PREFIX and DESTDIR, and the README's first program
# built against what was installed: by pkg-config and by CMake, shared and static.
set -eu
build=$1
top=$(cd "$(dirname "$0")/../.." && pwd)
cd "$top"
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT INT TERM
fail() { echo "install_test: $*"; exit 1; }
files_under() { find "$1" ! -type d | sort; }

echo "== DESTDIR"
make -s install BUILD="$build" PREFIX=/opt/weft DESTDIR="$tmp/stage area" >/dev/null
for f in bin/weft lib/libweft.so lib/libweft.a include/weft/weft.h lib/pkgconfig/weft.pc \
  lib/cmake/weft/weft-config.cmake share/man/man1/weft.1 share/bash-completion/completions/weft \
  share/zsh/site-functions/_weft share/doc/weft/LICENSE; do
  found=$(find "$tmp/stage area/opt/weft" -path "*/$(basename "$(dirname "$f")")*/$(basename "$f")" | head -n 1)
  [ -n "$found" ] || fail "$f was not installed"
done
[ -z "$(find "$tmp/stage area" -path "$tmp/stage area/opt/weft" -prune -o ! -type d -print)" ] ||
  fail "something was installed outside PREFIX"
for header in "$tmp/stage area/opt/weft/include"/*; do
  [ "$(basename "$header")" = weft ] || fail "$header is installed beside include/weft"
done
make -s uninstall BUILD="$build" PREFIX=/opt/weft DESTDIR="$tmp/stage area"
[ -z "$(files_under "$tmp/stage area")" ] || fail "uninstall left $(files_under "$tmp/stage area")"

echo "== PREFIX"
prefix=$tmp/prefix
mkdir -p "$prefix/bin"
echo mine >"$prefix/bin/other"
make -s install BUILD="$build" PREFIX="$prefix" >/dev/null
lib=$(dirname "$(find "$prefix" -name libweft.a)")
PKG_CONFIG_PATH=$lib/pkgconfig
export PKG_CONFIG_PATH
flags="-std=c11 -Wall -Wextra -Werror"

echo "== pkg-config, shared"
# shellcheck disable=SC2046,SC2086
${CC:-gcc} $flags tests/install/first.c -o "$tmp/pc_shared" $(pkg-config --cflags --libs weft)
echo "== pkg-config, static"
# shellcheck disable=SC2046,SC2086
${CC:-gcc} $flags tests/install/first.c -o "$tmp/pc_static" \
  $(pkg-config --static --cflags --libs weft | sed 's/-lweft\b/-l:libweft.a/')
echo "== CMake, both"
cmake -G Ninja -S tests/install/consumer -B "$tmp/consumer" -DCMAKE_PREFIX_PATH="$prefix" >"$tmp/cmake.log" 2>&1 ||
  { cat "$tmp/cmake.log"; fail "find_package(weft) failed"; }
cmake --build "$tmp/consumer" >"$tmp/cmake.log" 2>&1 || { cat "$tmp/cmake.log"; fail "the CMake consumer did not build"; }

LD_LIBRARY_PATH=$lib
export LD_LIBRARY_PATH
for program in pc_shared pc_static consumer/with_shared consumer/with_static; do
  code=0
  "$tmp/$program" "$tmp/no such package" >"$tmp/out" 2>"$tmp/err" || code=$?
  [ "$code" -ge 3 ] && [ "$code" -le 120 ] || { cat "$tmp/err"; fail "$program: exit code $code for a missing package"; }
  grep -q "no such package" "$tmp/err" || { cat "$tmp/err"; fail "$program: the error does not name the package"; }
  [ ! -s "$tmp/out" ] || fail "$program: the library printed something"
done
ldd "$tmp/pc_shared" | grep -q libweft.so.0 || fail "pc_shared does not use libweft.so.0"
! ldd "$tmp/pc_static" | grep -q libweft || fail "pc_static still needs libweft.so"

if [ -r "${WEFT_TEST_MODEL:-}" ]; then
  echo "== an answer"
  XDG_CACHE_HOME="$tmp/cache" "$tmp/pc_shared" "$WEFT_TEST_MODEL" >"$tmp/answer" || fail "no answer from the demo model"
  [ "$(wc -c <"$tmp/answer")" -gt 20 ] || fail "the answer is too short: $(cat "$tmp/answer")"
fi

make -s uninstall BUILD="$build" PREFIX="$prefix"
[ "$(files_under "$prefix")" = "$prefix/bin/other" ] || fail "uninstall left $(files_under "$prefix")"
echo "== all well"
