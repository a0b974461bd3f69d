package engine

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"
	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"

	"github.com/garrison-fleet/garrison/pkg/code"
)

func TestAnAgentGetsItsArgumentsAndEnvironmentAndNothingElse(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*imagev1.Manifest){
		"with sockets": listens(freeAddress(t)), "without": func(*imagev1.Manifest) {},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			r := b.run()
			odd := []string{"look", "$HOME", "$$", "%n %% %H", "a b", `"q" 'q'`, `\n\`, "line\nline", "", ";", "ü"}
			outcome(t, r.do(b.want(b.image("cn-agent", "1.0.0", "look", change, func(m *imagev1.Manifest) {
				m.Run.Args = odd
				m.Run.Env = map[string]string{"ODD": "a b\t%n $HOME \"q\"", "LANG": "xx"}
			}))), taskv1.State_STATE_SUCCEEDED)
			seen := b.looked()
			if !slices.Equal(seen.Args, odd) {
				t.Errorf("arguments %q, want %q", seen.Args, odd)
			}
			if !slices.Contains(seen.Env, "ODD=a b\t%n $HOME \"q\"") || !slices.Contains(seen.Env, "LANG=xx") {
				t.Errorf("environment %q", seen.Env)
			}
			for _, v := range seen.Env {
				name, _, _ := strings.Cut(v, "=")
				if !strings.HasPrefix(name, "GARRISON_") && !strings.HasPrefix(name, "LISTEN_") &&
					!slices.Contains([]string{"PATH", "NOTIFY_SOCKET", "ODD", "LANG"}, name) {
					t.Errorf("environment has %q besides", v)
				}
			}
		})
	}
}

// passable lets any user pass to the root.
func (b *workbench) passable() {
	b.t.Helper()
	for dir := string(b.root); dir != "/"; dir = filepath.Dir(dir) {
		if info, err := os.Stat(dir); err != nil || info.Mode()&0o001 == 0 {
			if err := os.Chmod(dir, 0o711); err != nil {
				b.t.Fatal(err)
			}
		}
	}
}

// openToAll makes a directory below /srv in which every user may write.
func openToAll(t *testing.T) string {
	t.Helper()
	dir := filepath.Join("/srv", "mine-"+strconv.Itoa(os.Getpid()))
	if err := os.Mkdir(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o777); err != nil { // whatever the umask is
		t.Fatal(err)
	}
	return dir
}

func TestASandboxHolds(t *testing.T) {
	t.Parallel()
	needsSystemd(t)
	b := newBench(t)
	b.passable()
	mine := openToAll(t)
	if err := os.WriteFile("/tmp/not-private", nil, 0o666); err != nil {
		t.Fatal(err)
	}
	r := b.run()
	confine := func(s *imagev1.Sandbox) func(*imagev1.Manifest) {
		return func(m *imagev1.Manifest) {
			m.Run.Args = []string{"look", "/etc", "/srv", "/tmp", mine, b.root.State("cn-agent")}
			m.Run.Sandbox = s
			m.Run.Sockets = []*imagev1.Socket{{Name: "main", Listen: freeAddress(t)}} // also through our own program
		}
	}
	outcome(t, r.do(b.want(b.image("cn-agent", "1.0.0", "look", confine(nil)))), taskv1.State_STATE_SUCCEEDED)
	if seen := b.looked(); slices.Contains(
		[]bool{seen.Can["/etc"], seen.Can["/srv"], seen.Can["/tmp"], seen.Can[mine], seen.Home}, false) ||
		seen.UID != 0 {
		t.Errorf("without a sandbox it saw %+v", seen)
	}
	outcome(t, r.do(b.want(b.image("cn-agent", "2.0.0", "look", confine(&imagev1.Sandbox{
		ReadOnlySystem: true, Writable: []string{mine}, PrivateTmp: true, NoHomes: true, NoNewPrivileges: true,
		BoundCapabilities: true,
	})))), taskv1.State_STATE_SUCCEEDED)
	seen := b.looked()
	if want := map[string]bool{
		"/etc": false, "/srv": false, "/tmp": true, mine: true, b.root.State("cn-agent"): true,
	}; !maps.Equal(seen.Can, want) || seen.Home || seen.UID != 0 {
		t.Errorf("in the sandbox it saw %+v, want %v", seen, want)
	}
	if _, err := os.Stat(
		fmt.Sprintf("/proc/%d/root/tmp/not-private", r.good("cn-agent", "2.0.0").GetPid()),
	); err == nil {
		t.Error("it sees the /tmp of all")
	}
	outcome(t, r.do(b.want(b.image("cn-agent", "3.0.0", "look", confine(&imagev1.Sandbox{User: "agent"})))),
		taskv1.State_STATE_SUCCEEDED)
	seen = b.looked()
	if seen.UID != 4242 || seen.GID != 4242 || !slices.Contains(seen.Groups, 4243) || seen.Can["/etc"] ||
		!seen.Can[b.root.State("cn-agent")] {
		t.Errorf("as another user it saw %+v", seen)
	}
	outcome(
		t,
		r.do(
			b.want(
				b.image(
					"cn-agent",
					"4.0.0",
					"look",
					confine(&imagev1.Sandbox{
						User:              "agent",
						BoundCapabilities: true,
						Capabilities:      []string{"CAP_DAC_OVERRIDE"},
					}),
				),
			),
		),
		taskv1.State_STATE_SUCCEEDED,
	)
	if seen := b.looked(); seen.UID != 4242 || !seen.Can["/etc"] {
		t.Errorf("with a capability of root it saw %+v", seen)
	}
}

func TestLimitsHold(t *testing.T) {
	t.Parallel()
	needsSystemd(t)
	b := newBench(t)
	r := b.run()
	bound := func(m *imagev1.Manifest) {
		m.Run.Limits = &imagev1.Limits{MemoryBytes: 64 << 20, CpuPercent: 50, Tasks: 30, OpenFiles: 99}
	}
	outcome(t, r.do(b.want(b.image("cn-agent", "1.0.0", "ready", bound))), taskv1.State_STATE_SUCCEEDED)
	pid := strconv.Itoa(int(r.good("cn-agent", "1.0.0").GetPid()))
	limits, _ := os.ReadFile("/proc/" + pid + "/limits")
	if !strings.Contains(strings.Join(strings.Fields(string(limits)), " "), "Max open files 99 99 files") {
		t.Errorf("limits\n%s", limits)
	}
	service := b.services()[0]
	for property, want := range map[string]string{
		"MemoryMax": "67108864", "TasksMax": "30", "CPUQuotaPerSecUSec": "500ms", "LimitNOFILE": "99",
	} {
		if got := shows(t, service, property); got != want {
			t.Errorf("%s is %q, want %q", property, got, want)
		}
	}
	o := outcome(
		t,
		r.do(
			b.want(
				b.image("cn-agent", "2.0.0", "hungry", bound,
					func(m *imagev1.Manifest) { m.Run.Ready.SoakMs = 10_000 }),
			),
		),
		taskv1.State_STATE_UNDONE,
	)
	if o.GetCode() != "EXITED" || !strings.Contains(o.GetReason(), "killed") {
		t.Errorf("outcome %v", o)
	}
	r.good("cn-agent", "1.0.0")
}

func TestWhatThisServerCannotKeepIsRefusedBeforeAnythingIsTouched(t *testing.T) {
	t.Parallel()
	needsSystemd(t)
	b := newBench(t)
	r := b.run()
	for name, s := range map[string]*imagev1.Sandbox{
		"an unknown user": {User: "no-such-user"}, "an unreachable root": {User: "agent"},
		"a path that is not there": {ReadOnlySystem: true, Writable: []string{"/srv/nothing"}},
	} {
		o := outcome(t,
			r.do(b.want(b.image("cn-agent", "1.0.0", "ready", func(m *imagev1.Manifest) { m.Run.Sandbox = s }))),
			taskv1.State_STATE_UNDONE)
		if o.GetCode() != code.CannotConfine || o.GetFailedStep() != taskv1.Step_STEP_CHECK {
			t.Errorf("%s: %v", name, o)
		}
	}
	if left := b.left(); len(left) != 0 {
		t.Errorf("left: %v", left)
	}
}
