# A control plane of its own, which is restored from a backup: a server is ahead of it, and a revocation is lost.

control_plane() {
  garrisond --data "$W/site" --listen "127.0.0.1:$PORT" --beat-interval 1s <&- >>"$W/site.log" 2>&1 &
  site=$!
  pids+=("$site")
  do_ok until_ok command garrisond health --data "$W/site"
}
ahead() { garrison server list --columns state | grep -q ahead; }

control_plane
export GARRISON_CONTEXT=$W/site/operator.json
do_ok garrison env create prod
agent beacon 1.0.0 1.1.0
do_ok garrison user create ann
join web-1 --env prod
do_ok garrison install beacon@1.0.0 --on web-1
do_ok garrisond backup "$W/monday.backup" --data "$W/site"
do_ok garrison up beacon@1.1.0 --on web-1 --yes
do_ok garrison user revoke ann
kill "$site"
wait "$site"
mv "$W/site" "$W/site.lost"
do_ok garrisond restore "$W/monday.backup" --data "$W/site"
control_plane
do_ok until_ok ahead
examples 'restore' 'restore accept'
