package sessions_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/garrison-fleet/garrison/e2e/pages"
	"github.com/garrison-fleet/garrison/e2e/rig"
	"github.com/garrison-fleet/garrison/e2e/scenario"
)

// documentation returns every page of the repository.
func documentation(t *testing.T) []pages.Page {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "git", "ls-files", "-z", "*.md")
	cmd.Dir = filepath.Join("..", "..")
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	var all []pages.Page
	for path := range strings.SplitSeq(strings.TrimRight(string(out), "\x00"), "\x00") {
		p, err := pages.Read(filepath.Join("..", "..", path))
		if err != nil {
			t.Fatal(err)
		}
		p.Path = path
		all = append(all, p)
	}
	return all
}

// targets returns the targets of the Makefile.
func targets(t *testing.T) (names []string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "Makefile"))
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range regexp.MustCompile(`(?m)^([a-z][a-z-]*):`).FindAllStringSubmatch(string(text), -1) {
		names = append(names, m[1])
	}
	return names
}

// Each command that a page names exists, with its flags.
func TestEveryCommandOfThePagesExists(t *testing.T) {
	t.Parallel()
	programs := &pages.Programs{Dir: scenario.Bin, Targets: targets(t)}
	checked := 0
	for _, p := range documentation(t) {
		if p.Path == "CHANGELOG.md" { // names what was
			continue
		}
		for i, b := range append(p.Blocks, p.Inline...) {
			commands, err := b.Commands()
			if err != nil {
				if i < len(p.Blocks) && b.Run {
					t.Errorf("%s: %v", p.Path, err)
				}
				continue // a diagram, or a name that no shell reads
			}
			for _, c := range commands {
				if err := programs.Check(t.Context(), c); err != nil {
					t.Errorf("%s: %v", p.Path, err)
				}
				checked++
			}
		}
	}
	if checked < 500 {
		t.Errorf("only %d command lines were found", checked)
	}
}

// Each block that is fenced as sh is run, with the programs under test, in a directory that stands for the machine.
func TestTheSessionsOfThePages(t *testing.T) {
	t.Parallel()
	for _, p := range documentation(t) {
		s, known := sessions[p.Path]
		if known != p.Runs() {
			t.Errorf("%s has blocks that are fenced as sh: %v; it has a session: %v", p.Path, p.Runs(), known)
		}
		if known && p.Runs() {
			t.Run(strings.TrimSuffix(filepath.Base(p.Path), ".md"), func(t *testing.T) {
				t.Parallel()
				runPage(t, p, s)
			})
		}
	}
}

