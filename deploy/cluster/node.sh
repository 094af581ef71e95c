#!/usr/bin/env bash
# One machine of a GRPO run on several: joins the run's Ray cluster and starts the ranks of this machine. Run it once on
# each, with the same configuration, under any scheduler:
#
#     deploy/cluster/node.sh CONFIG [options of `warpsmith-trainer grpo`]
#
# The first TRAIN_NODES machines train; Ray places samplers and evaluators on the GPUs that no rank has. SIGTERM to every
# machine lets the run finish its step and write a checkpoint. docs/clusters.md has the settings, and an example for
# each scheduler.
set -euo pipefail

fail() { echo "node.sh: $*" >&2; exit 2; }
say() { echo "node $NODE of $NODES: $*"; }

# Who this machine is: set by hand, or as Slurm, SkyPilot and an indexed Job of Kubernetes say it.
NODE=${NODE:-${SLURM_NODEID:-${SKYPILOT_NODE_RANK:-${JOB_COMPLETION_INDEX:-}}}}
NODES=${NODES:-${SLURM_JOB_NUM_NODES:-${SKYPILOT_NUM_NODES:-}}}
if [ -z "${HEAD:-}" ]; then
  addresses=${SKYPILOT_NODE_IPS:-}
  [ -z "${SLURM_JOB_NODELIST:-}" ] || addresses=$(scontrol show hostnames "$SLURM_JOB_NODELIST")
  HEAD=${addresses%%$'\n'*}
fi
TRAIN_NODES=${TRAIN_NODES:-1} PYTHON=${PYTHON:-python3}
RAY_PORT=${RAY_PORT:-6379} MASTER_PORT=${MASTER_PORT:-29500} START_S=${START_S:-600}

config=${1:-}
[ -f "$config" ] || fail "the first argument is the configuration of a run; '$config' is not a file."
[[ $NODE =~ ^[0-9]+$ && $NODES =~ ^[0-9]+$ && $NODE -lt $NODES ]] ||
  fail "NODE='$NODE' and NODES='$NODES' must number this machine from 0; no scheduler that is known here has set them."
[ -n "$HEAD" ] || fail "HEAD must be the address of machine 0, as the others reach it."
[[ $TRAIN_NODES =~ ^[0-9]+$ && $TRAIN_NODES -ge 1 && $TRAIN_NODES -le $NODES ]] ||
  fail "TRAIN_NODES='$TRAIN_NODES' must be 1 to $NODES."
[ -n "${RAY_AUTH_TOKEN:-}${RAY_AUTH_TOKEN_PATH:-}" ] ||
  fail "RAY_AUTH_TOKEN (or RAY_AUTH_TOKEN_PATH, a file) must be one secret on all machines: who reaches Ray's port runs code."
export RAY_AUTH_MODE=token CUDA_DEVICE_ORDER=PCI_BUS_ID PYTHONUNBUFFERED=1

