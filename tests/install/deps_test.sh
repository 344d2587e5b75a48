#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# tools/deps with stand-ins for apt-get, dpkg-query, id and sudo: what it installs, as whom, and when it refuses.
set -eu
top=$(cd "$(dirname "$0")/../.." && pwd)
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT INT TERM
mkdir "$tmp/bin" "$tmp/home"
for tool in sh sed grep mkdir rm cat cp cmp dirname basename env tr mktemp sha256sum; do
  ln -s "$(command -v $tool)" "$tmp/bin/$tool"
done
stub() { # stub NAME BODY
  rm -f "$tmp/bin/$1"
  printf '#!/bin/sh\n%s\n' "$2" >"$tmp/bin/$1"
  chmod +x "$tmp/bin/$1"
}
reset() {
  : >"$tmp/calls"
  rm -f "$tmp/bin/sudo"
  stub apt-get "echo \"apt-get \$* \$DEBIAN_FRONTEND\" >>'$tmp/calls'"
  stub id 'echo 0'
  stub dpkg-query 'for last; do :; done; case " $INSTALLED " in *" $last "*) echo "install ok installed" ;; *) exit 1 ;; esac'
  printf 'ID=debian\n' >"$tmp/os"
}
all="gcc libc6-dev cmake ninja-build pkg-config make libjansson-dev libpcre2-dev libutf8proc-dev libyaml-dev libmd-dev libedit-dev"
deps() { # deps INSTALLED SET: runs it, output in $tmp/out, code in $code
  code=0
  env -i PATH="$tmp/bin" HOME="$tmp/home" INSTALLED="$1" WEFT_OS_RELEASE="$tmp/os" "$tmp/bin/sh" "$top/tools/deps" "$2" \
    >"$tmp/out" 2>&1 </dev/null || code=$?
}
check() { # check NAME CONDITION...
  name=$1
  shift
  if "$@"; then echo "ok $name"; else
    echo "FAILED $name (exit $code)"
    cat "$tmp/out" "$tmp/calls"
    exit 1
  fi
}

reset
deps "$all" build
check "with everything installed nothing is called" test "$code" = 0 -a ! -s "$tmp/calls" -a ! -s "$tmp/out"

reset
deps "gcc libc6-dev cmake make pkg-config libpcre2-dev libutf8proc-dev libyaml-dev libmd-dev libedit-dev" build
check "root installs exactly what is missing" grep -q '^apt-get install -y --no-install-recommends ninja-build libjansson-dev noninteractive$' "$tmp/calls"
check "the line is printed first" grep -q '^deps: apt-get install -y --no-install-recommends ninja-build libjansson-dev' "$tmp/out"

reset
stub id 'echo 1000'
deps "" build
check "neither root nor sudo is a refusal" test "$code" = 1 -a ! -s "$tmp/calls"
check "the refusal names what is missing" grep -q 'missing: gcc .*libedit-dev' "$tmp/out"

reset
stub id 'echo 1000'
stub sudo "echo sudo >>'$tmp/calls'; exec \"\$@\""
deps "" build
check "sudo is used when not root" grep -q '^sudo$' "$tmp/calls"

reset
printf 'ID=fedora\n' >"$tmp/os"
deps "" build
check "another system is a refusal" test "$code" = 1 -a ! -s "$tmp/calls"
check "which says what is missing" grep -q 'not Debian.*libjansson-dev' "$tmp/out"

reset
stub apt-get 'exit 100'
deps "" build
check "a failed apt-get is a failure" test "$code" = 1

reset
deps "" nonsense
check "an unknown set is refused by name" grep -q "unknown set 'nonsense'" "$tmp/out"
