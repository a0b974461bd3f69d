package engine

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"

	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"
	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/metadata"
	"github.com/garrison-fleet/garrison/services/executor/internal/journal"
)

type values = map[string]string

const (
	install   = taskv1.Verb_VERB_INSTALL
	upgrade   = taskv1.Verb_VERB_UPGRADE
	configure = taskv1.Verb_VERB_CONFIGURE
)

// configuredBench is a running engine with a configured agent at level info.
func configuredBench(t *testing.T, how ...func(*imagev1.Manifest)) (*running, *imagev1.Manifest) {
	t.Helper()
	b := newBench(t)
	r := b.run()
	m := b.image("cn-agent", "1.0.0", "", how...)
	outcome(t, r.do(b.wantWith(m, install, values{"level": "info"})), good)
	r.good("cn-agent", "1.0.0")
	return r, m
}

// set configures the agent, and returns how that ended.
func (r *running) set(m *imagev1.Manifest, v values) *journal.Ended {
	r.t.Helper()
	return r.do(r.wantWith(proto.CloneOf(m), configure, v))
}

// seen returns what the agent saw, start by start and reload by reload.
func (b *workbench) seen() string {
	data, _ := os.ReadFile(filepath.Join(b.root.State("cn-agent"), "seen"))
	return strings.ReplaceAll(strings.TrimSpace(string(data)), "\n", ", ")
}

// rendered returns the configuration as the agent finds it.
func (b *workbench) rendered() string {
	data, _ := os.ReadFile(filepath.Join(b.root.Config("cn-agent"), "agent.conf"))
	return string(data)
}

// configs returns how many rendered configurations are on the disk.
func (b *workbench) configs() int {
	entries, _ := os.ReadDir(b.root.Configs("cn-agent"))
	return len(entries)
}

func TestAConfigurationIsRenderedSealedAndReported(t *testing.T) {
	t.Parallel()
	r, _ := configuredBench(t, configured(imagev1.Reload_RELOAD_UNSPECIFIED))
	if got, want := r.rendered(), "level = info\nof = cn-agent 1.0.0\n"; got != want {
		t.Errorf("rendered %q, want %q", got, want)
	}
	path := filepath.Join(r.root.Config("cn-agent"), "agent.conf")
	if info, err := os.Stat(path); err != nil || info.Mode() != 0o640 {
		t.Errorf("the file: %v, %v", info, err)
	}
	if dir, err := os.Stat(filepath.Dir(path) + "/"); err != nil || dir.Mode().Perm() != 0o555 {
		t.Errorf("its directory: %v, %v", dir, err)
	}
	if got := r.good("cn-agent", "1.0.0").GetConfigurationDigest(); string(got) != string(
		metadata.Digest(values{"level": "info"})) {
		t.Errorf("reported digest %x", got)
	}
}

func TestAChangedConfigurationIsToldAsTheImageSays(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name    string
		reload  imagev1.Reload
		samePid bool
		seen    string
	}{
		{"restart", imagev1.Reload_RELOAD_RESTART, false, "start info, start debug"},
		{"nothing said", imagev1.Reload_RELOAD_UNSPECIFIED, false, "start info, start debug"},
		{"signal", imagev1.Reload_RELOAD_SIGNAL, true, "start info, reload debug"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r, m := configuredBench(t, configured(c.reload))
			old := r.good("cn-agent", "1.0.0")
			outcome(t, r.set(m, values{"level": "debug"}), good)
			now := r.good("cn-agent", "1.0.0")
			r.eventually("it saw "+c.seen, func() bool { return r.seen() == c.seen })
			if (now.GetPid() == old.GetPid()) != c.samePid || r.configs() != 1 {
				t.Errorf("pid %d, then %d; %d configurations are left", old.GetPid(), now.GetPid(), r.configs())
			}
			if diff := cmp.Diff([]int{int(now.GetPid())}, r.pids()); diff != "" {
				t.Errorf("processes (-want +got):\n%s", diff)
			}
			// What the agent does not see is no reason to disturb it, and is proven at once.
			slow := proto.CloneOf(m)
			slow.Run.Ready.SoakMs = 60_000
			outcome(t, r.set(slow, values{"level": "debug", "other": "x"}), good)
			again := r.good("cn-agent", "1.0.0")
			if again.GetPid() != now.GetPid() || r.seen() != c.seen {
				t.Errorf("it was disturbed: pid %d, then %d; it saw %s", now.GetPid(), again.GetPid(), r.seen())
			}
			if string(again.GetConfigurationDigest()) == string(now.GetConfigurationDigest()) {
				t.Error("the new metadata is not reported")
			}
		})
	}
}

