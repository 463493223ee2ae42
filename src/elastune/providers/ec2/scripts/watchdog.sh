# ---- The watchdog: ends the machine when its lease has passed or the head is lost; passes on spot notices.
# It needs bash, curl and coreutils; Python and Ray only for some steps.

MARGIN=${ELASTUNE_MARGIN:-120} # seconds before its end at which a lease is read from EC2 itself
MOST_LEASE=${ELASTUNE_MOST_LEASE:-3600}
HYPERVISOR=${ELASTUNE_HYPERVISOR:-$(cat /sys/hypervisor/type 2>/dev/null)}

watch() {
  local lease until told heard='' answered='' notice='' reached now asked=0
  lease=$(seconds "$(cat "$STATE/lease" 2>/dev/null)" || echo "$EXPIRY") # of a watchdog before this one
  reached=$(uptime_s)
  say "watching: the lease ends at $(date -u -d "@$lease" +%FT%TZ)"
  while true; do
    if (($(date +%s) >= lease)); then
      say 'the lease has passed: this machine ends'
      end_now
    fi
    until=$lease
    # A driver may also shorten a lease; only a changed tag counts.
    if told=$(seconds "$(imds "tags/instance/$LEASE_TAG")") && [[ $told != "$heard" ]]; then
      # On Xen, a restarted watchdog may read the tag of the launch.
      [[ $HYPERVISOR == xen && -z $heard ]] && ((told < lease)) || until=$(bounded "$told")
      heard=$told
    fi
    # Xen instances only see the tags of their start.
    if ((until - $(date +%s) < MARGIN)) || [[ $HYPERVISOR == xen && $(($(uptime_s) - asked)) -ge 60 ]]; then
      asked=$(uptime_s)
      if told=$(seconds "$(ask_ec2 2>/dev/null)") && [[ $told != "$answered" ]]; then
        answered=$told until=$(bounded "$told")
      fi
    fi
    if ((until != lease)); then
      lease=$until
      echo "$lease" >"$STATE/lease"
      arm "$lease"
    fi
    now=$(uptime_s) # read once: the clock may jump while the head answers
    head_answers && reached=$now
    if ((now - reached >= LOST_HEAD_AFTER)); then
      say "the head $HEAD has not answered for $LOST_HEAD_AFTER s: this machine ends"
      end_now
    fi
    if [[ ! -e $STATE/drained ]] && notice=$(spot_notice); then
      drain "$notice" && touch "$STATE/drained"
    fi
    sleep "$TICK"
  done
}

# A time in seconds since 1970. Other text (milliseconds, say) is ignored.
seconds() { [[ $1 =~ ^([1-9][0-9]{8,9})(\.[0-9]*)?$ ]] && echo "${BASH_REMATCH[1]}"; }

# The clock of a driver may be wrong.
bounded() {
  local most=$(($(date +%s) + MOST_LEASE))
  echo $(($1 < most ? $1 : most))
}

# Not the time of day, which may jump while the machine boots.
uptime_s() { cut -d. -f1 /proc/uptime; }

ask_ec2() {
  local id
  id=$(imds instance-id) || id=$(cat "$STATE/instance") || return 1
  timeout 10 "$PYTHON" -c "$READ_LEASE" "$id" "$LEASE_TAG" "$REGION" ||
    timeout 10 aws ec2 describe-tags --region "$REGION" --output text --query 'Tags[0].Value' \
      --filters "Name=resource-id,Values=$id" "Name=key,Values=$LEASE_TAG"
}

head_answers() { timeout 5 bash -c ': <>"/dev/tcp/${0%:*}/${0##*:}"' "$HEAD" 2>/dev/null; }

# When the machine will be taken away, in seconds since 1970; failure where that was not said.
spot_notice() {
  local said
  said=$(imds spot/instance-action) || said=$(imds spot/termination-time) || return 1
  said=$(grep -oE -m1 '[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:.]+Z' <<<"$said") && date -d "$said" +%s
}

# Ray informs the driver. A node that has not joined yet cannot be drained.
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
