#!/bin/sh
# The demo: Archiver's main job on the embedded store, in both of its protocols, from an empty folder, as a user would
# run it.
set -eu
cd "$ARCHIVER_HOME"
PATH="$VENV_BIN:$PATH"
archiver run dr550 --quick --backend tsm --management-class SHORT
tsm=$(ls runs)
archiver run dr550 --quick
s3=$(ls runs | tail -n 1)
archiver report "$tsm"
archiver compare "$s3" "$tsm"
archiver cleanup "$tsm"
archiver cleanup "$s3" --bypass-governance
