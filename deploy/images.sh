#!/usr/bin/env bash
# images.sh BIN [RELEASE]: builds a container image for each program, from scratch, with the static binaries in BIN, or
# in the archives of the directory RELEASE and nats-server of BIN.
set -euo pipefail
bin=$1
if [ -n "${2:-}" ]; then
  bin=$(mktemp -d)
  trap 'rm -rf "$bin"' EXIT
  cp "$1/nats-server" "$bin/"
  for a in "$2"/*-linux-"$(go env GOARCH)".tar.gz; do
    tar -xzf "$a" -C "$bin" --exclude usr/share --transform 's:.*/::'
  done
fi
here=$(cd "$(dirname "$0")" && pwd)

# image NAME PROGRAM [OTHER …]: PROGRAM is the entry point; the others are beside it.
image() {
  local name=$1 program=$2 context
  shift 2
  context=$(mktemp -d)
  cp "$bin/$program" "$context/program"
  for other in "$@"; do cp "$bin/$other" "$context/$other"; done
  DOCKER_BUILDKIT=0 docker build -q -t "garrison/$name" -f "$here/Dockerfile" "$context" >/dev/null 2>&1
  rm -rf "$context"
  echo "garrison/$name"
}

image bus nats-server garrisond # garrisond is the health check of the bus
image garrisond garrisond
image garrison garrison
for service in registry image-catalog task-dispatcher access gateway executor; do image "$service" "$service"; done
