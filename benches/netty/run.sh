#!/bin/sh
# Runs the workloads on real Netty.
#
#   run.sh                      install what is missing, compile, run every workload once
#   run.sh install              install what is missing and compile
#   run.sh check                compile; if something is missing, say what, and fail
#   run.sh run WORKLOAD k=v...  run one workload (after `check` or `install`)
#
# Needs a JDK (17 or newer), netty-common.jar and jctools-core.jar, which are Debian's packages
# default-jdk-headless, libnetty-java and libjctools-java.
# NETTY_JARS: another folder with the two jars. NETTY_HEAP: another -Xmx than 2g.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
jars=${NETTY_JARS:-/usr/share/java}
out=${CARGO_TARGET_DIR:-$here/../../target}/netty
class_path=$out:$jars/netty-common.jar:$jars/jctools-core.jar

# Prints what is missing, nothing if all is there.
missing() {
    command -v javac >/dev/null || echo default-jdk-headless
    [ -e "$jars/netty-common.jar" ] || echo libnetty-java
    [ -e "$jars/jctools-core.jar" ] || echo libjctools-java
}

fail() {
    echo "netty/run.sh: $*" >&2
    exit 1
}

install_missing() {
    packages=$(missing | tr '\n' ' ')
    [ -n "$packages" ] || return 0
    command -v apt-get >/dev/null ||
        fail "missing: $packages(names of Debian packages); there is no apt-get here, so install them by hand"
    [ "$(id -u)" = 0 ] ||
        fail "missing: $packages; run as root: apt-get install $packages"
    echo "netty/run.sh: installing $packages" >&2
    # shellcheck disable=SC2086  # a list of names
    { apt-get update -q && apt-get install -y -q $packages; } >&2 ||
        fail "missing: $packages; apt-get could not install them (its messages are above)"
}

compile() {
    packages=$(missing | tr '\n' ' ')
    [ -z "$packages" ] ||
        fail "missing: $packages(Debian packages); benches/netty/run.sh install installs them"
    mkdir -p "$out"
    [ -z "$(find "$here" -name '*.java' -newer "$out/NettyTimers.class" 2>&1)" ] && return 0
    javac -nowarn -cp "$class_path" -d "$out" "$here"/*.java >&2 ||
        fail "the Java program does not compile against the jars in $jars"
}

run() {
    exec java -XX:+UseParallelGC "-Xmx${NETTY_HEAP:-2g}" -cp "$class_path" NettyTimers "$@"
}

show() {
    echo "$*"
    (run "$@") | sed 's/^/    /'
}

case ${1:-all} in
install)
    install_missing
    compile
    ;;
check)
    compile
    ;;
run)
    shift
    run "$@"
    ;;
all)
    install_missing
    compile
    for flight in 1000 100000; do
        for producers in 1 2; do
            show churn flight=$flight producers=$producers ops=5000000 tick_ms=10 slots=4096
        done
    done
    for tick in 1 10; do
        show fire flight=1000000 tick_ms=$tick slots=4096
        show lateness flight=100000 tick_ms=$tick slots=4096
        show hold flight=1000000 tick_ms=$tick slots=512 watch_ms=5000
    done
    for pending in 0 1; do
        show idle flight=$pending tick_ms=1 slots=512 watch_ms=5000
    done
    show memory-pending flight=1000000 tick_ms=10 slots=4096
    show memory-churn flight=100000 ops=5000000 tick_ms=10 slots=4096
    ;;
*)
    sed -n '2,/^set/p' "$0" | sed '$d; s/^# \{0,1\}//' >&2
    exit 2
    ;;
esac
