# Rollouts, and changes that have not ended.

do_ok garrison env create prod
agent beacon 1.0.0
agent node-exporter 1.9.1
for server in 1 2 3 4; do join web-$server --env prod --label rack=a$server; done
do_ok garrison install beacon node-exporter --on all --at-once --yes
images beacon 1.1.0
images node-exporter 1.10.2

drifted() { # an agent that something else than a task changed
  garrison env update prod --drift report
  local file
  for file in "$W"/servers/web-*/images/*/beacon; do echo "# changed" >>"$file"; done
  until_ok drifts
}
drifts() { [ "$(garrison check instances | grep -c '^web-.*beacon')" = "${1:-4}" ]; }
first drifted 'garrison rollout plan --repair --all --on env=prod --canaries 3 --waves 10%,50%'
examples 'rollout plan'
shows 'wave 1' 'garrison rollout start beacon@1.1.0 --on env=prod --canaries 3 --waves 10%,50% --soak 5m'
healed() { garrison env update prod --drift heal --drift-brake 100 && until_ok drifts 0; }
first healed 'garrison rollout start beacon@1.1.0 --on env=prod --canaries 3 --waves 10%,50% --soak 5m'
first ended 'garrison rollout start --all --on all --waves 5%,25% --approve --yes --detach'
first planned 'garrison rollout start --plan plan.json --at "22:00 Europe/Berlin"'
ended() { # aborts what has not ended
  local id
  for id in $(garrison rollout list --state planned,running,paused,halted -o name); do
    garrison rollout abort "$id" --yes
  done
}
planned() { ended && garrison rollout plan --configure beacon --set level=info --on all --waves 10% --out plan.json; }
examples 'rollout start'

begun() { # a rollout that waits for the approval of its second wave
  ended
  garrison rollout start --configure beacon --set "number=$RANDOM" --on all --waves 1,1 --approve --yes --detach
  means 1a2b3c4d "$(garrison rollout list -o name | head -1)"
}
for command in 'abort 1a2b3c4d -m "the wrong build"' 'abort 1a2b3c4d --undo' 'approve 1a2b3c4d --wave 2' \
  'pause 1a2b3c4d -m lunch' 'reject 1a2b3c4d -m "the smoke test fails"' 'resume 1a2b3c4d --until-wave 2' \
  'resume 1a2b3c4d --until-wave next' 'show 1a2b3c4d'; do
  first begun "garrison rollout $command"
done
examples 'rollout list' 'rollout show' 'rollout approve' 'rollout reject' 'rollout pause'
examples 'rollout resume' 'rollout abort'
do_ok ended

# Two servers restart an agent that stops once a file exists: both places for tasks are taken, and others queue.
# Executors that stand still would free the places, because their servers are called offline.
directory patient
cat >patient/patient <<END
#!/bin/sh
trap 'until [ -e "$W/stop" ]; do sleep 0.1; done; exit 0' TERM
sleep 100000 &
wait
END
sed -i 's/ready: /stop_timeout: 5m, ready: /' patient/garrison.yaml
do_ok garrison agent create patient --kind daemon
images patient 1.0.0
do_ok garrison install patient --on web-3,web-4 --at-once --yes
do_ok garrison restart patient --on web-3,web-4 --at-once --yes --detach
tasks() { [ "$(garrison task list --state "$1" -o name | wc -l)" -ge "$2" ]; }
do_ok until_ok tasks assigned,running 2
queued() {
  garrison restart beacon --on web-1 --yes --detach
  until_ok tasks queued 1
  means 0f0e5a38-5d6c-4b7e-9f6b-3d0f6f2f5a11 "$(garrison intent list -o name | head -1)"
  means 65d947de "$(garrison task list --state queued -o name | head -1)"
}
first queued 'garrison cancel 0f0e5a38-5d6c-4b7e-9f6b-3d0f6f2f5a11 -m "wrong version"'
first queued 'garrison cancel 65d947de --dry-run'
examples 'cancel'
touch "$W/stop"
examples 'watch' 'task show' 'task list'