func TestMetadataInTheRunRestartsTheAgentWhateverItsReload(t *testing.T) {
	t.Parallel()
	r, m := configuredBench(t, configured(imagev1.Reload_RELOAD_SIGNAL),
		func(m *imagev1.Manifest) { m.Run.Env["LEVEL"] = "${metadata.level}" })
	old := r.good("cn-agent", "1.0.0").GetPid()
	outcome(t, r.set(m, values{"level": "debug"}), good)
	now := r.good("cn-agent", "1.0.0").GetPid()
	environ, _ := os.ReadFile(filepath.Join("/proc", strconv.Itoa(int(now)), "environ"))
	if now == old || !strings.Contains(string(environ), "LEVEL=debug") {
		t.Errorf("pid %d, then %d, with %q", old, now, environ)
	}
}

func TestABadConfigurationIsUndone(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name    string
		reload  imagev1.Reload
		seen    string
		prepare func(*running)
	}{
		{"restart", imagev1.Reload_RELOAD_RESTART, "start info, start bad, start info", nil},
		{"signal", imagev1.Reload_RELOAD_SIGNAL, "start info, reload bad, start info", nil},
		// What it goes back to was damaged, and is rendered again from the old image.
		{"damaged before", imagev1.Reload_RELOAD_SIGNAL, "start info, reload bad, start info", func(r *running) {
			_ = os.Remove(filepath.Join(r.root.Config("cn-agent"), "agent.conf"))
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			r, m := configuredBench(t, configured(c.reload))
			if c.prepare != nil {
				c.prepare(r)
			}
			o := outcome(t, r.set(m, values{"level": "bad"}), undone)
			if o.GetCode() != "EXITED" || o.GetFailedStep() != taskv1.Step_STEP_PROVE ||
				!strings.Contains(o.GetLogTail(), "the level is bad") {
				t.Errorf("outcome %v", o)
			}
			r.good("cn-agent", "1.0.0")
			saw := r.seen()
			if bySystemd() { // which starts again what ended, until it is stopped
				saw = strings.Join(slices.Compact(strings.Split(saw, ", ")), ", ")
				saw = strings.Replace(saw, "reload bad, start bad", "reload bad", 1)
			}
			if r.rendered() != "level = info\nof = cn-agent 1.0.0\n" || r.configs() != 1 || saw != c.seen {
				t.Errorf("rendered %q, %d configurations, it saw %s; want %s", r.rendered(), r.configs(), saw, c.seen)
			}
			if string(r.the("cn-agent").GetConfigurationDigest()) != string(metadata.Digest(values{"level": "info"})) {
				t.Error("the new configuration is reported")
			}
		})
	}
}

func TestAnUpgradeThatIsUndoneBringsTheOldConfigurationBack(t *testing.T) {
	t.Parallel()
	for name, how := range map[string]func(*imagev1.Manifest){
		"restart": func(*imagev1.Manifest) {}, "overlap": overlap,
	} {
		t.Run(name, func(t *testing.T) {
			r, _ := configuredBench(t, configured(imagev1.Reload_RELOAD_RESTART))
			next := r.image("cn-agent", "2.0.0", "", configured(imagev1.Reload_RELOAD_RESTART), how)
			outcome(t, r.do(r.wantWith(next, upgrade, values{"level": "bad"})), undone)
			r.good("cn-agent", "1.0.0")
			if r.rendered() != "level = info\nof = cn-agent 1.0.0\n" || r.configs() != 1 {
				t.Errorf("rendered %q, %d configurations", r.rendered(), r.configs())
			}
			outcome(t, r.do(r.wantWith(next, upgrade, values{"level": "debug"})), good)
			if r.rendered() != "level = debug\nof = cn-agent 2.0.0\n" || r.configs() != 1 {
				t.Errorf("rendered %q, %d configurations", r.rendered(), r.configs())
			}
			plain := r.image("cn-agent", "3.0.0", "ready")
			outcome(t, r.do(r.wantWith(plain, upgrade, values{"level": "debug"})), good)
			if _, err := os.Lstat(r.root.Config("cn-agent")); err == nil || r.configs() != 0 {
				t.Errorf("a version without a configuration has %q", r.rendered())
			}
		})
	}
}

func rehearsed(m *imagev1.Manifest) {
	m.Run.Rehearsal = &imagev1.Exec{Command: "bin/agent", Args: []string{"rehearse", "${config}/agent.conf"}}
}

// withConfig adds a configuration file to an image.
func withConfig(c *imagev1.Config) func(*imagev1.Manifest) {
	return func(m *imagev1.Manifest) { m.Run.Configs = append(m.Run.Configs, c) }
}

