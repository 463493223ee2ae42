# ---- The watchdog: ends the machine when its lease has passed or the head is lost; hands on spot notices.
# It needs bash, curl and coreutils; Python and Ray only where they can help.

MARGIN=${ELASTUNE_MARGIN:-120} # seconds before its end at which a lease is looked up in EC2 itself

watch() {
  local lease until notice='' reached
  lease=$(latest "$EXPIRY" "$(cat "$STATE/lease" 2>/dev/null)") # of a watchdog before this one
  reached=$(uptime_s)
  say "watching: the lease ends at $(date -u -d "@$lease" +%FT%TZ)"
  while true; do
    until=$(latest "$lease" "$(imds "tags/instance/$LEASE_TAG")")
    # Xen instances see the tags of their start for ever.
    ((until - $(date +%s) < MARGIN)) && until=$(latest "$until" "$(ask_ec2 2>/dev/null)")
    if ((until > lease)); then
      lease=$until
      echo "$lease" >"$STATE/lease"
      arm "$lease"
    fi
    if (($(date +%s) >= lease)); then
      say 'the lease has passed: this machine ends'
      end_now
    fi
    head_answers && reached=$(uptime_s)
    if (($(uptime_s) - reached >= LOST_HEAD_AFTER)); then
      say "the head $HEAD has not answered for $LOST_HEAD_AFTER s: this machine ends"
      end_now
    fi
    if [[ ! -e $STATE/drained ]] && notice=$(spot_notice); then
      drain "$notice" && touch "$STATE/drained"
    fi
    sleep "$TICK"
  done
}

# The later of a time and a text that may be one. What is no count of seconds (milliseconds, say) is not heard.
latest() {
  if [[ $2 =~ ^([1-9][0-9]{0,9})(\.[0-9]*)?$ ]] && ((BASH_REMATCH[1] > $1)); then
    echo "${BASH_REMATCH[1]}"
  else
    echo "$1"
  fi
}

# Not the time of day, which may jump while the machine boots.
uptime_s() { cut -d. -f1 /proc/uptime; }

ask_ec2() {
  local id
  id=$(imds instance-id) || id=$(cat "$STATE/instance") || return 1
  timeout 20 "$PYTHON" -c "$READ_LEASE" "$id" "$LEASE_TAG" "$REGION" ||
    timeout 20 aws ec2 describe-tags --region "$REGION" --output text --query 'Tags[0].Value' \
      --filters "Name=resource-id,Values=$id" "Name=key,Values=$LEASE_TAG"
}

head_answers() { timeout 5 bash -c ': <>"/dev/tcp/${0%:*}/${0##*:}"' "$HEAD" 2>/dev/null; }

# When the machine will be taken away, in seconds since 1970; failure where that was not said.
spot_notice() {
  local said
  said=$(imds spot/instance-action) || said=$(imds spot/termination-time) || return 1
  said=$(grep -oE -m1 '[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:.]+Z' <<<"$said") && date -d "$said" +%s
}

# Ray tells its driver. A node that has not joined yet has nobody to tell.
drain() {
  local node left=$(($1 - $(date +%s)))
  node=$(cat "$STATE/ray-node" 2>/dev/null) && [[ -n $node ]] || return 1
  use_token
  timeout 30 "$PYTHON" -m ray.scripts.scripts drain-node --address="$HEAD" --node-id="$node" \
    --reason=DRAIN_NODE_REASON_PREEMPTION --reason-message='spot instance interruption' \
    --deadline-remaining-seconds=$((left > 0 ? left : 0)) >>"$STATE/drain.log" 2>&1 || return 1
  say "noticed: taken away at $(date -u -d "@$1" +%FT%TZ)"
}

use_token() {
  [[ -z $TOKEN_SECRET ]] || export RAY_AUTH_MODE=token RAY_AUTH_TOKEN_PATH=$STATE/token
}
