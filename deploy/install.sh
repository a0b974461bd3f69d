#!/bin/sh
# Verifies and installs packages of a release of Garrison, as deb, rpm or archive, whichever this machine takes.
# Enables, starts and restarts nothing.
set -eu
umask 022

usage() {
  echo "usage: install.sh [--keys FILE] [--unsigned] DIRECTORY|URL PACKAGE...

  PACKAGE      garrisond, garrison-executor or garrison
  --keys FILE  the public halves of the release keys; default: those that an installed package brought
  --unsigned   install a release without a signature, such as a local build" >&2
  exit 2
}
fail() {
  echo "install.sh: $*; nothing was installed" >&2
  exit 1
}

keys='' keyed='' unsigned=''
while :; do
  case ${1:-} in
  --keys) [ $# -ge 2 ] || usage; keys=$2 keyed=1; shift 2 ;;
  --unsigned) unsigned=1; shift ;;
  -*) usage ;;
  *) break ;;
  esac
done
[ $# -ge 2 ] || usage
source=${1%/} && shift
for package in "$@"; do
  case $package in
  garrisond | garrison-executor | garrison) ;;
  *) fail "there is no package $package (want garrisond, garrison-executor or garrison)" ;;
  esac
done
[ "$(id -u)" = 0 ] || fail "this needs root; run it with sudo"
case $(uname -m) in
x86_64) deb=amd64 rpm=x86_64 ;;
aarch64 | arm64) deb=arm64 rpm=aarch64 ;;
*) fail "there are no packages for $(uname -m), only for x86_64 and aarch64" ;;
esac
work=$(mktemp -d)
clean() { # leaves nothing that was fetched, or copied beside its place
  if [ -s "$work/files" ]; then
    while read -r file; do rm -f "$file.garrison-new"; done <"$work/files"
  fi
  rm -rf "$work"
}
trap clean EXIT
trap 'exit 1' HUP INT TERM

