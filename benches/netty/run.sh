#!/bin/sh
# Runs the workloads on the timers of the JVM:
#
#   netty    Netty 4.1's HashedWheelTimer: Debian's packages, and the JDK that is installed
#   netty42  Netty 4.2's, on a current JVM: both fetched by benches/rivals/get-rivals
#   stpe     the JDK's ScheduledThreadPoolExecutor, on the newest of these JVMs
#
#   run.sh                            install what is missing, compile, run every workload on netty once
#   run.sh install                    install what netty needs and compile
#   run.sh check TIMER                compile; if something is missing, say what, and fail
#   run.sh run TIMER WORKLOAD k=v...  run one workload (after `check` or `install`)
#
# Needs a JDK (17 or newer), netty-common.jar and jctools-core.jar, which are Debian's packages
# default-jdk-headless, libnetty-java and libjctools-java.
# NETTY_JARS: another folder with the two jars. NETTY_HEAP: another -Xmx than 2g.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
target=${CARGO_TARGET_DIR:-$here/../../target}
debian=${NETTY_JARS:-/usr/share/java}
fetched=$target/rivals

fail() {
    echo "netty/run.sh: $*" >&2
    exit 1
}

# Sets jars (with what netty consists of), java and out for a timer.
choose() {
    java=java
    case $1 in
    netty)
        jars=$debian/netty-common.jar:$debian/jctools-core.jar
        ;;
    netty42)
        jars=$fetched/netty42/netty-common.jar
        java=$fetched/jdk/bin/java
        ;;
    stpe)
        jars=$debian/netty-common.jar:$debian/jctools-core.jar
        [ ! -x "$fetched/jdk/bin/java" ] || java=$fetched/jdk/bin/java
        [ -e "$debian/netty-common.jar" ] || jars=$fetched/netty42/netty-common.jar
        ;;
    *)
        fail "there is no timer '$1': netty, netty42, stpe"
        ;;
    esac
    out=$target/netty/$1
}

# Prints the Debian packages that are missing, nothing if all is there.
missing() {
    command -v javac >/dev/null || echo default-jdk-headless
    [ -e "$debian/netty-common.jar" ] || echo libnetty-java
    [ -e "$debian/jctools-core.jar" ] || echo libjctools-java
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

# Says what a timer lacks, and fails; nothing if all is there.
require() {
    if [ "$1" = netty42 ]; then
        command -v javac >/dev/null ||
            fail "missing: javac (Debian's default-jdk-headless); benches/netty/run.sh install installs it"
        [ -e "$fetched/netty42/netty-common.jar" ] && [ -x "$fetched/jdk/bin/java" ] ||
            fail "missing: Netty 4.2 and a current JVM; benches/rivals/get-rivals fetches them"
        return 0
    fi
    # The executor is compiled together with Netty, whichever there is.
    [ "$1" = stpe ] && command -v javac >/dev/null && [ -e "$fetched/netty42/netty-common.jar" ] && return 0
    packages=$(missing | tr '\n' ' ')
    [ -z "$packages" ] ||
        fail "missing: $packages(Debian packages); benches/netty/run.sh install installs them"
}

compile() {
    require "$1"
    choose "$1"
    mkdir -p "$out"
    [ -z "$(find "$here" -name '*.java' -newer "$out/JavaTimers.class" 2>&1)" ] && return 0
    javac -nowarn --release 17 -cp "$jars" -d "$out" "$here"/*.java >&2 ||
        fail "the Java program does not compile against $jars"
}

run() {
    choose "$1"
    exec "$java" -XX:+UseParallelGC "-Xmx${NETTY_HEAP:-2g}" -cp "$out:$jars" JavaTimers "$@"
}

show() {
    echo "$*"
    (run netty "$@") | sed 's/^/    /'
}

case ${1:-all} in
install)
    install_missing
    compile netty
    ;;
check)
    compile "${2:-netty}"
    ;;
run)
    shift
    [ $# -ge 2 ] || fail "run takes a timer and a workload"
    run "$@"
    ;;
all)
    install_missing
    compile netty
    for flight in 1000 100000; do
        for producers in 1 2; do
            show churn flight=$flight producers=$producers ops=5000000 tick_us=10000 slots=4096
        done
    done
    for tick in 1000 10000; do
        show fire flight=1000000 tick_us=$tick slots=4096 delay_ms=3000 spread_ms=2000
        show lateness flight=100000 tick_us=$tick slots=4096 delay_ms=1000 spread_ms=2000
        show hold flight=1000000 tick_us=$tick slots=512 watch_ms=5000
    done
    for pending in 0 1; do
        show idle flight=$pending tick_us=1000 slots=512 watch_ms=5000
    done
    show memory-pending flight=1000000 tick_us=10000 slots=4096
    show memory-churn flight=100000 ops=5000000 tick_us=10000 slots=4096
    ;;
*)
    sed -n '2,/^set/p' "$0" | sed '$d; s/^# \{0,1\}//' >&2
    exit 2
    ;;
esac
