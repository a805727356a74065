#!/bin/sh
# The demo: Archiver's main job on the embedded store, from an empty folder, as a user would run it.
set -eu
cd "$ARCHIVER_HOME"
PATH="$VENV_BIN:$PATH"
archiver run dr550 --quick
run=$(ls runs)
archiver report "$run"
archiver cleanup "$run" --bypass-governance