// unusable are versions that cannot be rendered or rehearsed, each with its code.
var unusable = []struct {
	name, code string
	step       taskv1.Step
	values     values
	how        func(*imagev1.Manifest)
}{
	{"a name that is not there", "BAD_TEMPLATE", taskv1.Step_STEP_REHEARSE, values{"lev": "info"}, nil},
	{
		"a template that is broken", "BAD_TEMPLATE", taskv1.Step_STEP_REHEARSE, values{"level": "info"},
		withConfig(&imagev1.Config{Template: "etc/broken.conf", Path: "b"}),
	},
	{
		"a template that is not there", "BAD_TEMPLATE", taskv1.Step_STEP_REHEARSE, values{"level": "info"},
		withConfig(&imagev1.Config{Template: "etc/none.conf", Path: "b"}),
	},
	{"its own check", "REHEARSAL_FAILED", taskv1.Step_STEP_REHEARSE, values{"level": "wrong"}, rehearsed},
	{
		"a check that is not there", "INVALID_IMAGE", taskv1.Step_STEP_REHEARSE, values{"level": "info"},
		func(m *imagev1.Manifest) { m.Run.Rehearsal = &imagev1.Exec{Command: "bin/none"} },
	},
	{
		"a variable of the run", "UNKNOWN_VARIABLE", taskv1.Step_STEP_CHECK, values{"level": "info"},
		func(m *imagev1.Manifest) { m.Run.Env["A"] = "${metadata.none}" },
	},
	{
		"a file outside", "OUTSIDE", taskv1.Step_STEP_CHECK, values{"level": "info"},
		withConfig(&imagev1.Config{Template: "etc/agent.conf", Path: "../b"}),
	},
	{
		"a template outside", "OUTSIDE", taskv1.Step_STEP_CHECK, values{"level": "info"},
		withConfig(&imagev1.Config{Template: "/etc/passwd", Path: "b"}),
	},
	{
		"a file twice", "BAD_MANIFEST", taskv1.Step_STEP_CHECK, values{"level": "info"},
		withConfig(&imagev1.Config{Template: "etc/agent.conf", Path: "./agent.conf"}),
	},
	{
		"a file in a file", "BAD_MANIFEST", taskv1.Step_STEP_CHECK, values{"level": "info"},
		withConfig(&imagev1.Config{Template: "etc/agent.conf", Path: "agent.conf/b"}),
	},
	{
		"a mode with set-user-id", "BAD_MANIFEST", taskv1.Step_STEP_CHECK, values{"level": "info"},
		withConfig(&imagev1.Config{Template: "etc/agent.conf", Path: "b", Mode: 0o4755}),
	},
}

func TestWhatCannotBeRenderedOrRehearsedTouchesNothing(t *testing.T) {
	t.Parallel()
	restart := configured(imagev1.Reload_RELOAD_RESTART)
	for _, c := range unusable {
		t.Run(c.name, func(t *testing.T) {
			b := newBench(t)
			r := b.run()
			how := []func(*imagev1.Manifest){restart}
			if c.how != nil {
				how = append(how, c.how)
			}
			m := b.image("cn-agent", "2.0.0", "", how...)
			o := outcome(t, r.do(b.wantWith(m, install, c.values)), undone)
			if o.GetCode() != c.code || o.GetFailedStep() != c.step {
				t.Errorf("outcome %v, want %s in %s", o, c.code, c.step)
			}
			if left := b.left(); len(left) != 0 {
				t.Errorf("a first install left: %v", left)
			}
			old := b.image("cn-agent", "1.0.0", "", restart)
			outcome(t, r.do(b.wantWith(old, install, values{"level": "info"})), good)
			was := r.good("cn-agent", "1.0.0")
			outcome(t, r.do(b.wantWith(m, upgrade, c.values)), undone)
			if now := r.good("cn-agent", "1.0.0"); now.GetPid() != was.GetPid() || b.configs() != 1 ||
				b.seen() != "start info" {
				t.Errorf("pid %d, then %d; %d configurations; it saw %s", was.GetPid(), now.GetPid(), b.configs(),
					b.seen())
			}
		})
	}
}

func TestARehearsalSeesTheNewConfigurationWhileTheOldOneIsInUse(t *testing.T) {
	t.Parallel()
	r, _ := configuredBench(t, configured(imagev1.Reload_RELOAD_RESTART))
	next := r.image("cn-agent", "2.0.0", "", configured(imagev1.Reload_RELOAD_RESTART), func(m *imagev1.Manifest) {
		// It fails unless the link leads to the old one, and its own argument to the new one.
		m.Run.Rehearsal = &imagev1.Exec{Command: "bin/agent", Args: []string{"rehearse", "${config}/agent.conf"}}
	})
	o := outcome(t, r.do(r.wantWith(next, upgrade, values{"level": "wrong"})), undone)
	if o.GetCode() != code.RehearsalFailed || !strings.Contains(o.GetReason(), "the level is wrong") {
		t.Errorf("outcome %v", o)
	}
	outcome(t, r.do(r.wantWith(next, upgrade, values{"level": "debug"})), good)
}

func TestMetadataThatIsNotWhatItsDigestSaysIsRefused(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	r := b.run()
	task := b.wantWith(b.image("cn-agent", "1.0.0", "ready"), install, values{"a": "b"})
	b.doc.Entries[0].Metadata = values{"a": "c"}
	if o := outcome(t, r.do(task), undone); o.GetCode() != code.BadMetadata ||
		o.GetFailedStep() != taskv1.Step_STEP_CHECK {
		t.Errorf("outcome %v", o)
	}
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}
