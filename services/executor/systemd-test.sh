#!/usr/bin/env bash
# Runs test binaries under a real systemd: this machine's own program, started as process 1 in namespaces of its own.
# Its file system is in memory; only /usr is this machine's, read-only. The script leaves nothing behind.
#
#   systemd-test.sh WITHIN_SECONDS COMMAND...     WITHIN bounds the whole run
#
# A shell runs COMMAND there, with the working directory of this script's caller as /bench. With INSTALLS=1 packages can
# be installed there: /usr takes writes, in memory, and dpkg knows the packages of this machine.
set -euo pipefail

boot() { # in the new namespaces
  local root=$1 bench=$2 d l c
  mount --make-rprivate /
  mount -t tmpfs -o mode=755 tmpfs "$root"
  cd "$root"
  mkdir -p usr etc/systemd/system var/log var/lib run proc sys dev tmp root home bench old
  if [ -n "${INSTALLS:-}" ]; then
    mkdir -p upper work etc/apt/apt.conf.d etc/dpkg var/lib/apt/lists/partial var/cache/apt/archives/partial var/log/apt
    mount -t overlay overlay -o "lowerdir=/usr,upperdir=$root/upper,workdir=$root/work" usr
    cp -a /var/lib/dpkg var/lib/ && : >var/lib/dpkg/statoverride # it names groups that are not here
  else
    mount --bind /usr usr && mount -o remount,bind,ro usr
  fi
  for l in bin sbin lib lib64 lib32 libx32; do [ -e "/usr/$l" ] && ln -s "usr/$l" "$l"; done
  mount --bind "$bench" bench
  mount -t proc proc proc
  mount -t sysfs -o ro sysfs sys
  mount -t tmpfs -o mode=755 tmpfs run
  mount -t tmpfs -o mode=755 tmpfs dev
  for d in null zero full random urandom tty; do
    touch "dev/$d" && mount --bind "/dev/$d" "dev/$d"
  done
  mkdir dev/pts dev/shm && ln -s /proc/self/fd dev/fd
  if [ -n "${INSTALLS:-}" ]; then
    mount -t devpts -o newinstance,ptmxmode=0666 devpts dev/pts && ln -s pts/ptmx dev/ptmx
  fi
  printf '%s\n' >etc/passwd root:x:0:0::/root:/bin/sh messagebus:x:100:100::/:/bin/false \
    agent:x:4242:4242::/:/bin/false nobody:x:65534:65534::/:/bin/false
  printf '%s\n' >etc/group root:x:0: messagebus:x:100: agent:x:4242: more:x:4243:agent nogroup:x:65534:
  : >etc/machine-id
  ln -s /usr/lib/systemd/system/multi-user.target etc/systemd/system/default.target
  if [ -f /sys/fs/cgroup/cgroup.controllers ]; then # one hierarchy
    mount -t cgroup2 cgroup2 sys/fs/cgroup
  else
    mount -t tmpfs -o mode=755 tmpfs sys/fs/cgroup
    for c in cpu cpuacct memory pids; do
      mkdir "sys/fs/cgroup/$c" && mount -t cgroup -o "$c" cgroup "sys/fs/cgroup/$c"
    done
    mkdir sys/fs/cgroup/systemd sys/fs/cgroup/unified
    mount -t cgroup -o none,name=systemd cgroup sys/fs/cgroup/systemd
    mount -t cgroup2 cgroup2 sys/fs/cgroup/unified
  fi
  pivot_root . old
  umount -l /old
  export container=garrison
  exec /usr/lib/systemd/systemd --system --log-target=console --show-status=no
}

if [ "${1:-}" = --boot ]; then
  boot "$2" "$3"
fi

within=$1 && shift
scratch=$(mktemp -d)
group=garrison-test-$$
groups() { # the control groups that the run is put into, one in each hierarchy
  local g
  for g in /sys/fs/cgroup /sys/fs/cgroup/{cpu,cpuacct,memory,pids,systemd,unified}; do
    if [ -f "$g/cgroup.procs" ] && [ ! -L "$g" ]; then echo "$g/$group"; fi
  done
}
finish() {
  if [ -n "${space:-}" ]; then kill -KILL "$space" 2>/dev/null || true; wait "$space" 2>/dev/null || true; fi
  local g i
  for g in $(groups); do # its processes take a moment to end
    for i in $(seq 50); do
      find "$g" -depth -type d -exec rmdir {} + 2>/dev/null || true
      [ -d "$g" ] || break
      sleep 0.1
    done
  done
  rm -rf "$scratch"
}
trap finish EXIT

mkdir "$scratch/root"
(
  for g in $(groups); do mkdir -p "$g" && echo "$BASHPID" >"$g/cgroup.procs"; done
  exec unshare --mount --pid --fork --kill-child --cgroup --ipc --uts bash "$0" --boot "$scratch/root" "$PWD"
) >"$scratch/log" 2>&1 </dev/null &
space=$!
for _ in $(seq 300); do
  first=$(pgrep -P "$space" || true)
  [ -n "$first" ] && nsenter -t "$first" -a /usr/bin/systemctl is-system-running 2>/dev/null |
    grep -Eqx 'running|degraded' && break
  kill -0 "$space" 2>/dev/null || { echo "systemd did not start:"; cat "$scratch/log"; exit 1; }
  sleep 0.1
done
nsenter -t "$first" -a /usr/bin/systemctl is-system-running --wait >/dev/null ||
  nsenter -t "$first" -a /usr/bin/systemctl --failed --no-pager
timeout -k 10 "$within" nsenter -t "$first" -a /bin/sh -c "cd /bench && $*" </dev/null
