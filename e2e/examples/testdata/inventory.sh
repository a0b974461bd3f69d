# What is known before any server is: agents, images, channels, users, tokens, sources, and files of them.

examples 'agent create' 'agent list' 'agent show' 'agent update' 'agent delete'
examples 'app create' 'app list' 'app show' 'app update' 'app delete'
examples 'env create' 'env list' 'env show' 'env update' 'env delete'
do_ok garrison agent create beacon
do_ok garrison env create prod
do_ok garrison env create staging

# Images, from directories, packages and archives.
released=node_exporter-1.9.1.linux-amd64
mkdir $released && printf '#!/bin/sh\nexec sleep 100000\n' >$released/node_exporter && chmod 755 $released/node_exporter
tar -czf $released.tar.gz $released
mkdir -p root/usr/bin && cp $released/node_exporter root/usr/bin/prometheus-node-exporter
package() { # NAME VERSION: a package of Debian
  local member size
  printf '2.0\n' >debian-binary
  printf 'Package: %s\nVersion: %s\nArchitecture: amd64\n' "$1" "$2" >control
  tar -czf control.tar.gz ./control && tar -czf data.tar.gz -C root .
  printf '!<arch>\n'
  for member in debian-binary control.tar.gz data.tar.gz; do
    size=$(stat -c %s $member)
    printf '%-16s%-12s%-6s%-6s%-8s%-10s`\n' $member 0 0 0 100644 "$size"
    cat $member
    [ $((size % 2)) = 0 ] || echo
  done
}
package prometheus-node-exporter 1.5.0-1 >prometheus-node-exporter_1.5.0-1_amd64.deb
mkdir -p apm/agent/bin apm/agent/etc && cp $released/node_exporter apm/agent/bin/agent
echo '{}' >apm/agent/etc/agent.json
echo c0000000-0000-4000-8000-000000000002 >apm/agent/image_uuid
echo '{"name": "agent", "version": "1.0.0"}' >apm/agent/package.json
tar -czf agent.tgz -C apm agent
echo '{"v": 2, "uuid": "c0000000-0000-4000-8000-000000000002", "name": "agent", "type": "other", "os": "other",
  "version": "1.0.0"}' >agent.imgmanifest
directory beacon
examples 'image build'
means 'garrisond --data DIR' "env GARRISON_LISTEN=127.0.0.1:0 garrisond --data $W/other"
first public_half 'garrisond --data DIR --image-key PUBLIC-HALF'
public_half() { means PUBLIC-HALF "$(garrison image key other.key)"; }
shows . 'garrisond --data DIR --image-key PUBLIC-HALF'
poke() { command garrisond health --data "$W/other" >>"$W/said" 2>&1; }
examples 'image key'
poke() { :; }
examples 'image sign' 'image verify'

# The catalog.
examples 'image import'
echo '{"id": "GO-2024-2687", "aliases": ["CVE-2023-45288"], "affected": [{"package": {"ecosystem": "Go",
  "name": "golang.org/x/net"},
  "ranges": [{"type": "SEMVER", "events": [{"introduced": "0"}, {"fixed": "0.23.0"}]}]}]}' \
  >osv.json
examples 'advisory import' 'advisory list' 'exposed'
images beacon 1.0.0 1.1.0
agent node-exporter
images node-exporter 1.9.1 1.10.2
examples 'channel create' 'channel list' 'image activate' 'channel remove'
do_ok garrison channel create staging
do_ok garrison channel create prod
do_ok garrison image promote beacon@1.1.0 --channel staging
exits 3 'garrison channel diff staging prod' # they differ
examples 'channel diff'
examples 'image promote' 'image list' 'image show' 'image export' 'channel delete' 'image disable' 'image prune'
do_ok garrison image import "$W/beacon-1.0.0.gimg"
examples 'image delete'

# Sources.
means /srv/images "$W/images"
do_ok garrison image key source.key
source_key=$(tail -1 "$W/said")
examples 'source publish'
means /srv/site "$W/images"
means ACFM6KUI2ZNWG6CVXKXZWR2ONAFQIEQ6F4VZR7IHUQXAPX2ZTDU4MA7T "$source_key"
examples 'source add' 'source list' 'source sync' 'source remove'

# People, programs and tokens.
examples 'user create' 'user list' 'user revoke' 'token create' 'token list' 'token revoke'
examples 'label-rule set' 'label-rule list' 'label-rule unset'
cp "$GARRISON_CONTEXT" operator.json
examples 'context add' 'context list' 'context use' 'context token' 'context rm'

# What other systems know.
mkdir -p dump
echo '[{"uuid": "44454c4c-0000-1010-8000-b4c04f5a4532", "hostname": "CN1"}]' >dump/servers.json
printf '[prod]\nweb-[1:2] rack=a\n[test]\ntest-1 rack=b\n' >hosts.ini
printf 'prod:\n  hosts:\n    web-3:\n      rack: a\ntest:\n  hosts:\n    test-2:\n' >hosts.yaml
examples 'import triton' 'import ansible' 'export' 'apply'
