#!/bin/sh
# The demo: Archiver's main job on the embedded store, through both of its protocols, from an empty folder, as a user
# would run it. Every line but the last few is printed by the commands themselves.
set -eu
cd "$ARCHIVER_HOME"
archiver="$VENV_BIN/archiver"
echo "1 of 3: measuring the embedded store through the TSM client API, about a minute"
"$archiver" run dr550 --quick --backend tsm --management-class SHORT --quiet
tsm=$(ls runs)
echo "2 of 3: measuring it through S3 with Object Lock, about a minute"
"$archiver" run dr550 --quick --quiet
s3=$(ls runs | tail -n 1)
echo "3 of 3: comparing the two, and removing what they archived"
"$archiver" compare "$s3" "$tsm" --tables none --format html --out page >compared.txt
"$archiver" cleanup "$tsm" >removed.txt
"$archiver" cleanup "$s3" --bypass-governance >>removed.txt
"$archiver" report "$s3" --format text --tables none | sed '/^$/d; /^report: /d'
sed '$d' compared.txt # its last line names the page
cat removed.txt
echo "The page with both: file://$ARCHIVER_HOME/page/comparison.html"
echo "Try next (ARCHIVER_HOME=$ARCHIVER_HOME keeps these runs):"
echo "    $archiver bench --size 8KiB --clients 1,4 --duration 10s"
echo "    $archiver worm"
echo "    $archiver run dr550 --endpoint https://YOUR-STORE --dry-run"
