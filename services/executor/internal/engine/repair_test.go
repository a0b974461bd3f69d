package engine

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	agentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/agent/v1"
	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"
	instancev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/instance/v1"
	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/services/executor/internal/layout"
	"github.com/garrison-fleet/garrison/services/executor/simulation/crash/imagetest"
)

// damage changes a file of an image on the disk.
func (b *workbench) damage(m *imagev1.Manifest) {
	b.t.Helper()
	dir := b.root.Image(m.GetBlob().GetDigest())
	file := filepath.Join(dir, "VERSION")
	if err := errors.Join(os.Chmod(file, 0o644), os.WriteFile(file, []byte("damaged"), 0o644)); err != nil {
		b.t.Fatal(err)
	}
}

// wholeAgain asserts that an agent is good, from an image that is whole, and that nothing else is left.
func (r *running) wholeAgain(m *imagev1.Manifest) {
	r.t.Helper()
	r.eventually("the repair is over", func() bool {
		images, caches := must(os.ReadDir(r.root.Images())), must(os.ReadDir(r.root.Cache()))
		return r.the(m.Agent).GetHealth() == instancev1.Health_HEALTH_GOOD && len(images) == 1 && len(caches) == 0
	})
	if data, err := os.ReadFile(filepath.Join(r.root.Current(m.Agent), "VERSION")); string(data) != m.Version {
		r.t.Errorf("the file holds %q, %v; want %q", data, err, m.Version)
	}
}

var everyKind = map[string]func(*workbench) *imagev1.Manifest{
	"daemon": func(b *workbench) *imagev1.Manifest { return b.image("cn-agent", "1.0.0", "ready") },
	"daemon that overlaps": func(b *workbench) *imagev1.Manifest {
		return b.image("cn-agent", "1.0.0", "ready", overlap)
	},
	"oneshot": func(b *workbench) *imagev1.Manifest {
		return b.image("dockerlogger", "1.0.0", "setup", kind(agentv1.Kind_KIND_ONESHOT))
	},
	"files": func(b *workbench) *imagev1.Manifest {
		return b.image("gz-tools", "1.0.0", "", kind(agentv1.Kind_KIND_FILES))
	},
}

func TestATaskForTheSameVersionRepairsADamagedImage(t *testing.T) {
	t.Parallel()
	for name, image := range everyKind {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			r := b.run()
			m := image(b)
			outcome(t, r.do(b.want(m)), good)
			was := r.good(m.Agent, "1.0.0").GetPid()
			b.damage(m)
			if f := r.the(m.Agent); f.GetHealth() != instancev1.Health_HEALTH_BAD {
				t.Errorf("found %v, want it to be bad", f)
			}
			outcome(t, r.do(b.want(m)), good)
			r.wholeAgain(m)
			if now := r.good(m.Agent, "1.0.0").GetPid(); now == was && was != 0 {
				t.Error("the process of the damaged image goes on")
			}
		})
	}
}

func TestADamagedImageIsRepairedWithoutATask(t *testing.T) {
	t.Parallel()
	for name, image := range everyKind {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			r := b.run()
			m := image(b)
			outcome(t, r.do(b.want(m)), good)
			b.settleDocument()
			r.offer()
			was := r.good(m.Agent, "1.0.0").GetPid()
			b.damage(m)
			r.eventually("it is bad", func() bool { return r.the(m.Agent).GetHealth() == instancev1.Health_HEALTH_BAD })
			r.wholeAgain(m)
			if now := r.good(m.Agent, "1.0.0").GetPid(); now == was && was != 0 {
				t.Error("the process of the damaged image goes on")
			}
		})
	}
}

// A damaged image does not end the process that runs from it, and the report names that.
func TestTheProcessOfADamagedAgentIsReported(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	m := b.image("cn-agent", "1.0.0", "ready")
	g := &gate{Shelf: imagetest.Shelf{From: b.shelf, To: b.root}, open: make(chan struct{})}
	r := b.run()
	outcome(t, r.do(b.want(m)), good)
	if err := r.stop(); err != nil {
		t.Fatal(err)
	}
	r = b.run(func(c *Config) { c.Fetcher = g })
	r.eventually("it was taken over", func() bool { return r.the("cn-agent").GetPid() != 0 })
	was := r.good("cn-agent", "1.0.0")
	b.damage(m)
	r.eventually("it is bad", func() bool { return r.the("cn-agent").GetHealth() == instancev1.Health_HEALTH_BAD })
	if f := r.the("cn-agent"); f.GetCode() != code.Damaged || f.GetPid() != was.GetPid() || f.GetStartedAt() == nil {
		t.Errorf("found %v, want process %d", f, was.GetPid())
	}
	close(g.open)
}

