package engine

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	agentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/agent/v1"
	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"
	instancev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/instance/v1"
	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"

	"github.com/garrison-fleet/garrison/services/executor/internal/layout"
)

// An entry without a task converges when its metadata differs, or when a file does.
func TestADamagedConfigurationIsFoundAndMended(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		damage func(b *workbench, path string) error
	}{
		{
			"a file was changed",
			func(_ *workbench, path string) error { return os.WriteFile(path, []byte("level = evil\n"), 0) },
		},
		{"a file is gone", func(_ *workbench, path string) error { return os.Remove(path) }},
		{"a mode was changed", func(_ *workbench, path string) error { return os.Chmod(path, 0o600) }},
		{"a file was added", func(_ *workbench, path string) error { return os.WriteFile(path+".d", nil, 0o600) }},
		{"the link is gone", func(b *workbench, _ string) error { return os.Remove(b.root.Config("cn-agent")) }},
	} {
		for name, how := range map[string][]func(*imagev1.Manifest){
			"restart":                  {configured(imagev1.Reload_RELOAD_RESTART)},
			"signal":                   {configured(imagev1.Reload_RELOAD_SIGNAL)},
			"restart with a rehearsal": {configured(imagev1.Reload_RELOAD_RESTART), rehearsed},
		} {
			t.Run(c.name+", "+name, func(t *testing.T) {
				r, _ := configuredBench(t, how...)
				was := r.good("cn-agent", "1.0.0")
				path := filepath.Join(r.root.Config("cn-agent"), "agent.conf")
				if err := c.damage(r.workbench, path); err != nil {
					t.Fatal(err)
				}
				if f := r.the("cn-agent"); f.GetHealth() != instancev1.Health_HEALTH_BAD ||
					!strings.Contains(f.GetReason(), "configuration") {
					t.Errorf("found %v", f)
				}
				r.settleDocument()
				r.offer()
				seen := "start info, start info"
				if name == "signal" {
					seen = "start info, reload info"
				}
				r.eventually("it is repaired, and signalled", func() bool {
					return r.seen() == seen && r.the("cn-agent").GetHealth() == instancev1.Health_HEALTH_GOOD
				})
				if got := r.rendered(); got != "level = info\nof = cn-agent 1.0.0\n" {
					t.Errorf("rendered %q", got)
				}
				r.eventually("one configuration is on the disk", func() bool { return r.configs() == 1 })
				if now := r.good("cn-agent", "1.0.0"); (now.GetPid() == was.GetPid()) != (name == "signal") {
					t.Errorf("pid %d, then %d", was.GetPid(), now.GetPid())
				}
			})
		}
	}
}

func TestFilesAndSetUpsHaveConfigurationsToo(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	r := b.run()
	conf := func(m *imagev1.Manifest) {
		m.Run.Configs = []*imagev1.Config{{Template: "etc/agent.conf", Path: "a/b/c.conf", Mode: 0o444}}
	}
	files := b.image("gz-tools", "1.0.0", "", kind(agentv1.Kind_KIND_FILES), conf)
	setup := b.image("dockerlogger", "1.0.0", "setup", kind(agentv1.Kind_KIND_ONESHOT), conf)
	for _, m := range []*imagev1.Manifest{files, setup} {
		for n, level := range []string{"info", "debug"} {
			verb := []taskv1.Verb{install, configure}[n]
			outcome(t, r.do(b.wantWith(proto.CloneOf(m), verb, values{"level": level})), good)
			data, _ := os.ReadFile(filepath.Join(b.root.Config(m.Agent), "a/b/c.conf"))
			if !strings.HasPrefix(string(data), "level = "+level) {
				t.Errorf("%s: rendered %q", m.Agent, data)
			}
		}
	}
	ran := filepath.Join(b.root.State("dockerlogger"), "setup")
	if err := os.Remove(ran); err != nil {
		t.Fatal(err)
	}
	outcome(t, r.do(b.wantWith(setup, configure, values{"level": "debug", "other": "x"})), good)
	if _, err := os.Stat(ran); err == nil {
		t.Error("the set-up ran again though nothing changed for it")
	}
}

func TestARemovalNamesItsConfigurationsAndLeavesNone(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.root = layout.Root(b.root.Path("fleet[1]*")) // a name that would mean something in a pattern
	if err := os.Mkdir(string(b.root), 0o755); err != nil {
		t.Fatal(err)
	}
	r := b.run()
	outcome(
		t,
		r.do(
			b.wantWith(b.image("cn-agent", "1.0.0", "", configured(imagev1.Reload_RELOAD_RESTART)), install,
				values{"level": "info"}),
		),
		good,
	)
	digest := filepath.Base(must(os.Readlink(r.root.Config("cn-agent"))))
	outcome(t, r.do(r.unwant("cn-agent", instanceOf("cn-agent"))), good)
	if left := r.left(); len(left) != 0 {
		t.Errorf("left: %v", left)
	}
	var paths []string
	for _, rep := range r.reports() {
		for _, p := range rep.GetReceipt().GetRemoved() {
			paths = append(paths, p.GetPath())
		}
	}
	for _, want := range []string{
		"agents/cn-agent/config", "agents/cn-agent/configs", "agents/cn-agent/configs/" + digest,
	} {
		if !slices.Contains(paths, want) {
			t.Errorf("the receipt names %v, not %s", paths, want)
		}
	}
}
