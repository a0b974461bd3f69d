# Sourced by what runs tests: their temporary files are in memory where there is room for them, since most of their
# waiting is for syncs. Names are short, because a path of a socket has 108 bytes at most. forget_memory deletes them.
memory=
forget_memory() { [ -z "$memory" ] || rm -rf "$memory"; }
trap forget_memory EXIT
if [ -z "${TMPDIR:-}" ] && ! grep -q '^[^ ]* /dev/shm .*noexec' /proc/mounts &&
  [ "$(df --output=avail -BM /dev/shm 2>/dev/null | tail -1 | tr -dc 0-9)" -ge 4096 ] 2>/dev/null; then
  memory=$(mktemp -d /dev/shm/gXXXX) && export TMPDIR=$memory
fi
