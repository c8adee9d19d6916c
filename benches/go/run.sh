#!/bin/sh
# Runs the workloads on Go's timers, time.AfterFunc and Stop.
#
#   run.sh check go                compile; if something is missing, say what, and fail
#   run.sh run go WORKLOAD k=v...  run one workload (after `check`)
#
# Needs Go 1.24 or newer: the one that benches/rivals/get-rivals has fetched, or else the one that is installed.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
target=${CARGO_TARGET_DIR:-$here/../../target}
program=$target/go/timers
go=$target/rivals/go/bin/go
[ -x "$go" ] || go=go

fail() {
    echo "go/run.sh: $*" >&2
    exit 1
}

compile() {
    command -v "$go" >/dev/null || fail "missing: Go; benches/rivals/get-rivals fetches it"
    [ -z "$(find "$here" -name '*.go' -newer "$program" 2>&1)" ] && return 0
    mkdir -p "$target/go"
    # Only what comes with Go is used: no module is fetched, no other toolchain either.
    cd "$here"
    GO111MODULE=off GOTOOLCHAIN=local GOFLAGS= GOCACHE=$target/go/cache "$go" build -o "$program" main.go >&2 ||
        fail "the Go program does not compile with $("$go" version 2>&1 | head -1); Go 1.24 or newer is needed"
}

case ${1:-} in
check)
    compile
    ;;
run)
    shift 2
    [ $# -ge 1 ] || fail "run takes a workload"
    exec "$program" "$@"
    ;;
*)
    sed -n '2,/^set/p' "$0" | sed '$d; s/^# \{0,1\}//' >&2
    exit 2
    ;;
esac
