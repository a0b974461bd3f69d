package engine

import (
	"context"
	"crypto/sha256"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/garrison-fleet/garrison/pkg/code"
	agentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/agent/v1"
	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"
	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"
	"github.com/garrison-fleet/garrison/services/executor/internal/steps"
	"github.com/garrison-fleet/garrison/services/executor/internal/supervise"
)

// tree describes everything below a directory but the executor's own files: name, mode,
// owner, content or target.
func (b *workbench) tree() []string {
	b.t.Helper()
	var out []string
	err := filepath.WalkDir(string(b.root), func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := b.root.Relative(path)
		if name == "executor" {
			return filepath.SkipDir
		}
		if name == supervise.OutputMarks("agents/cn-agent/run/output.log") && len(b.pids()) > 0 {
			return nil // written whenever the output of an agent that runs grew
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		line := fmt.Sprint(name, " ", info.Mode())
		switch {
		case info.Mode().IsRegular():
			data, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			line += fmt.Sprintf(" %x", sha256.Sum256(data))
		case info.Mode()&fs.ModeSymlink != 0:
			target, _ := os.Readlink(path)
			line += " " + target
		}
		out = append(out, line)
		return nil
	})
	if err != nil {
		b.t.Fatal(err)
	}
	return out
}

// An agent of another executor, and foreign files, are as they were; and of
// everything that was installed, upgraded, undone and removed nothing is left.
func TestTheWholeTreeIsAfterTheRemovalWhatItWasBeforeTheInstall(t *testing.T) {
	t.Parallel()
	beside := newBench(t)
	other := beside.run()
	other.do(beside.want(beside.image("cn-agent", "1.0.0", "ready")))
	pid, was := other.good("cn-agent", "1.0.0").GetPid(), beside.tree()

	b := newBench(t)
	b.root = beside.root + "-second"
	t.Cleanup(func() { b.endAgents(); _ = os.RemoveAll(string(b.root)) })
	r := b.run(keeping(1, 1<<30))
	r.eventually("it has begun", func() bool { return len(r.reports()) > 0 })
	foreign := filepath.Join(b.root.Agents(), "not-ours")
	if err := os.WriteFile(foreign, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	before := b.tree()
	files, setup := kind(agentv1.Kind_KIND_FILES), kind(agentv1.Kind_KIND_ONESHOT)
	agents := []struct {
		name, what string
		how        []func(*imagev1.Manifest)
	}{
		{
			"cn-agent",
			"ready",
			nil,
		}, {
			"net-agent", "ready", []func(*imagev1.Manifest){overlap},
		}, {"py-agent", "plain", []func(*imagev1.Manifest){checked}},
		{"gz-tools", "", []func(*imagev1.Manifest){files}}, {"log-setup", "setup", []func(*imagev1.Manifest){setup}},
	}
	for _, a := range agents {
		for _, version := range []string{"1.0.0", "2.0.0"} {
			outcome(t, r.do(b.want(b.image(a.name, version, a.what, a.how...))), taskv1.State_STATE_SUCCEEDED)
		}
	}
	outcome(t, r.do(b.want(b.image("cn-agent", "3.0.0", "crash"))), taskv1.State_STATE_UNDONE)
	for _, a := range agents {
		outcome(t, r.do(b.unwant(a.name, instanceOf(a.name))), taskv1.State_STATE_SUCCEEDED)
	}
	if diff := cmp.Diff(before, b.tree()); diff != "" {
		t.Errorf("the tree (-before +after):\n%s", diff)
	}
	if pids := b.pids(); len(pids) != 0 {
		t.Errorf("processes %v are left", pids)
	}
	if now := other.good("cn-agent", "1.0.0").GetPid(); now != pid {
		t.Errorf("the agent beside was process %d and is %d", pid, now)
	}
	if diff := cmp.Diff(was, beside.tree()); diff != "" {
		t.Errorf("the tree beside (-before +after):\n%s", diff)
	}
}

// Two changes that fit one by one but not together: what the first one reserved the second
// one cannot take.
func TestOfTwoChangesThatDoNotFitTogetherOneIsRefusedAndTheOtherSucceeds(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	one, two := b.image("a-agent", "1.0.0", "ready"), b.image("b-agent", "2.0.0", "ready")
	blob := one.GetBlob()
	need := steps.NeedBytes(blob)
	b.smallDisk(strconv.FormatUint(spareBytes+5<<20+need+need/3, 10)) // and the journal
	fetching := make(chan string, 2)
	goOn := make(chan struct{})
	r := b.run(func(c *Config) {
		inner := c.Fetcher
		c.Fetcher = fetcherFunc(func(ctx context.Context, i *imagev1.Blob, progress func(uint64)) error {
			fetching <- hexOf(i.GetDigest())
			select {
			case <-goOn:
			case <-ctx.Done():
			}
			return inner.Fetch(ctx, i, progress)
		})
	})
	first, second := b.want(one), b.want(two)
	r.offer()
	select {
	case name := <-fetching:
		if name == hexOf(two.GetBlob().GetDigest()) {
			first, second = second, first
		}
	case <-time.After(time.Minute):
		t.Fatal("neither begins")
	}
	o := outcome(t, r.wait(second), taskv1.State_STATE_UNDONE)
	close(goOn)
	if o.GetCode() != code.NoSpace || o.GetFailedStep() != taskv1.Step_STEP_RESERVE {
		t.Errorf("outcome %v, want %s in the reserve", o, code.NoSpace)
	}
	outcome(t, r.wait(first), taskv1.State_STATE_SUCCEEDED)
}

type fetcherFunc func(context.Context, *imagev1.Blob, func(uint64)) error

// Fetch implements Fetcher.
func (f fetcherFunc) Fetch(ctx context.Context, b *imagev1.Blob, progress func(uint64)) error {
	return f(ctx, b, progress)
}

func TestTwoAgentsOfTheSameContentAreInstalledTogether(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	var fetches []string
	r := b.run(func(c *Config) {
		inner := c.Fetcher
		c.Fetcher = fetcherFunc(func(ctx context.Context, i *imagev1.Blob, progress func(uint64)) error {
			fetches = append(fetches, hexOf(i.GetDigest())) // one at a time, so this needs no lock
			return inner.Fetch(ctx, i, progress)
		})
	})
	var tasks []string
	for _, agent := range []string{"a-agent", "b-agent", "c-agent", "d-agent"} {
		tasks = append(tasks, b.want(b.image(agent, "1.0.0", "ready")))
	}
	r.offer()
	for _, id := range tasks {
		outcome(t, r.wait(id), taskv1.State_STATE_SUCCEEDED)
	}
	if slices.Sort(fetches); len(fetches) != 1 || len(b.versions()) != 1 {
		t.Errorf("fetched %s, on the disk %v", strings.Join(fetches, ", "), b.versions())
	}
}
