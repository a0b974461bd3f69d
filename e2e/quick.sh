#!/usr/bin/env bash
# quick.sh BASE: vets, checks the source rules and runs the short tests of the packages that
# differ from BASE, uncommitted changes included. `make quick` calls it.
set -euo pipefail
cd "$(dirname "$0")/.."
base=${1:-HEAD}

dirs=$( { git diff --name-only "$base"; git ls-files --others --exclude-standard; } |
  { grep '\.go$' || true; } | { grep -v '^proto/gen/' || true; } | xargs -r -n1 dirname | sort -u)
packages=()
for dir in $dirs; do
  case $dir in */testdata/* | */testdata) continue ;; esac
  [ -d "$dir" ] && packages+=("./$dir")
done

go test -count=1 ./e2e/arch
if [ ${#packages[@]} -eq 0 ]; then
  echo "no Go package differs from $base"
  exit 0
fi
go vet "${packages[@]}"
go test -short -count=1 -timeout 60s "${packages[@]}"
