#!/usr/bin/env bash
# release-test.sh BIN: makes three signed releases of this tree, installs and upgrades from one to the next under a real
# systemd (deb, and rpm where this machine has it), and makes the last one again elsewhere: its bytes must be the same.
# BIN holds the programs of this tree. QUICK=1 leaves the last part out.
set -euo pipefail
bin=$(cd "$1" && pwd)
cd "$(dirname "$0")/../.."
bench=$bin/release-test
rm -rf "$bench" && mkdir -p "$bench"
arch=$(go env GOARCH)
go build -o "$bench/release" ./deploy/release/cmd/release
go test -vet=off -c -o "$bench/release.test" ./deploy/release

key() { "$bin/garrison" image key "$bench/$1.key" 2>/dev/null >"$bench/$1.pub"; }
for k in a b c; do key $k; done
# The second release is signed by the other key, and the third brings another pair: the first key is lost.
cat "$bench"/{a,b}.pub >"$bench/keys-1"
cp "$bench/keys-1" "$bench/keys-2"
cat "$bench"/{b,c}.pub >"$bench/keys-3"
signer=(- a b b)
for n in 1 2 3; do
  "$bench/release" --local --version 0.$n.0 --arch "$arch" --keys "$bench/keys-$n" --key "$bench/${signer[n]}.key" \
    --out "$bench/made-$n"
  mv "$bench/made-$n"/* "$bench/$n"
done

(cd "$bench" && INSTALLS=1 "$OLDPWD/services/executor/systemd-test.sh" 900 \
  "TMPDIR=/tmp GARRISON_TEST_BENCH=/bench ./release.test -test.v -test.timeout 14m -test.run '${RUN:-^TestInstalled}'")
[ -z "${QUICK:-}" ] || exit 0

# What is committed, twice: in clones with another path, umask, zone and host name.
clones=$(mktemp -d) # outside of this tree, where they would count as a part of it
trap 'rm -rf "$clones"' EXIT
git clone -q . "$clones/here" && git clone -q . "$clones/else where"
make_one() { "$bench/release" --version 0.3.0 --keys "$bench/keys-3" --key "$bench/b.key" --out "$1"; }
(cd "$clones/here" && make_one "$bench/whole-1")
export -f make_one
export bench
(umask 077 && cd "$clones/else where" &&
  TZ=Asia/Tokyo unshare --uts bash -ec 'hostname elsewhere && make_one "$bench/whole-2"')
diff -r "$bench"/whole-1 "$bench"/whole-2
"$bench/release" verify --keys "$bench/keys-2" "$bench"/whole-2/*
echo "the same bytes in $(find "$bench/whole-2" -type f | wc -l) files"
