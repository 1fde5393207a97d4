#!/bin/sh
# A sweep of 2 settings x 2 arms x 3 rounds on two nodes of Ray on this machine, one of which is killed in the middle; then
# the same with the head killed, and gone on with. Needs tfbench[ray] in PYTHON. What is left in FOLDER: journals, records.
#
# Usage: PYTHON=python benchmarks/cluster/two_nodes.sh FOLDER [PORT]
set -eu
python=${PYTHON:-python} port=${2:-6399} here=$(cd "$(dirname "$0")" && pwd)
mkdir -p "$1" && cd "$1"
folder=$PWD
export RAY_USAGE_STATS_ENABLED=0 RAY_worker_niceness=0
start() { "$python" -m ray.scripts.scripts start --object-store-memory=100000000 --resources='{"tfbench": 1}' "$@" > /dev/null; }
raylets() { pgrep -x raylet -a | grep "$folder/ray" | cut -d' ' -f1; }
# Kills a process and all below it.
kill_tree() { "$python" -c 'import psutil, sys; p = psutil.Process(int(sys.argv[1])); [q.kill() for q in [p, *p.children(recursive=True)]]' "$1"; }
stop() { for pid in $(pgrep -f "$folder/ray"); do kill -9 "$pid" 2> /dev/null || true; done; }
trap stop EXIT
start --head --port="$port" --include-dashboard=false --temp-dir="$folder/ray"
start --address="127.0.0.1:$port"
# Waits until a sweep has made five of its twelve runs, which it says in a file, or ended before.
wait_for_five() { until grep -q '^\[5/12\]' "$1" 2> /dev/null; do kill -0 "$head" || { cat "$1"; exit 1; }; sleep 0.2; done; }
sweep() {
    "$python" -m tfbench sweep "$@" --engine ray --engine-option "address=127.0.0.1:$port"
}
plan="mnist_hidden100_mlp --data synthetic --vary training.global_batch_size=32,512 --repeats 3 --seconds 0.5 --set measurement.checks=false"

echo "== a node is killed after five runs"
# shellcheck disable=SC2086
sweep $plan --arm "default cpu:0" --arm "default cpu:0 intra_op_threads=1" --store node > node.txt 2>&1 & head=$!
wait_for_five node.txt
kill_tree "$(raylets | tail -1)"
wait $head || true
cat node.txt
"$python" "$here/overlaps.py" node

echo "== the head is killed after five runs, and the sweep gone on with"
start --address="127.0.0.1:$port"
# shellcheck disable=SC2086
"$python" -m tfbench sweep $plan --arm "default cpu:0" --arm "default cpu:0 intra_op_threads=1" --store head \
    --engine ray --engine-option "address=127.0.0.1:$port" > head.txt 2>&1 & head=$!
wait_for_five head.txt
kill -9 $head
sleep 5
sweep --resume @last --store head
"$python" "$here/overlaps.py" head
