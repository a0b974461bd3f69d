# A day of the fleet: agents are installed, configured, upgraded, held, looked at and removed.

for env in prod staging test; do do_ok garrison env create $env; done
agent beacon 1.0.0
agent node-exporter 1.9.1 1.10.2
agent fluent 1.0.0
do_ok garrison app create net
do_ok garrison agent update beacon --app net
join web-1 --env prod --label rack=a1
join web-2 --env prod --label rack=a1
join db-1 --env prod --label rack=b1
join test-1 --env test --label rack=b1
do_ok garrison user create ann --role operator

do_ok garrison install beacon --on web-2,db-1,test-1
images beacon 1.1.0
examples 'install' 'up'
echo secret >password.txt
examples 'configure'
last() { garrison "$1" list -o name | head -1; }
do_ok garrison up beacon@1.0.0 --on web-1 --yes
configured() {
  garrison configure beacon --set "number=$RANDOM" --on web-1 --yes
  means 0f0e5a38-5d6c-4b7e-9f6b-3d0f6f2f5a11 "$(last intent)"
  means 1a2b3c4d "$(last intent)"
}
first configured 'garrison undo 0f0e5a38-5d6c-4b7e-9f6b-3d0f6f2f5a11'
first configured 'garrison undo 1a2b3c4d --waves 10%'
examples 'undo' 'restart'

means 2026-12-20 "$(date -d '+20 days' +%F)" # an example's day is not always ahead
means 2026-12-27 "$(date -d '+27 days' +%F)"
means 2027-01-04 "$(date -d '+28 days' +%F)"
examples 'hold' 'hold list'
do_ok garrison unhold beacon --on env=prod # it covers db-1
do_ok garrison hold beacon --on web-2 -m again
means 1a2b3c4d "$(garrison hold list --on web-2 -o json --jq '.holds[] | select(.agent == "beacon") | .id')"
do_ok garrison hold beacon --on db-1 -m again
examples 'unhold'

means 1a2b3c4d "$(garrison image list beacon -o name | head -1)"
examples 'block' 'block list'
means 1a2b3c4d "$(garrison block list -o name | head -1)"
examples 'unblock'

# What Garrison does not run.
echo 'echo "{\"name\": \"a1\", \"server\": \"web-1\", \"version\": \"7\"}"' >"$W/bin/list-vms"
chmod 755 "$W/bin/list-vms"
list-vms >appliances.json
for agent in vm appliance; do do_ok garrison agent create $agent --kind external --reporter lister; done
do_ok garrison user create lister --role reporter
means 'garrison instance report' 'garrison --context lister.json instance report'
examples 'instance report'

# A process that becomes an instance.
mkdir -p nginx "$W/found"
cp "$BIN/beacon" nginx/nginx && cp nginx/nginx "$W/found/"
printf 'agent: nginx\nversion: 1.27.0\nkind: daemon\nrun: {command: nginx, ready: {soak: 100ms}}\n' >nginx/garrison.yaml
do_ok garrison agent create nginx
images nginx 1.27.0
"$W/found/nginx" -listen 127.0.0.1:0 <&- >"$W/nginx.log" 2>&1 &
pids+=($!)
examples 'server refresh'
skips 'systemd' 'garrison instance adopt web-1 unit/nginx.service --as nginx@1.27.0'
candidate() { # another process of this name may run on the machine
  garrison instance adopt web-1 --list --name nginx -o json |
    tr -d ' \n' | grep -o '"id":"process/[^}]*found/nginx' | head -1 | cut -d'"' -f4
}
means 'adopt web-1 nginx' "adopt web-1 $(candidate)"
examples 'instance adopt' 'instance release'

# The examples of every command that no script names.
means /run/garrisond.debug "$W/debug"
means /etc/ "$W/etc/"
mkdir -p "$W/etc/bash_completion.d"
means 0f0e5a38-5d6c-4b7e-9f6b-3d0f6f2f5a11 "$(last intent)"
skips 'a browser' 'garrison console'
skips 'a gateway of that name' 'garrison console --http https://garrison.example.com:8443 --no-browser'
exits 3 'garrison check' # something differs
exits 3 'garrison check --count'
exits 3 'garrison env diff staging prod' # they differ
shows '^SERVERS|^servers' 'garrison status -w'
shows '"sequence"' 'garrison events -f -o jsonl'
shows restart "garrison events -f --jq 'select(.noun == \"task\") | .detail'"
shows started 'garrison logs web-1 beacon -f --times'
poke() { grep -q . "$W/said" || garrison restart beacon --on web-1 --yes --detach >>"$W/poked" 2>&1; }
mapfile -t others <"$HELP/.rest"
examples "${others[@]}"
poke() { :; }

examples 'remove'