get() { # fetches a file of the release
  case $source in
  http://* | https://*)
    if command -v curl >/dev/null; then # from https to nothing else
      case $source in https://*) protocols='=https' ;; *) protocols='=http,https' ;; esac
      curl -fsSL --proto-redir "$protocols" --retry 3 --connect-timeout 30 --speed-limit 1000 --speed-time 60 \
        -o "$work/$1" "$source/$1"
    else
      wget -q -T 60 -t 3 -O "$work/$1" "$source/$1"
    fi ;;
  *) cp "$source/$1" "$work/$1" 2>/dev/null ;;
  esac
}
signed() { # reports whether a key of $work/keys signed the checksums
  { echo "garrison release v1" && cat "$work/SHA256SUMS"; } >"$work/text"
  for key in $(cat "$work/keys"); do
    # A public key is a byte for its kind, the key, and two bytes of checksum. openssl wants a header before the key.
    { printf '\060\052\060\005\006\003\053\145\160\003\041\000' &&
      printf %s "$key" | base32 -d 2>/dev/null | tail -c +2 | head -c 32; } >"$work/key"
    openssl pkeyutl -verify -pubin -keyform DER -inkey "$work/key" -rawin -in "$work/text" \
      -sigfile "$work/SHA256SUMS.sig" >/dev/null 2>&1 && return
  done
  return 1
}
check() {
  if [ -n "$keyed" ]; then
    cp "$keys" "$work/keys" 2>/dev/null && [ -s "$work/keys" ] || fail "${keys:-the file of --keys} holds no key"
  else
    cat /usr/share/garrison/release-keys/* >"$work/keys" 2>/dev/null || true
  fi
  if [ -n "$unsigned" ]; then
    echo "the signature is not checked: --unsigned"
  elif [ ! -s "$work/keys" ]; then
    fail "no release keys are known here: pass --keys FILE, or --unsigned to install without a check"
  else
    command -v openssl >/dev/null && command -v base32 >/dev/null || fail "the signature needs openssl 3 and base32"
    get SHA256SUMS.sig || fail "$source is not signed; to install it all the same, pass --unsigned"
    signed || fail "no key in ${keys:-/usr/share/garrison/release-keys} signed $source (openssl 3 or newer checks that)"
  fi
}

get SHA256SUMS || fail "$source is not a release of Garrison: it has no SHA256SUMS"
check
if dpkg-query -W dpkg >/dev/null 2>&1; then
  kind=deb
elif rpm -q rpm >/dev/null 2>&1; then
  kind=rpm
else
  kind=archive
fi
older() { # reports whether a version precedes another one; what follows a hyphen is before the release
  first=$(printf '%s\n%s\n' "$1" "$2" | sed 's/-/~/' | sort -V | head -n 1)
  [ "$1" != "$2" ] && [ "$first" = "$(echo "$1" | sed 's/-/~/')" ]
}
word='[0-9][0-9A-Za-z.~+-]*'
for package in "$@"; do
  case $kind in
  deb) pattern="${package}_${word}_$deb\\.deb" ;;
  rpm) pattern="$package-${word}-1\\.$rpm\\.rpm" ;;
  archive) pattern="$package-${word}-linux-$deb\\.tar\\.gz" ;;
  esac
  file=$(sed -n "s/^[0-9a-f]\\{64\\}  \\($pattern\\)\$/\\1/p" "$work/SHA256SUMS")
  [ "$(echo "$file" | wc -w)" = 1 ] || fail "$source has no $kind of $package for $(uname -m)"
  get "$file" || fail "cannot fetch $file from $source"
  (cd "$work" && grep -F "  $file" SHA256SUMS | sha256sum -c --status) || fail "$file is damaged: SHA256SUMS differs"
  if [ $kind = deb ]; then
    new=${file#*_} && new=${new%_*}
    have=$(dpkg-query -W -f '${db:Status-Status} ${Version}' "$package" 2>/dev/null) || have=''
    case $have in "config-files "* | "not-installed "*) ;; *" "?*)
      ! dpkg --compare-versions "${have#* }" gt "$new" ||
        fail "$package ${have#* } is newer than $new; to go back all the same, give the file to dpkg -i" ;;
    esac
  fi
  if [ $kind = archive ]; then
    new=${file#"$package"-} && new=${new%-linux-*} && program=${package#garrison-}
    have=$("$program" --version 2>/dev/null |
      sed -n 's/^[a-z]* \(version \)\{0,1\}v\{0,1\}\([0-9][^ ]*\).*/\2/p') || have=''
    [ -z "$have" ] || ! older "$new" "$have" ||
      fail "$package $have is newer than $new; to go back all the same, unpack the archive"
  fi
  mkdir -p "$work/$kind" && mv "$work/$file" "$work/$kind/"
done

case $kind in
deb) dpkg --force-confold -i "$work"/deb/* </dev/null ;;
rpm) rpm -U --replacepkgs "$work"/rpm/* </dev/null ;;
archive)
  mkdir "$work/tree"
  for file in "$work"/archive/*; do tar -C "$work/tree" -xzf "$file"; done
  # Each file is written beside its place first, so that a full disk changes nothing, and programs that run keep theirs.
  (cd "$work/tree" && find . -type f) | cut -c2- | while read -r file; do
    case $file in /etc/*) [ ! -e "$file" ] || continue ;; esac # settings that are there stay
    echo "$file"
  done >"$work/files"
  while read -r file; do
    mkdir -p "${file%/*}" && cp "$work/tree$file" "$file.garrison-new"
  done <"$work/files"
  while read -r file; do mv -f "$file.garrison-new" "$file"; done <"$work/files"
  if [ -f /usr/lib/sysusers.d/garrisond.conf ] && command -v systemd-sysusers >/dev/null; then
    systemd-sysusers garrisond.conf
  fi
  if [ -d /run/systemd/system ]; then systemctl daemon-reload; fi
  echo "installed $(wc -l <"$work/files") files: $*" ;;
esac