// A repair that fights what changes the files ends, and the process goes on.
func TestDamageThatComesBackAfterTwoRepairsStaysAndIsNamed(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	r := b.run(func(c *Config) { c.CheckEvery = 50 * time.Millisecond })
	m := b.image("cn-agent", "1.0.0", "ready")
	outcome(t, r.do(b.want(m)), good)
	b.settleDocument()
	r.offer()
	for range 2 {
		r.good("cn-agent", "1.0.0")
		b.damage(m)
		r.eventually("it is bad", func() bool { return r.the(m.Agent).GetHealth() == instancev1.Health_HEALTH_BAD })
		r.wholeAgain(m)
		r.rooms.repairs.Forget() // the rest between two repairs is over
	}
	was := r.good("cn-agent", "1.0.0").GetPid()
	b.damage(m)
	r.eventually("it is not repaired", func() bool { return r.the("cn-agent").GetCode() == code.RepairDidNotHold })
	f := r.the("cn-agent")
	why := f.GetReason()
	if !strings.Contains(why, "VERSION has another content") || !strings.Contains(why, "${state}") ||
		f.GetNextAt() != nil || f.GetPid() != was {
		t.Errorf("found %v; want process %d, the file and what to do", f, was)
	}
	for range 3 {
		r.checked <- struct{}{}
	}
	if r.the("cn-agent").GetPid() != was || r.the("cn-agent").GetCode() != code.RepairDidNotHold {
		t.Errorf("later: %v", r.the("cn-agent"))
	}
	outcome(t, r.do(b.want(m)), good)
	r.wholeAgain(m)
}

// Python and others write caches beside their program.
func TestAnAgentThatAddsFilesToItsImageGoesOnAndTheyAreNamed(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	r := b.run(func(c *Config) { c.CheckEvery = 50 * time.Millisecond })
	m := b.image("cn-agent", "1.0.0", "ready")
	outcome(t, r.do(b.want(m)), good)
	b.settleDocument()
	r.offer()
	was := r.good("cn-agent", "1.0.0").GetPid()
	dir := filepath.Join(b.root.Image(m.GetBlob().GetDigest()), "bin")
	err := errors.Join(os.Chmod(dir, 0o755), os.Mkdir(filepath.Join(dir, "__pycache__"), 0o755), os.Chmod(dir, 0o555))
	if err != nil {
		t.Fatal(err)
	}
	r.eventually("the new directory is named", func() bool {
		return strings.Contains(r.the("cn-agent").GetReason(), "bin/__pycache__; files that an agent writes belong in")
	})
	for range 3 {
		r.checked <- struct{}{}
	}
	if now := r.good("cn-agent", "1.0.0"); now.GetPid() != was {
		t.Errorf("process %d was replaced by %d", was, now.GetPid())
	}
}

// A report says by when what it lists is repaired.
func TestDamageIsRepairedAsLongAfterItsReportAsThatSays(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	r := b.run(func(c *Config) { c.CheckEvery = time.Hour }) // no other check finds it
	m := b.image("gz-tools", "1.0.0", "", kind(agentv1.Kind_KIND_FILES))
	outcome(t, r.do(b.want(m)), good)
	b.settleDocument()
	r.offer()
	b.damage(m)
	r.eventually("it is bad", func() bool { return r.the(m.Agent).GetHealth() == instancev1.Health_HEALTH_BAD })
	r.checked <- struct{}{}
	r.wholeAgain(m)
}

func TestADirectoryWithFilesInPlaceOfTheLinkStopsAChangeBeforeItBegins(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	r := b.run()
	outcome(t, r.do(b.want(b.image("cn-agent", "1.0.0", "ready"))), good)
	pid, link := r.good("cn-agent", "1.0.0").GetPid(), b.root.Current("cn-agent")
	file := filepath.Join(link, "of a person")
	if err := errors.Join(os.Remove(link), os.Mkdir(link, 0o755), os.WriteFile(file, nil, 0o644)); err != nil {
		t.Fatal(err)
	}
	if f := r.the("cn-agent"); f.GetCode() != code.LinkBlocked || f.GetHealth() == instancev1.Health_HEALTH_GOOD {
		t.Errorf("found %v, want %s", f, code.LinkBlocked)
	}
	o := outcome(t, r.do(b.want(b.image("cn-agent", "2.0.0", "ready"))), taskv1.State_STATE_UNDONE)
	if o.GetCode() != code.LinkBlocked {
		t.Errorf("the upgrade ended with %v, want %s", o, code.LinkBlocked)
	}
	if !slices.Contains(b.pids(), int(pid)) {
		t.Errorf("process %d of before was ended", pid)
	}
	if err := errors.Join(os.RemoveAll(link), layout.SyncDir(filepath.Dir(link))); err != nil {
		t.Fatal(err)
	}
	outcome(t, r.do(b.want(b.image("cn-agent", "3.0.0", "ready"))), good)
}

