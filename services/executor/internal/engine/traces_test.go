package engine

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"
	instancev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/instance/v1"
	reportv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/report/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"
	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"

	"github.com/garrison-fleet/garrison/pkg/ident"
	"github.com/garrison-fleet/garrison/services/executor/internal/imagedir"
	"github.com/garrison-fleet/garrison/services/executor/internal/layout"
	"github.com/garrison-fleet/garrison/services/executor/internal/observe"
)

// unexplained returns what is there and the inventory does not explain.
func (r *running) unexplained() (out []*reportv1.Found) {
	r.t.Helper()
	found, err := r.rooms.observe.Found()
	if err != nil {
		r.t.Fatal(err)
	}
	for _, f := range found.GetAgents() {
		if f.Trace != serverv1.Trace_TRACE_UNSPECIFIED {
			out = append(out, f)
		}
	}
	return out
}

// lastList returns what was last reported to be there.
func (r *running) lastList() (last *reportv1.AgentsReport) {
	r.t.Helper()
	for _, rep := range r.reports() {
		if list := rep.GetAgents(); list != nil {
			last = list
		}
	}
	return last
}

// linkByHand puts a link below agents/, by hand.
func (b *workbench) linkByHand(agent, target string) {
	b.t.Helper()
	dir := b.root.Agent(agent)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		b.t.Fatal(err)
	}
	if err := os.Symlink(target, filepath.Join(dir, "current")); err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() { _ = os.RemoveAll(dir) })
}

func TestALinkIsToldByWhereItLeads(t *testing.T) {
	t.Parallel()
	b, other := newBench(t), newBench(t)
	r, o := b.run(keeping(1, 1<<30)), other.run()
	one := b.image("cn-agent", "1.0.0", "ready")
	r.do(b.want(one))
	o.do(other.want(other.image("cn-agent", "3.0.0", "ready")))
	theirs := other.root.Image(o.the("cn-agent").GetImage().GetDigest())
	unsealed := filepath.Join(t.TempDir(), "images", filepath.Base(theirs))
	for agent, target := range map[string]string{
		"a-ours": b.root.ImageLink(one.GetBlob().GetDigest()), "b-theirs": theirs, "c-not-sealed": unsealed,
		"d-elsewhere": "/usr", "E_no_name": "/usr", "f-odd-\xff": "/usr",
		"g-gone": b.root.ImageLink(make([]byte, layout.DigestBytes)),
	} {
		b.linkByHand(agent, target)
	}
	var have []string
	for _, f := range r.unexplained() {
		have = append(have, strings.Join([]string{f.Agent, f.Path, f.GetImage().GetVersion(), f.OtherRoot}, "|"))
		if f.Trace != serverv1.Trace_TRACE_LINK || f.Health != instancev1.Health_HEALTH_BAD || f.InstanceId != "" {
			t.Errorf("found %v", f)
		}
	}
	want := []string{
		"|agents/E_no_name/current||", "|agents/f-odd-?/current||",
		"a-ours|agents/a-ours/current|1.0.0|", "b-theirs|agents/b-theirs/current|3.0.0|" + string(other.root),
		"c-not-sealed|agents/c-not-sealed/current||", "d-elsewhere|agents/d-elsewhere/current||",
		"g-gone|agents/g-gone/current||",
	}
	if diff := cmp.Diff(want, have); diff != "" {
		t.Error(diff)
	}
	r.good("cn-agent", "1.0.0")
	r.eventually("it is reported although a name is odd", func() bool {
		for _, rep := range r.reports() {
			if len(rep.GetAgents().GetAgents()) == len(want)+1 {
				return true
			}
		}
		return false
	})
}

func TestProcessesOfAnImageAreOneTraceAndSayWhoStartedThem(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	r := b.run(keeping(2, 1<<30))
	one, two := b.image("cn-agent", "1.0.0", "ready"), b.image("cn-agent", "2.0.0", "ready")
	r.do(b.want(one))
	r.do(b.want(two))
	first := b.startByHand(one)
	for range 3 {
		b.startByHand(one, "GARRISON_SERVER=unknown") // not certainly another's
	}
	elsewhere := ident.New()
	b.startByHand(one, "GARRISON_SERVER="+elsewhere)
	b.startByHand(one, "GARRISON_SERVER="+serverID)
	b.startByHand(two) // from the image that is current: the agent's own for all we know
	r.eventually("they are reported", func() bool { return len(r.unexplained()) == 2 })
	path := "images/" + hexOf(one.GetBlob().GetDigest())
	for n, want := range []string{"", elsewhere} {
		f := r.unexplained()[n]
		if f.Agent != "cn-agent" || f.Trace != serverv1.Trace_TRACE_PROCESS || f.Path != path ||
			f.GetImage().GetVersion() != "1.0.0" ||
			f.OtherServerId != want {
			t.Errorf("found %v, of server %q", f, want)
		}
		if n == 0 && int(f.Pid) != first {
			t.Errorf("found process %d, want the first one, %d", f.Pid, first)
		}
	}
	if f := r.the("cn-agent"); f.GetImage().GetVersion() != "2.0.0" ||
		f.GetReason() != "version 1.0.0 is also running and is not managed by this executor" {
		t.Errorf("the agent itself is %v", f)
	}
}

