#!/bin/sh
# Make an empty virtual environment, in place of an unfinished one.
#
# Usage: sh tools/make_venv.sh FOLDER [PYTHON]
#
# Without PYTHON, the first of python3.11, python3.12, python3.13 and python3 is
# taken that is Python 3.11 to 3.13 and can make environments.

set -eu

venv=$1
candidates=${2:-python3.11 python3.12 python3.13 python3}

fits() {
    "$1" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info < (3, 14))' \
        2>/dev/null
}

python=
lacks_venv=
for candidate in $candidates; do
    fits "$candidate" || continue
    if "$candidate" -c 'import ensurepip, venv' 2>/dev/null; then
        python=$candidate
        break
    fi
    lacks_venv=$candidate
done

if [ -z "$python" ]; then
    if [ -n "$lacks_venv" ]; then
        echo "$lacks_venv cannot make virtual environments: its venv module is" \
            "missing. On Debian or Ubuntu: apt install python3-venv (or" \
            "python3.11-venv, python3.12-venv, python3.13-venv); then call make again." >&2
    else
        for candidate in $candidates; do
            echo "$candidate: $("$candidate" -V 2>/dev/null || echo not there)" >&2
        done
        echo "TensorFlow 2.20 and its companions need Python 3.11 to 3.13." \
            "Install one, or name it: make setup PYTHON=/path/to/python3.12" >&2
    fi
    exit 1
fi

if [ -d "$venv" ] && [ -n "$(ls -A "$venv")" ] && [ ! -f "$venv/pyvenv.cfg" ]
then
    echo "$venv exists and is not a virtual environment. Remove it, or choose" \
        "another folder: make setup VENV=other" >&2
    exit 1
fi

# pyvenv.cfg is there from the first moment to the last, so that the check above
# recognizes what an interrupted run leaves behind.
mkdir -p "$venv"
touch "$venv/pyvenv.cfg"
find "$venv" -mindepth 1 -maxdepth 1 ! -name pyvenv.cfg -exec rm -rf {} +
echo "Making the environment $venv with $("$python" -VV 2>&1 | head -n 1)"
"$python" -m venv "$venv"
