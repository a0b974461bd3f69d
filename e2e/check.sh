#!/usr/bin/env bash
# check.sh: runs the static checks and the tests under systemd beside the other tests, with what those leave of the
# processors. Each part runs whatever failed before it, and what failed is printed last. `make check` calls it.
set -uo pipefail
cd "$(dirname "$0")/.."
mkdir -p bin
failed=
began=$SECONDS
(
  failed=
  nice -n 10 make --no-print-directory --jobs=1 static >bin/static.log 2>&1 || failed=" static"
  nice -n 5 make --no-print-directory systemd-check >bin/systemd.log 2>&1 || failed="$failed systemd"
  echo "$failed" >bin/beside
) &
beside=$!
make --no-print-directory test || failed="$failed test"
wait "$beside"
failed="$failed$(cat bin/beside)"
tail -n 3 bin/systemd.log
if [ -z "$failed" ]; then
  echo "everything passed in $((SECONDS - began)) s"
  exit 0
fi
echo "failed:$failed"
case $failed in *static*) tail -n 20 bin/static.log ;; esac
case $failed in *systemd*)
  grep -aE -A6 '^ *--- FAIL|^panic:' bin/systemd.log | head -n 30
  tail -n 5 bin/systemd.log ;;
esac
case $failed in *test*) tail -n 40 bin/test-logs/failures ;; esac
exit 1