func TestARepairThatCannotFetchTouchesNothingAndIsToldWithItsReason(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	r := b.run()
	m := b.image("cn-agent", "1.0.0", "ready")
	outcome(t, r.do(b.want(m)), good)
	was := r.good("cn-agent", "1.0.0").GetPid()
	if err := r.stop(); err != nil {
		t.Fatal(err)
	}
	b.damage(m)
	r = b.run(func(c *Config) { c.Fetcher = away{} })
	outcome(t, r.do(b.want(m)), undone)
	f := r.the("cn-agent")
	if f.GetHealth() != instancev1.Health_HEALTH_BAD ||
		!strings.Contains(f.GetReason(), "VERSION has another content") {
		t.Errorf("found %v, want it to be bad", f)
	}
	if pids := b.pids(); !slices.Equal(pids, []int{int(was)}) {
		t.Errorf("processes %v, want %d", pids, was)
	}
}

// gate is a fetcher whose bus is away until it is opened.
type gate struct {
	imagetest.Shelf
	open chan struct{}
	asks atomic.Int32
}

func (g *gate) Fetch(ctx context.Context, b *imagev1.Blob, progress func(uint64)) error {
	g.asks.Add(1)
	select {
	case <-g.open:
		return g.Shelf.Fetch(ctx, b, progress)
	case <-ctx.Done():
		return ctx.Err()
	}
}

func TestAnAgentIsNotStartedFromADamagedImageWhileAWholeCopyComes(t *testing.T) {
	t.Parallel()
	if bySystemd() {
		t.Skip("systemd starts it again by itself before anybody looks")
	}
	b := newBench(t)
	m := b.image("cn-agent", "1.0.0", "ready")
	g := &gate{Shelf: imagetest.Shelf{From: b.shelf, To: b.root}, open: make(chan struct{})}
	r := b.run()
	outcome(t, r.do(b.want(m)), good)
	if err := r.stop(); err != nil {
		t.Fatal(err)
	}
	r = b.run(func(c *Config) { c.Fetcher = g })
	b.settleDocument()
	r.offer()
	r.eventually("it was taken over", func() bool { return r.the("cn-agent").GetPid() != 0 })
	was := int(r.good("cn-agent", "1.0.0").GetPid())
	b.damage(m)
	if err := unix.Kill(was, unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	r.eventually("a whole copy is asked for", func() bool { return g.asks.Load() == 1 })
	if pids := b.pids(); len(pids) != 0 {
		t.Errorf("processes %v run from the damaged image", pids)
	}
	close(g.open)
	r.wholeAgain(m)
}

func TestAnAgentIsStartedFromADamagedImageWhenNoWholeCopyCanBeHad(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	m := b.image("cn-agent", "1.0.0", "ready")
	r := b.run()
	outcome(t, r.do(b.want(m)), good)
	if err := r.stop(); err != nil {
		t.Fatal(err)
	}
	b.killAgents()
	b.damage(m)
	b.settleDocument()
	r = b.run(func(c *Config) { c.Fetcher = away{} })
	r.offer()
	r.eventually("it runs, and is bad", func() bool {
		return len(b.pids()) == 1 && r.the("cn-agent").GetHealth() == instancev1.Health_HEALTH_BAD
	})
}

// A crash at any point of a repair leaves one whole image in the end, which runs.
func TestARepairThatIsInterruptedIsFinished(t *testing.T) {
	t.Parallel()
	for _, point := range []string{
		"begin stage", "end stage", "renewing", "renewed", "rendered", "begin switch", "old stopped", "linked",
		"begin prove", "begin commit",
	} {
		t.Run(point, func(t *testing.T) {
			b := newBench(t)
			r := b.run()
			m := b.image("cn-agent", "1.0.0", "ready")
			outcome(t, r.do(b.want(m)), good)
			if err := r.stop(); err != nil {
				t.Fatal(err)
			}
			b.damage(m)
			reached, end := make(chan struct{}), make(chan struct{})
			r = b.run(func(c *Config) {
				c.FailPoint = func(p string) {
					if p == point {
						close(reached)
						<-end
					}
				}
			})
			task := b.want(m)
			r.offer()
			<-reached
			stopped := make(chan error, 1)
			go func() { stopped <- r.stop() }()
			r.eventually("its loop has ended", func() bool {
				within, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
				defer cancel()
				return r.Turn(within) != nil
			})
			close(end)
			if err := <-stopped; err != nil {
				t.Fatal(err)
			}
			r = b.run()
			<-r.Ready()
			outcome(t, r.do(task), good)
			r.wholeAgain(m)
			if pids := b.pids(); !slices.Equal(pids, []int{int(r.the("cn-agent").GetPid())}) {
				t.Errorf("processes %v", pids)
			}
		})
	}
}
