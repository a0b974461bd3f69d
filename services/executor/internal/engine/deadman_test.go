package engine

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"

	"github.com/garrison-fleet/garrison/services/executor/internal/journal"
)

// cuttable is a Fetcher whose bus can be cut off.
type cuttable struct {
	Fetcher
	cut *atomic.Bool
}

func (c cuttable) Fetch(ctx context.Context, b *imagev1.Blob, progress func(uint64)) error {
	if c.cut.Load() {
		<-ctx.Done() // a Fetcher waits out a bus that is away
		return ctx.Err()
	}
	return c.Fetcher.Fetch(ctx, b, progress)
}

// phase is when a fault comes: at a point, or in the soak.
type phase struct{ name, point string }

var phases = []phase{{"before switch", "begin stage"}, {"after switch", "new started"}, {"in soak", ""}}

// deadMan is one upgrade from 1.0.0 to 2.0.0 by an executor in a process of its own.
type deadMan struct {
	*workbench
	child
	phase    phase
	what     string // what 2.0.0 does
	how      []func(*imagev1.Manifest)
	deadline time.Duration
}

// A fault is what is done to an upgrade, and which version must run afterwards, without
// any document, by phase. The clock of a process cannot be set for itself (time
// namespaces leave CLOCK_REALTIME out), so it jumps while no executor runs: every time in
// the journal is moved. Before the switch it is the task's deadline that the clock passed,
// or is far from.
var faults = []struct {
	name string
	runs [3]string
	do   func(*deadMan)
}{
	{"crash", [3]string{"1.0.0", "2.0.0", "2.0.0"}, func(d *deadMan) { d.untilKilled() }},
	{"hang", [3]string{"1.0.0", "1.0.0", "1.0.0"}, (*deadMan).hang},
	{"network cut", [3]string{"1.0.0", "2.0.0", "2.0.0"}, (*deadMan).cut},
	{"reboot", [3]string{"1.0.0", "2.0.0", "2.0.0"}, (*deadMan).reboot},
	{"clock forward", [3]string{"2.0.0", "2.0.0", "2.0.0"}, func(d *deadMan) { d.jump(100 * 24 * time.Hour) }},
	{"clock back", [3]string{"2.0.0", "2.0.0", "2.0.0"}, func(d *deadMan) { d.jump(-100 * 24 * time.Hour) }},
	{"full disk", [3]string{"1.0.0", "2.0.0", "2.0.0"}, (*deadMan).full},
}

func TestWhicheverFaultComesWheneverOneProvenVersionRuns(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	got := map[string]string{}
	t.Run("cells", func(t *testing.T) {
		for _, f := range faults {
			for n, p := range phases {
				t.Run(f.name+" "+p.name, func(t *testing.T) {
					t.Parallel()
					d := &deadMan{workbench: newBench(t), phase: p, what: "ready"}
					if f.name == "full disk" {
						d.smallDisk("64m")
					}
					version := d.upgrade(f.do)
					mu.Lock()
					got[f.name+p.name] = version
					mu.Unlock()
					if version != f.runs[n] {
						t.Errorf("%s runs, want %s", version, f.runs[n])
					}
				})
			}
		}
	})
	if !testing.Verbose() {
		return
	}
	fmt.Printf("\n%-14s %-14s %-14s %-14s\n", "", phases[0].name, phases[1].name, phases[2].name)
	for _, f := range faults {
		fmt.Printf("%-14s", f.name)
		for _, p := range phases {
			fmt.Printf(" %-14s", got[f.name+p.name])
		}
		fmt.Println()
	}
}

// upgrade installs 1.0.0, upgrades with a fault, starts an executor again without a
// document, and returns the one version that runs then.
func (d *deadMan) upgrade(fault func(*deadMan)) (version string) {
	d.t.Helper()
	r := d.run()
	r.do(d.want(d.image("cn-agent", "1.0.0", "ready")))
	r.good("cn-agent", "1.0.0")
	if err := r.stop(); err != nil {
		d.t.Fatal(err)
	}
	d.child = child{Root: d.root, Shelf: d.shelf, Trace: filepath.Join(d.t.TempDir(), "trace")}
	fault(d)
	r = d.run()
	var pid uint32
	d.eventually("one version runs, and no change is open", func() bool {
		f := r.the("cn-agent")
		version, pid = f.GetImage().GetVersion(), f.GetPid()
		open := 0
		_ = r.j.Read(func(tx *journal.Tx) error {
			changes, err := tx.Changes()
			open = len(changes)
			return err
		})
		// systemd names a process before that has become the program
		return pid != 0 && open == 0 && d.executes(int(pid))
	})
	r.good("cn-agent", version)
	if pids := d.pids(); len(pids) != 1 || pids[0] != int(pid) {
		d.t.Errorf("processes %v, want %d only", pids, pid)
	}
	if got := r.versionOf(int(pid)); got != version {
		d.t.Errorf("process %d is of version %s, the link says %s", pid, got, version)
	}
	return version
}