# The first RANKS GPUs of a machine that trains are the ranks', the others Ray's.
if [ -n "${CUDA_VISIBLE_DEVICES:-}" ]; then IFS=, read -ra gpus <<< "$CUDA_VISIBLE_DEVICES"
else mapfile -t gpus < <(nvidia-smi --query-gpu=index --format=csv,noheader 2> /dev/null || true); fi
ranks=0
[ "$NODE" -ge "$TRAIN_NODES" ] || ranks=${RANKS:-$(( ${#gpus[@]} > 1 ? ${#gpus[@]} : 1 ))}
[ "$NODE" -ge "$TRAIN_NODES" ] || [[ $ranks =~ ^[1-9][0-9]*$ ]] ||
  fail "RANKS='$ranks' must be the ranks of each machine that trains, at least 1, the same on all."
[ ${#gpus[@]} -eq 0 ] || [ "$ranks" -le ${#gpus[@]} ] || fail "RANKS=$ranks, but this machine shows ${#gpus[@]} GPUs."
rest=("${gpus[@]:$ranks}")

children=() ray_pid="" asked=""
end_ray() { [ -z "$ray_pid" ] || { kill -TERM "$ray_pid" 2> /dev/null || true; wait "$ray_pid" 2> /dev/null || true; }; }
forward() { # Ranks finish their step; machines without ranks serve until the run has ended.
  asked=1
  [ ${#children[@]} -eq 0 ] || kill -TERM "${children[@]}" 2> /dev/null || true
}
stop_if_asked() { [ -z "$asked" ] || { say "asked to stop before the ranks started"; exit 143; }; }
trap end_ray EXIT
trap forward TERM INT

head_answers() { (exec 3<> "/dev/tcp/$HEAD/$RAY_PORT") 2> /dev/null; }
address_of() { getent ahostsv4 "$1" | awk '{print $1; exit}'; }

wait_for_address() { # The name of a pod, its own too, is known a while after it has started.
  until address=$(address_of "$HEAD") && [ -n "$address" ]; do
    stop_if_asked
    [ $SECONDS -lt "$1" ] || fail "HEAD='$HEAD' has no IPv4 address after $START_S s."
    sleep 2
  done
}

start_ray() {
  local place=() deadline=$(( SECONDS + START_S ))
  wait_for_address "$deadline"
  if [ "$NODE" -eq 0 ]; then
    head_answers && fail "port $RAY_PORT of $HEAD is taken, perhaps by another run's Ray; set RAY_PORT."
    place=(--head --node-ip-address="$address" --port="$RAY_PORT" --include-dashboard=false)
  else
    until head_answers; do
      stop_if_asked
      [ $SECONDS -lt $deadline ] || fail "nothing answered at $HEAD:$RAY_PORT within $START_S s; see the log of machine 0."
      sleep 2
    done
    place=(--address="$address:$RAY_PORT")
  fi
  keep_ray "$deadline" "${place[@]}" &
  ray_pid=$!
}

keep_ray() { # Ray gives a node half a minute to start, too little for a busy machine: tried again until the deadline.
  local deadline=$1 own="" ended=""
  shift
  trap 'ended=1; [ -z "$own" ] || kill -TERM "$own" 2> /dev/null || true' TERM
  trap - EXIT INT
  while :; do
    CUDA_VISIBLE_DEVICES=$(IFS=,; echo "${rest[*]}") "$PYTHON" -m ray.scripts.scripts start "$@" --block \
      --num-gpus=${#rest[@]} --disable-usage-stats ${RAY_OPTIONS:-} &
    own=$!
    while kill -0 "$own" 2> /dev/null; do wait "$own" || true; done
    [ -z "$ended" ] && [ $SECONDS -lt "$deadline" ] || exit 1
    say "Ray did not start; once more"
  done
}

wait_for_machines() { # Else a run waits for samplers that nobody can start. In the background, so that SIGTERM ends it.
  "$PYTHON" - "$1" "$NODES" "$START_S" "$ray_pid" << 'PY' &
import os
import sys
import time

import ray

address, wanted, seconds, own = sys.argv[1], int(sys.argv[2]), float(sys.argv[3]), int(sys.argv[4])
deadline, seen = time.monotonic() + seconds, "nothing answered"
while time.monotonic() < deadline:
    try:
        os.kill(own, 0)
    except ProcessLookupError:
        sys.exit("node.sh: Ray did not start on this machine; its messages are above.")
    try:
        if not ray.is_initialized():
            ray.init(address=address, log_to_driver=False, logging_level="ERROR")
        joined = sum(node["Alive"] for node in ray.nodes())
        if joined >= wanted:
            sys.exit(0)
        seen = f"{joined} of {wanted} machines have joined"
    except Exception as error:  # Of many kinds while Ray starts.
        seen = str(error)
    time.sleep(1)
sys.exit(f"node.sh: Ray at {address} is not complete after {seconds:.0f} s: {seen}")
PY
  local pid=$! code=0
  children=("$pid")
  [ -z "$asked" ] || forward
  wait "$pid" || code=$?
  while kill -0 "$pid" 2> /dev/null; do code=0; wait "$pid" || code=$?; done
  children=()
  return "$code"
}

start_ranks() {
  local place=$1 number
  shift
  for (( number = 0; number < ranks; number++ )); do
    RANK=$(( NODE * ranks + number )) LOCAL_RANK=$number WORLD_SIZE=$(( TRAIN_NODES * ranks )) \
      LOCAL_WORLD_SIZE=$ranks MASTER_ADDR=$HEAD MASTER_PORT=$MASTER_PORT \
      "$PYTHON" -m "${RANK_MODULE:-warpsmith.trainer}" grpo "$@" --set "run.ray_address=$place" &
    children+=($!)
  done
}

end_of_ranks() { # The first failure counts; the others of this machine have half a minute more.
  local code=0 one pid running deadline=0
  running=("${children[@]}")
  while [ ${#running[@]} -gt 0 ]; do
    children=()
    for pid in "${running[@]}"; do
      if kill -0 "$pid" 2> /dev/null; then children+=("$pid"); continue; fi
      one=0; wait "$pid" || one=$?
      [ "$one" -eq 0 ] || [ "$code" -ne 0 ] || { code=$one; deadline=$(( SECONDS + 30 )); }
    done
    running=("${children[@]}")
    [ "$deadline" -eq 0 ] || [ $SECONDS -lt "$deadline" ] || kill -KILL "${children[@]}" 2> /dev/null || true
    sleep 1
  done
  return "$code"
}

serve_until_the_end() { # Machine 0 ends its Ray when the run has ended.
  local missed=0
  while [ $missed -lt 3 ]; do
    kill -0 "$ray_pid" 2> /dev/null || { head_answers && fail "Ray has ended on this machine, but not on machine 0."; break; }
    if head_answers; then missed=0; else missed=$(( missed + 1 )); fi
    sleep 2
  done
}

say "$HOSTNAME, machine 0 is $HEAD, $ranks ranks, ${#rest[@]} GPUs for Ray"
start_ray
if [ "$ranks" -eq 0 ]; then serve_until_the_end; say "the run has ended"; exit 0; fi
place="$address:$RAY_PORT"
wait_for_machines "$place" || { stop_if_asked; exit 2; }
stop_if_asked
start_ranks "$place" "$@"
[ -z "$asked" ] || forward # What came while they started.
code=0; end_of_ranks || code=$?
say "the ranks ended with code $code"
exit "$code"
