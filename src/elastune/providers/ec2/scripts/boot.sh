# ---- The boot: schedules the shutdown before anything can go wrong, then joins the cluster.

boot() {
  if ! on_ec2; then
    say 'refused: this is no EC2 instance, and a script that shuts machines down' >&2
    exit 3
  fi
  mkdir -p -m 700 "$STATE"
  step switch arm "$EXPIRY"
  step reboots end_after_reboot
  step watchdog start_watchdog "$0"
  cd / || exit
  export HOME=${HOME:-/root} # which cloud-init does not set
  step setup run_setup
  step packages install_packages
  step token read_token
  step join join_cluster
  say ready
}

# A failed step is reported and ends the machine, which would only cost money.
step() {
  local name=$1 log=$STATE/$1.log
  shift
  "$@" >"$log" 2>&1 </dev/null && return
  say "failed: $name: $(tail -n 5 "$log" | sed -E 's#://[^/@ ]+@#://#g' | tr '\n' ' ')"
  end_now
  exit 1
}

# By its firmware (Nitro, Xen), or because the metadata service answers.
on_ec2() {
  local firmware=${ELASTUNE_FIRMWARE:-/sys/class/dmi/id}
  [[ -n ${ELASTUNE_SHUTDOWN:-} ]] ||
    cat "$firmware"/{sys_vendor,bios_version} 2>/dev/null | grep -qi amazon || imds instance-id >/dev/null
}

# A reboot drops both shutdown and watchdog, and cloud-init runs this script only once.
end_after_reboot() {
  local scripts=${ELASTUNE_PER_BOOT:-/var/lib/cloud/scripts/per-boot}
  [[ -d $scripts ]] || return 0
  printf '#!/bin/bash\nexec %q -P now\n' "$SHUTDOWN" >"$scripts/elastune" && chmod 755 "$scripts/elastune"
}

start_watchdog() {
  cp "$1" "$STATE/script" || return 1
  "${ELASTUNE_SYSTEMD_RUN:-systemd-run}" --unit=elastune-watchdog --collect -p Restart=always -p RestartSec=5 \
    -p OOMScoreAdjust=-1000 -p StandardOutput=journal+console /bin/bash "$STATE/script" watch && return
  setsid nohup bash "$STATE/script" watch >>"$STATE/watch.log" 2>&1 &
}

run_setup() {
  local command
  for command in "${SETUP[@]}"; do
    bash -ec "$command" || { echo "exit code $? of: $command"; return 1; }
  done
}

install_packages() {
  [[ -z $PREINSTALLED && -z ${ELASTUNE_SKIP_PIP:-} ]] || return 0
  export PIP_BREAK_SYSTEM_PACKAGES=1 PIP_ROOT_USER_ACTION=ignore PIP_DISABLE_PIP_VERSION_CHECK=1
  local attempt
  for attempt in 1 2 3; do
    "$PYTHON" -m pip install --retries 5 "${PACKAGES[@]}" && return
    sleep "$TICK"
  done
  return 1
}

read_token() {
  [[ -n $TOKEN_SECRET ]] || return 0
  # The instance's role may be a few seconds late.
  export AWS_METADATA_SERVICE_NUM_ATTEMPTS=10 AWS_METADATA_SERVICE_TIMEOUT=5
  (umask 077 && "$PYTHON" -c "$READ_TOKEN" "$TOKEN_SECRET" "$REGION" >"$STATE/token")
}

join_cluster() {
  local id ip
  id=$(imds_patiently instance-id) && ip=$(imds_patiently local-ipv4) || return 1
  echo "$id" >"$STATE/instance"
  use_token
  ulimit -n 65536 # as Ray recommends
  "$PYTHON" -m elastune.providers.ray_start --address="$HEAD" --node-ip-address="$ip" --num-cpus="$CPUS" \
    --num-gpus="$GPUS" --labels="$LABEL=$id" --disable-usage-stats || return 1
  "$PYTHON" -c "$FIND_NODE" "$HEAD" "$LABEL" "$id" >"$STATE/ray-node"
}

imds_patiently() {
  local attempt
  for attempt in 1 2 3 4 5; do
    imds "$1" && return
    sleep "$TICK"
  done
  echo "the metadata service has no answer for $1" >&2
  return 1
}

# bash reads a script while it runs: nothing may follow, in case the file is changed.
case ${1:-boot} in
  watch) watch ;;
  *) boot ;;
esac
exit