// begin starts the executor that upgrades, and returns a way to let it end.
func (d *deadMan) begin() (process *os.Process, end func()) {
	d.t.Helper()
	d.want(
		d.image("cn-agent", "2.0.0", d.what, append(d.how, func(m *imagev1.Manifest) { m.Run.Ready.SoakMs = 600 })...))
	if d.deadline != 0 {
		d.doc.Entries[0].Deadline = timestamppb.New(time.Now().Add(d.deadline))
	}
	d.Document = d.write()
	cmd := d.start(d.t)
	ended := make(chan struct{})
	go func() { defer close(ended); _ = cmd.Wait() }()
	d.t.Cleanup(func() { _ = cmd.Process.Signal(syscall.SIGCONT); _ = cmd.Process.Kill(); <-ended })
	return cmd.Process, func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		select {
		case <-ended:
		case <-time.After(time.Minute):
			d.t.Error("the executor does not end")
		}
	}
}

// passes waits until the executor passed a point.
func (d *deadMan) passes(point string) {
	d.t.Helper()
	d.eventually("it passes "+point, func() bool {
		data, _ := os.ReadFile(d.Trace)
		return strings.Contains("\n"+string(data), "\n"+point+"\n")
	})
}

// soaks waits until the new version is being watched: it says at once that it is ready.
func (d *deadMan) soaks() {
	d.passes("begin prove")
	time.Sleep(150 * time.Millisecond)
}

// untilKilled upgrades until the phase, at which the executor is killed.
func (d *deadMan) untilKilled() {
	d.KillAt = d.phase.point
	p, end := d.begin()
	if d.phase.point == "" {
		d.soaks()
		_ = p.Kill()
	} else {
		d.passes(d.phase.point)
	}
	end()
}

// hang stops the executor for a while, and the new version never gets ready or does not stay so.
func (d *deadMan) hang() {
	if d.phase.point != "" {
		d.what, d.how, d.StopAt = "mute", []func(*imagev1.Manifest){briefly}, d.phase.point
	} else {
		d.what, d.how, d.StopAt = "plain", []func(*imagev1.Manifest){checked}, "begin prove"
	}
	p, end := d.begin()
	d.passes(d.StopAt)
	d.eventually("it is stopped", func() bool {
		stat, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.Pid))
		return strings.Contains(string(stat), ") T ")
	})
	if d.phase.point == "" {
		_ = p.Signal(syscall.SIGCONT)
		time.Sleep(150 * time.Millisecond)
		_ = p.Signal(syscall.SIGSTOP)
		d.sicken("cn-agent")
	}
	time.Sleep(300 * time.Millisecond)
	_ = p.Signal(syscall.SIGCONT)
	d.passes("ended")
	end()
}

// cut takes the bus away; before the switch while chunks are still to come.
func (d *deadMan) cut() {
	d.CutAt = d.phase.point
	if d.phase.name == "before switch" {
		d.CutAt, d.deadline = "begin fetch", 15*time.Second // so that it has begun, however slow the machine is
	}
	if d.phase.point == "" {
		d.CutAt = "begin prove"
	}
	_, end := d.begin()
	d.passes("ended")
	end()
}

// reboot ends everything, and leaves records of another boot whose process ids are others' now.
func (d *deadMan) reboot() {
	d.untilKilled()
	if bySystemd() { // after a reboot it knows of none
		if err := newSystemd(d.root, testPolicy).Clear(); err != nil {
			d.t.Error(err)
		}
		return
	}
	d.eventually("nothing runs", func() bool {
		for _, pid := range d.pids() {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
		return len(d.pids()) == 0
	})
	records, _ := filepath.Glob(filepath.Join(d.root.Run("cn-agent"), "process-*.json"))
	if len(records) == 0 {
		d.t.Error("no process was written down")
	}
	for _, path := range records {
		record := map[string]any{}
		data, err := os.ReadFile(path)
		if err == nil {
			err = json.Unmarshal(data, &record)
		}
		record["boot"], record["pid"] = "another", os.Getppid()
		if data, _ = json.Marshal(record); err != nil || os.WriteFile(path, data, 0o600) != nil {
			d.t.Fatal(err)
		}
	}
}

// jump sets the clock, as said above.
func (d *deadMan) jump(by time.Duration) {
	if d.phase.name == "before switch" {
		d.deadline = -by
		_, end := d.begin()
		d.passes("ended")
		end()
		return
	}
	d.untilKilled()
	j, err := journal.Open(d.root.Journal())
	if err != nil {
		d.t.Fatal(err)
	}
	defer func() { _ = j.Close() }()
	err = j.Update(func(tx *journal.Tx) error {
		changes, err := tx.Changes()
		if err != nil || len(changes) != 1 {
			return fmt.Errorf("%d changes: %w", len(changes), err)
		}
		c := changes[0]
		c.BeganAt, c.Deadline = c.BeganAt.Add(-by), time.Now().Add(time.Minute-by)
		return tx.PutChange(c)
	})
	if err != nil {
		d.t.Fatal(err)
	}
}

// full takes all the room on the disk; before the switch before any was reserved.
func (d *deadMan) full() {
	d.HogAt = d.phase.point
	switch d.phase.name {
	case "before switch":
		d.HogAt = "begin check"
	case "in soak":
		d.HogAt = "begin prove"
	}
	_, end := d.begin()
	d.passes("ended")
	end()
}