func TestAProcessWhoseImageWasDeletedIsStillFound(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	r := b.run()
	m := b.image("cn-agent", "1.0.0", "ready")
	r.do(b.want(m))
	pid := b.startByHand(m, "GARRISON_AGENT=cn-agent", "GARRISON_VERSION=1.0.0")
	nameless := b.startByHand(m)
	outcome(t, r.do(b.unwant("cn-agent", instanceOf("cn-agent"))), taskv1.State_STATE_SUCCEEDED)
	if _, err := os.Stat(b.root.Image(m.GetBlob().GetDigest())); !os.IsNotExist(err) {
		t.Fatalf("the image: %v", err)
	}
	r.eventually("it is found", func() bool { return len(r.unexplained()) == 1 })
	f := r.unexplained()[0]
	if f.Trace != serverv1.Trace_TRACE_PROCESS || int(f.Pid) != min(pid, nameless) ||
		f.Path != "images/"+hexOf(m.GetBlob().GetDigest()) {
		t.Errorf("found %v, want process %d", f, min(pid, nameless))
	}
}

// A container may have the same path for another file.
func TestAProcessWithTheSamePathForAnotherFileIsNotOurs(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	r := b.run(keeping(1, 1<<30))
	one := b.image("cn-agent", "1.0.0", "ready")
	r.do(b.want(one))
	r.do(b.want(b.image("cn-agent", "2.0.0", "ready")))
	image := b.root.Image(one.GetBlob().GetDigest())
	copied := t.TempDir()
	if out, err := exec.Command("cp", "-r", image+"/.", copied).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	cmd := exec.Command("unshare", "-m", "sh", "-c", `mount --bind "$1" "$2" && exec "$2/bin/agent" plain`, "sh",
		copied, image)
	if err := cmd.Start(); err != nil {
		t.Skipf("no namespaces here: %v", err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	exe := fmt.Sprintf("/proc/%d/exe", cmd.Process.Pid)
	for path := ""; path != filepath.Join(image, "bin/agent"); path, _ = os.Readlink(exe) {
		select {
		case err := <-ended:
			t.Skipf("no namespaces here: %v", err)
		case <-time.After(5 * time.Millisecond):
		}
	}
	if f := r.unexplained(); len(f) != 0 {
		t.Errorf("found %v", f)
	}
	b.startByHand(one)
	if f := r.unexplained(); len(f) != 1 {
		t.Errorf("found %v, want the one that is ours", f)
	}
}

func TestMoreThanFitIsCounted(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	r := b.run()
	for n := range observe.MaxTraces + 5 {
		b.linkByHand(fmt.Sprintf("agent-%03d", n), "/usr")
	}
	found, err := r.rooms.observe.Found()
	if err != nil || len(found.GetAgents()) != observe.MaxTraces || found.GetMore() != 5 {
		t.Errorf("%d and %d more, %v", len(found.GetAgents()), found.GetMore(), err)
	}
}

// What is looked at while agents come, change and go is explained at every moment.
func TestAChangeIsNeverTakenForSomethingFound(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	r := b.run(keeping(1, 1<<30))
	r.do(b.want(b.image("a-agent", "3.0.0", "ready")))
	stop := make(chan struct{})
	var looks sync.WaitGroup
	for range 8 {
		looks.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				found, err := r.rooms.observe.FoundWith(func(digest []byte) (imagedir.Mark, error) {
					time.Sleep(100 * time.Millisecond) // a look at many files takes its time
					return r.rooms.images.Mark(digest)
				})
				if err != nil {
					t.Error(err)
					return
				}
				for _, f := range found.GetAgents() {
					if f.Trace != serverv1.Trace_TRACE_UNSPECIFIED {
						t.Errorf("found %v", f)
					}
				}
			}
		})
	}
	for n := range 6 {
		r.do(b.want(b.image("cn-agent", "1.0.0", "ready")))
		r.do(b.want(b.image("cn-agent", "2.0.0", "ready", overlap)))
		if n%2 == 0 {
			outcome(t, r.do(b.unwant("cn-agent", instanceOf("cn-agent"))), taskv1.State_STATE_SUCCEEDED)
		}
	}
	close(stop)
	looks.Wait()
}

