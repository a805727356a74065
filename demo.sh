#!/bin/sh
# The demo: the embedded store measured through both of its protocols in turn, compared, and cleaned up, from an empty
# folder, as a user would do it. What it says of errors and bytes follows from the commands' exit status: a failed
# operation or a damaged byte ends this script.
set -eu
cd "$ARCHIVER_HOME"
archiver="$VENV_BIN/archiver"
cat >demo.toml <<'TOML'
name = "demo"
title = "Small and large objects, alone and in sessions"

[stop]
warm_up_seconds = "250ms"
seconds_min = "1s"
seconds_max = "1500ms"
bytes_max = "128MB"

[[sweep]]
name = "archive small"
operation = "archive"
object_sizes = ["8KiB"]
objects_per_session = [1, 100]
clients = [1]

[[sweep]]
name = "archive large"
operation = "archive"
object_sizes = ["1MiB"]
objects_per_session = [10]
clients = [1]

[[sweep]]
name = "retrieve"
operation = "retrieve"
object_sizes = ["8KiB", "1MiB"]
objects_per_session = [10]
clients = [1]
TOML
printf 'The embedded store, through S3 and the TSM client API in turn, about two minutes:'
for turn in 1 2 3 4; do
    "$archiver" run demo.toml --quiet
    "$archiver" run demo.toml --backend tsm --management-class SHORT --quiet
    printf ' %s of 4' "$turn"
done
echo
"$archiver" compare $(ls runs) --tables comparison --format html --out page >compared.txt
sed -n '/^s3: \|^tsm: /d; /^note: /q; p' compared.txt
sed -n '/^  *object  /,/^Grade/p' compared.txt | sed '/^$/d'
for run in $(ls runs); do "$archiver" cleanup "$run" --bypass-governance >>removed.txt 2>&1; done
echo "Every operation succeeded, every byte read back is as archived, and locks were read back before and after."
echo "It shows what a session of many objects gains in each protocol (batching). It does not size a store: client and"
echo "server share this machine. The page with figures: file://$ARCHIVER_HOME/page/comparison.html"
echo "Next:   export PATH=$VENV_BIN:\$PATH ARCHIVER_HOME=$ARCHIVER_HOME"
echo "    archiver bench --size 8KiB --clients 1,4 --duration 10s"
echo "    archiver worm"
echo "    archiver run dr550 --endpoint https://YOUR-STORE --dry-run"
