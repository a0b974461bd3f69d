# The life of servers, from their invitation to their end.

do_ok garrison env create prod
do_ok garrison env create test
agent beacon 1.0.0
join test-1 --env test
join web-2 --label rack=a1

printf 'rack-1 rack=a\nrack-2 rack=a\n' >rack-a.txt
first again 'garrison server enroll --from rack-a.txt --pooled rack-a --token-file rack-a.token'
again() { garrison server forget --on rack=a --invited --yes; }
first forgotten 'garrison server enroll web-1 > web-1.token'
forgotten() { garrison server forget web-1 --yes; }
first joined "garrison server enroll web-1 --replace -m 'board broke' --token-file web-1.token"
joined() { executor join --root "$W/servers/broken" --token-file web-1.token && rm web-1.token; }
examples 'server enroll'
start_server web-1 "$W/servers/web-1" web-1.token
do_ok garrison server set web-1 rack=a1
examples 'server list' 'server show'
examples 'server reinstall' 'server quarantine' 'server release' 'server set'
do_ok garrison server set web-old --name web-1

# Machines that ask to be let in.
stranger() { # NAME
  executor run --root "$W/servers/$1" --beat-interval 1s --stop-agents --supervisor direct --lobby --bus "$BUS" \
    --bus-ca "$DATA/trust/tls/ca.pem" <&- >"$W/servers/$1.log" 2>&1 &
  pids+=($!)
  do_ok until_ok waits "$1"
  means K7QF-XMZA-3B2T-WE5J-HN4Y "$(garrison server list --lobby -o name)"
}
waits() { garrison server list --lobby -o name | grep -q .; }
stranger stranger-1
examples 'server accept'
stranger stranger-2
examples 'server reject'

# The end of servers. A test of e2e/servers cleans one over ssh.
examples 'server decommission'
do_ok until_ok garrison server forget web-1 --yes
join web-1 --label rack=a1
examples 'server revoke'
kill_last
do_ok garrison server decommission web-1 --lost --force --yes
for options in '--ssh root@web-1 --dry-run' "--ssh ann@10.0.0.7 --sudo --ssh-command 'ssh -p 2222 -i key'" \
  '--ssh root@web-1 --upload bin/executor   # the program is gone too'; do
  skips 'another host' "garrison server clean web-1 $options"
done
skips 'another host' \
  "garrison server clean --on rack=a1 --ssh 'root@{hostname}' --ssh-command 'ssh -o BatchMode=yes'"
means 'executor uninstall' "executor uninstall --root $LAST"
examples 'server clean'
do_ok garrison server enroll lab-1 --label site=lab --token-file lab-1.token
do_ok garrison server decommission web-2 --yes
examples 'server forget'