func TestWhatIsNewIsReportedWithTheNextCheck(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	r := b.run()
	<-r.Ready()
	reported := func(want int) {
		t.Helper()
		r.eventually(fmt.Sprintf("%d are reported, and in the status", want), func() bool {
			s, err := r.Status()
			if err != nil {
				t.Fatal(err)
			}
			return len(r.lastList().GetAgents()) == want && len(s.Agents) == want
		})
	}
	b.linkByHand("old-agent", "/usr")
	reported(1)
	before := r.said()
	if err := os.Remove(b.root.Current("old-agent")); err != nil {
		t.Fatal(err)
	}
	reported(0)
	if n := r.said() - before; n != 1 {
		t.Errorf("%d reports of one change", n)
	}
}

// An agent that was linked by hand is installed like any other: the link becomes ours.
func TestWhatWasFoundCanBeInstalled(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	r := b.run()
	m := b.image("cn-agent", "1.0.0", "ready")
	b.linkByHand("cn-agent", "/usr")
	if n := len(r.unexplained()); n != 1 {
		t.Fatalf("%d are found", n)
	}
	outcome(t, r.do(b.want(m)), taskv1.State_STATE_SUCCEEDED)
	r.good("cn-agent", "1.0.0")
	if n := len(r.unexplained()); n != 0 {
		t.Errorf("%d are found", n)
	}
	if target, _ := os.Readlink(b.root.Current("cn-agent")); target != b.root.ImageLink(m.GetBlob().GetDigest()) {
		t.Errorf("the link leads to %s", target)
	}
}

func TestAnInventoryThatIsLostIsToldAndNotTouched(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	r := b.run()
	r.do(b.want(b.image("cn-agent", "1.0.0", "ready")))
	r.do(b.want(b.image("b-agent", "1.1.0", "script", func(m *imagev1.Manifest) {
		m.Run.Command, m.Run.Args, m.Run.Ready = "bin/script", nil, &imagev1.Ready{SoakMs: 50}
	})))
	pids := map[string]uint32{
		"cn-agent": r.good("cn-agent", "1.0.0").GetPid(),
		"b-agent":  r.good("b-agent", "1.1.0").GetPid(),
	}
	if err := r.stop(); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(b.root.Journal()); err != nil {
		t.Fatal(err)
	}
	r = b.run()
	<-r.Ready()
	kind := serverv1.Trace_TRACE_PROCESS
	if bySystemd() {
		kind = serverv1.Trace_TRACE_UNIT
	}
	var have, want []string
	for _, agent := range []string{"b-agent", "cn-agent"} {
		want = append(want, agent+" TRACE_LINK", agent+" "+kind.String())
	}
	for _, f := range r.unexplained() {
		have = append(have, f.Agent+" "+f.Trace.String())
		if f.Trace == serverv1.Trace_TRACE_PROCESS && f.Pid != pids[f.Agent] {
			t.Errorf("found %v, want process %d", f, pids[f.Agent])
		}
	}
	if diff := cmp.Diff(want, have); diff != "" {
		t.Error(diff)
	}
	for agent, pid := range pids {
		if err := syscall.Kill(int(pid), 0); err != nil {
			t.Errorf("%s: %v", agent, err)
		}
		p, _ := os.FindProcess(int(pid))
		t.Cleanup(func() { _ = p.Kill() })
	}
	if _, err := os.Readlink(b.root.Current("cn-agent")); err != nil {
		t.Error(err)
	}
}

// An instance that the registry lost is managed again when the agent is installed anew: the
// new one takes the old one's place, and can be removed.
func TestAnInstanceThatIsNotKnownAnyMoreIsTakenOver(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	r := b.run()
	m := b.image("cn-agent", "1.0.0", "ready")
	r.do(b.want(m))
	b.doc.Generation++
	b.doc.Entries = nil // a document that does not know it
	r.offer()
	before := r.good("cn-agent", "1.0.0")
	task := b.want(m)
	b.doc.Entries[0].InstanceId = ident.New()
	outcome(t, r.do(task), taskv1.State_STATE_SUCCEEDED)
	after := r.good("cn-agent", "1.0.0")
	if after.InstanceId != b.doc.Entries[0].InstanceId || after.InstanceId == before.InstanceId {
		t.Errorf("found %v after %v", after, before)
	}
	outcome(t, r.do(b.unwant("cn-agent", after.InstanceId)), taskv1.State_STATE_SUCCEEDED)
	if left := b.left(); len(left) != 0 {
		t.Errorf("left: %v", left)
	}
}
