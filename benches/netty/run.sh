#!/bin/sh
# Runs the workloads of benches/rivals on Netty's HashedWheelTimer:
#
#   run.sh install              install what is missing, and compile
#   run.sh check                compile; if something is missing, say what, and fail
#   run.sh run WORKLOAD k=v...  run one workload (after `check` or `install`)
#   run.sh versions             print the versions of Netty and of the JVM
#
# Needs a JDK (17 or newer), netty-common.jar and jctools-core.jar, which are Debian's packages
# default-jdk-headless, libnetty-java and libjctools-java.
# NETTY_JARS: another folder with the two jars. NETTY_HEAP: another -Xmx than 4g.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
out=${CARGO_TARGET_DIR:-$here/../../target}/netty
from=${NETTY_JARS:-/usr/share/java}
jars=$from/netty-common.jar:$from/jctools-core.jar

fail() {
    echo "netty/run.sh: $*" >&2
    exit 1
}

# Prints the Debian packages that are missing, nothing if all is there.
missing() {
    command -v javac >/dev/null || echo default-jdk-headless
    [ -e "$from/netty-common.jar" ] || echo libnetty-java
    [ -e "$from/jctools-core.jar" ] || echo libjctools-java
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
    [ -z "$(find "$here" -name '*.java' -newer "$out/NettyTimer.class" 2>&1)" ] && return 0
    javac -nowarn --release 17 -cp "$jars" -d "$out" "$here"/*.java >&2 ||
        fail "the Java program does not compile against $jars"
}

case ${1:-} in
install)
    install_missing
    compile
    ;;
check)
    compile
    ;;
run)
    shift
    exec java -XX:+UseParallelGC "-Xmx${NETTY_HEAP:-4g}" -cp "$out:$jars" NettyTimer "$@"
    ;;
versions)
    # Debian has a link beside it, with the version in its name.
    netty=$(find "$from" -name 'netty-common-[0-9]*.jar' | sed 's/.*netty-common-//; s/\.Final.*//; s/\.jar$//' | head -n 1)
    java=$(java -version 2>&1 | sed -n 's/^openjdk version "\([^"]*\)".*/OpenJDK \1/p')
    echo "Netty ${netty:-of unknown version} on ${java:-a JVM}"
    ;;
*)
    sed -n '2,/^set/p' "$0" | sed '$d; s/^# \{0,1\}//' >&2
    exit 2
    ;;
esac
