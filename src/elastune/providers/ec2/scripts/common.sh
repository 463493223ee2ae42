# ---- Both roles: messages, the metadata service, the shutdown.

STATE=${ELASTUNE_STATE:-/run/elastune}
IMDS=${ELASTUNE_IMDS:-http://169.254.169.254}
SHUTDOWN=${ELASTUNE_SHUTDOWN:-shutdown}
TICK=${ELASTUNE_TICK:-5} # seconds; AWS recommends this interval for spot notices

say() { echo "elastune: $*"; }

# The text at a path of the metadata service, or failure.
imds() {
  local token
  token=$(curl -sf -m 2 --noproxy '*' -X PUT -H 'X-aws-ec2-metadata-token-ttl-seconds: 60' \
    "$IMDS/latest/api/token") || return 1
  curl -sf -m 2 --noproxy '*' -H "X-aws-ec2-metadata-token: $token" "$IMDS/latest/meta-data/$1"
}

# systemd ends the machine at this time, whatever happens to our processes.
arm() {
  local minutes=$((($1 - $(date +%s)) / 60))
  "$SHUTDOWN" --no-wall -P "+$((minutes > 0 ? minutes : 1))"
}

# Do not wait for what hangs in the shutdown: every second costs money.
end_now() {
  "$SHUTDOWN" --no-wall -P now
  [[ -n ${ELASTUNE_SHUTDOWN:-} ]] || (sleep 20 && systemctl poweroff --force --force) &
}