// runPage runs a page's session. W is the directory that stands for the machine; PORT and PORT1 are free ports.
func runPage(t *testing.T, p pages.Page, s pages.Session) {
	t.Helper()
	dir := scenario.ShortDir(t)
	library, err := os.ReadFile(filepath.Join("testdata", "pages", "lib.sh"))
	if err != nil {
		t.Fatal(err)
	}
	here, err := filepath.Abs(filepath.Join("..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	s.Before = string(library) + s.Before
	ctx := scenario.Within(t, 4*time.Minute)
	cmd := exec.CommandContext(ctx, "bash", "-c", s.Script(p))
	cmd.Dir = dir
	cmd.Env = []string{
		"PATH=" + filepath.Join(dir, "usr/local/bin") + ":" + scenario.Bin + ":" + os.Getenv("PATH"), "HOME=" + dir,
		"W=" + dir, "BIN=" + scenario.Bin, "REPOSITORY=" + here,
		"PORT=" + scenario.FreePort(t), "PORT1=" + scenario.FreePort(t),
	}
	log, err := os.Create(filepath.Join(dir, "session.out"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = log.Close() }()
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = 10 * time.Second
	err = cmd.Run()
	_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // what the session did not stop
	endBelow(t, dir)
	if err != nil {
		out, _ := os.ReadFile(log.Name())
		t.Errorf("%s: %v\n%s", p.Path, err, out[max(0, len(out)-6000):])
	}
}

// endBelow kills the agents that a session left.
func endBelow(t *testing.T, dir string) {
	t.Helper()
	pids, err := rig.ProcessesBelow(dir)
	if err != nil {
		t.Error(err)
	}
	for _, pid := range pids {
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
}

// machine are the paths and addresses of pages, and what stands for them below W.
var machine = []string{
	"/usr/local/bin/", "$W/usr/local/bin/", "/usr/lib/", "$W/usr/lib/", "/etc/", "$W/etc/", "/var/", "$W/var/",
	"/root/", "$W/root/", "/run/", "$W/run/", "4222", "$PORT", "garrison.example.com", "localhost", "18080", "$PORT1",
}

// site starts a garrisond that serves HTTP at PORT1, and a server web-1.
const site = `
garrisond --data "$W/data" --http 127.0.0.1:$PORT1 --beat-interval 1s >"$W/garrisond.log" 2>&1 &
echo $! >"$pids/garrisond"
export GARRISON_CONTEXT=$W/data/operator.json
until_ok command garrisond health --data "$W/data"
garrison server enroll web-1 --label port=$PORT --token-file web-1.token
executor join --root "$W/web-1" --token-file web-1.token
executor run --root "$W/web-1" --supervisor direct >"$W/executor.log" 2>&1 &
echo $! >"$pids/garrison-executor"
until_ok online web-1
`

// packed makes the archive and the packages that the page on images names.
const packed = `
ARCH=$(uname -m | sed 's/x86_64/amd64/; s/aarch64/arm64/')
tar -czf beacon-1.1.0-linux-$ARCH.tar.gz beacon
mkdir -p root/usr/bin root/usr/lib/systemd/system && cp beacon/beacon root/usr/bin/
cat >root/usr/lib/systemd/system/beacon.service <<END
[Service]
Type=notify
ExecStart=/usr/bin/beacon -listen 127.0.0.1:$PORT
END
for version in 1.2.0-1 1.3.0-1; do
  printf '2.0\n' >debian-binary
  printf 'Package: beacon\nVersion: %s\nArchitecture: %s\n' $version $ARCH >control
  tar -czf control.tar.gz ./control && tar -czf data.tar.gz -C root .
  printf '!<arch>\n' >beacon_${version}_$ARCH.deb
  for member in debian-binary control.tar.gz data.tar.gz; do
    size=$(stat -c %s $member)
    printf '%-16s%-12s%-6s%-6s%-8s%-10s` + "\x60" + `\n' $member 0 0 0 100644 $size
    cat $member
    [ $((size % 2)) = 0 ] || echo
  done >>beacon_${version}_$ARCH.deb
done
`

// receives starts a target of webhooks at the port RECEIVER, which writes what it gets to the file got.
const receives = `
cat >receiver.py <<'END'
import http.server
class Receiver(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        with open("got", "ab") as f:
            f.write(body + b"\n")
        self.send_response(204)
        self.end_headers()
s = http.server.HTTPServer(("127.0.0.1", 0), Receiver)
with open("receiver.port", "w") as f:
    f.write(str(s.server_port))
s.serve_forever()
END
python3 receiver.py 2>"$W/receiver.log" &
echo $! >"$pids/receiver"
until_ok test -s receiver.port
RECEIVER=$(cat receiver.port)
`

// delivers runs the gateway with the file of the page, and kills it between two facts.
const delivers = `
grep -q garrison.webhook.test got
hooks() {
  gateway --bus $(sed -n 's/.*"url": *"\([^"]*\)".*/\1/p' hooks.json) --bus-ca "$W/data/trust/tls/ca.pem" \
    --http 127.0.0.1:0 --webhooks webhooks.yaml --webhooks-state "$W/hooks" >>"$W/gateway.log" 2>&1 &
  HOOKS=$!
  echo $HOOKS >"$pids/gateway"
}
fails() { # VERSION
  beacon "$1" && { garrison install "beacon@$1" --on web-1 --yes || true; }
}
count() { [ "$(grep -c '"garrison.task.v1.\(Failed\|Undone\)"' got)" = "$1" ]; }
beacon 0.0.1
sed -i 's/-listen/-nonsense/' agent/garrison.yaml
hooks
until_ok test -e "$W/hooks/own.json"
fails 1.0.0
until_ok count 1
grep -q '"garrisonserver":"web-1"' got && grep -q 'task of beacon on web-1' got
kill -9 $HOOKS
wait $HOOKS || true
fails 2.0.0
hooks
until_ok count 2
gateway webhooks --webhooks webhooks.yaml --webhooks-state "$W/hooks" | grep 'own .* running '
`

// audited starts a garrisond with a copy of the ledger.
const audited = `
garrisond --data "$W/data" --audit-size 64 >"$W/garrisond.log" 2>&1 &
echo $! >"$pids/garrisond"
export GARRISON_CONTEXT=$W/data/operator.json
until_ok command garrisond health --data "$W/data"
`

// sessions are the pages whose blocks are run. Each starts a Garrison of its own.
var sessions = map[string]pages.Session{
	"deploy/docs/audit.md": {Before: audited},
	"deploy/docs/running.md": {
		Before: "ln -s $BIN bin && ln -s $REPOSITORY/deploy deploy\n",
		Enter: map[string]string{
			"Back up": "beacon 1.0.0 && beacon 1.1.0 && garrison install beacon@1.0.0 --on web-1\n",
			// What happens after the backup: the server is ahead of what is restored. Its executor stands still until
			// the status was read: on a busy machine it would have reported by then. On a very busy one it is offline.
			"Restore": "garrison up beacon@1.1.0 --on web-1 --yes\n" +
				"kill -STOP $(cat $pids/garrison-executor)\n",
			"After a restore": "garrison restore 2>&1 | " +
				"grep -E 'possibly ahead too: 1 server |web-1 .*offline'\n" +
				"kill -CONT $(cat $pids/garrison-executor)\n" +
				"until_ok ahead web-1\n",
			"Move": "garrison instance list --no-headers --columns found | grep -x 1.1.0\n" +
				"garrison server list --columns state | grep -q ahead && exit 1 || true\n",
			"Upgrade":               "until_ok online web-1\n",
			"Certificates and keys": "garrison instance list --no-headers --columns found | grep -x 1.1.0\n",
		},
		After:   "if garrison --context ann.json server list; then exit 1; fi\n",
		Replace: machine,
	},
	"deploy/docs/console.md": {Before: site, Replace: []string{"8440", "$PORT1"}},
	"deploy/docs/http.md": {
		Before: site, Enter: map[string]string{
			"Change": "beacon 1.0.0\n",
			"Images": "garrison image build agent --version 1.1.0 --out beacon-1.1.0.gimg\n",
		},
		After: "garrison intent list -o name | grep -x \"$KEY\"\n" +
			"garrison events --noun channel | grep 'ticket 7'\n" +
			"found() { garrison instance list --no-headers --columns found | grep -qx 1.0.0; }; until_ok found\n",
		Replace: []string{"8440", "$PORT1"},
	},
	"deploy/docs/webhooks.md": {
		Before: site + receives, After: delivers,
		Replace: []string{"/var/lib/garrisond", "$W/data", "18080", "$RECEIVER"},
	},
	"deploy/docs/images.md": {
		Before:  site + "beacon 0.9.0 && mv agent beacon\n" + packed,
		Replace: []string{"_amd64", "_$ARCH", "-amd64", "-$ARCH"},
		// The undo ends when the dispatcher knows it; the registry reads the same fact by itself.
		After: "undone() { garrison instance list --no-headers --columns wanted,state | " +
			"grep -x '1.2.0_1  *converged'; }\n" +
			"until_ok undone\n" +
			"garrison image list --columns version | grep -x '1.3.0_1 *'\n",
	},
	"deploy/docs/sources.md": {
		Before: "garrisond --data $W/data --listen 127.0.0.1:$PORT >$W/garrisond.log 2>&1 &\n" +
			"echo $! >$pids/garrisond\n" +
			"until_ok garrisond health --data $W/data\n" +
			"export GARRISON_CONTEXT=$W/data/operator.json\n" +
			"beacon 1.0.0 && beacon 1.1.0\n",
		Enter: map[string]string{
			"Bundles": "garrison env create prod\n" +
				"garrison env default prod beacon@release --set level=debug --yes\n",
			"A site without a network": "garrisond --data $W/other --listen 127.0.0.1:$PORT1 >$W/other.log 2>&1 &\n" +
				"echo $! >$pids/other\n" +
				"until_ok garrisond health --data $W/other\n" +
				"unit_stop garrisond\n" +
				"export GARRISON_CONTEXT=$W/other/operator.json\n",
		},
		After: "garrison source list --columns name,images --no-headers | grep -x 'site  *2'\n" +
			"garrison image list --channel release --columns agent,version | grep 'beacon  *1.1.0'\n" +
			"garrison env default prod | grep beacon\n" +
			"garrison source sync site --activate-in release --agents 2>&1 | grep 'nothing to do'\n",
		Replace: machine,
	},
}
