package engine

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	agentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/agent/v1"
	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/services/executor/internal/agent"
	"github.com/garrison-fleet/garrison/services/executor/internal/change"
	"github.com/garrison-fleet/garrison/services/executor/internal/journal"
	"github.com/garrison-fleet/garrison/services/executor/internal/layout"
	"github.com/garrison-fleet/garrison/services/executor/internal/observe"
	"github.com/garrison-fleet/garrison/services/executor/internal/supervise"
	"github.com/garrison-fleet/garrison/services/executor/simulation/crash/tally"
)

// stepOf returns the step of an executor that passed these points last.
func stepOf(passed []string) string {
	step := "start"
	for _, p := range passed {
		if s, ok := strings.CutPrefix(p, "begin "); ok {
			step = s
		}
		if p == "ended" {
			step = "ended"
		}
	}
	return step
}

// trueAtDeath checks that the journal has what a killed executor had done: the step that it began, or the end.
func (l *life) trueAtDeath(task, step string) error {
	if step == "start" {
		return nil
	}
	j, err := journal.Open(l.root.Journal())
	if err != nil {
		return err
	}
	defer func() { _ = j.Close() }()
	return j.Read(func(tx *journal.Tx) error {
		ended, err := tx.Ended(task)
		if err != nil || ended != nil {
			return err
		}
		changes, err := tx.Changes()
		if err != nil {
			return err
		}
		begun, isStep := taskv1.Step_value["STEP_"+strings.ToUpper(step)]
		if !isStep || len(changes) != 1 || place(changes[0].Step) < place(taskv1.Step(begun)) {
			return fmt.Errorf("it was in %q, which the journal does not know: %d open changes", step, len(changes))
		}
		return nil
	})
}

// place returns the position of a step in a change.
func place(s taskv1.Step) int {
	return tally.Place(strings.ToLower(strings.TrimPrefix(s.String(), "STEP_")))
}

// look returns the installed version by the journal, and all complaints.
func (l *life) look(s *session, o operation, task string) (version string, bad []string) {
	complain := func(format string, args ...any) { bad = append(bad, fmt.Sprintf(format, args...)) }
	var instances []*change.Instance
	var changes []*change.Record
	var ended *journal.Ended
	err := s.j.Read(func(tx *journal.Tx) (err error) {
		var errs [3]error
		instances, errs[0] = tx.Instances()
		changes, errs[1] = tx.Changes()
		ended, errs[2] = tx.Ended(task)
		return errors.Join(errs[:]...)
	})
	if err != nil {
		complain("journal: %v", err)
		return "", bad
	}
	if len(changes) != 0 {
		complain("%d changes are open", len(changes))
	}
	if len(instances) > 1 {
		complain("%d instances", len(instances))
	}
	if len(instances) == 1 {
		version = versionWith(instances[0])
	}
	o = l.sawCrashes(o, ended)
	bad = append(bad, l.endsOnce(s, o, task, ended)...)
	if ended != nil && version != o.after(l.have) {
		complain("the task ended as %s, but the inventory says %q", ended.State, version)
	}
	if ended == nil && version != l.have {
		complain("the task did not end, but the inventory says %q", version)
	}
	waiting := l.waiting(o, ended != nil)
	bad = append(bad, l.leftovers(waiting)...)
	bad = append(bad, l.listening(s, o, version)...)
	if version == "" {
		left := slices.DeleteFunc(l.left(), waiting)
		if pids := l.pids(); len(left)+len(pids) != 0 {
			complain("left: %v, processes %v", left, pids)
		}
		return version, bad
	}
	if o.name == repairing && ended == nil && s.rooms.images.Damaged(instances[0].Image.Digest()) {
		return version, bad // it waits for the document; what runs may still be the damaged one, or nothing
	}
	bad = append(bad, l.wholeOnDisk(s, instances[0], waiting)...)
	bad = append(bad, l.configuredOnDisk(instances[0])...)
	return version, append(bad, l.oneProcess(s, instances[0])...)
}

// sawCrashes returns an operation with the end that it has when it was interrupted too often.
func (l *life) sawCrashes(o operation, ended *journal.Ended) operation {
	if ended == nil || o.version == "" {
		return o
	}
	is, err := ended.ReadOutcome()
	if l.crashed = err == nil && is.Code == code.CrashedExecutor; l.crashed {
		o.ends = undone
	}
	return o
}

// endsOnce checks that the task's end is reported exactly when it ended, and with the expected state.
func (l *life) endsOnce(s *session, o operation, task string, ended *journal.Ended) (bad []string) {
	ends, want := 0, 0
	for _, rep := range s.reports() {
		if t := rep.GetTask(); t.GetTaskId() == task && t.GetState() != taskv1.State_STATE_RUNNING {
			ends++
			if t.GetState() != o.ends {
				bad = append(
					bad,
					fmt.Sprintf("reported as %s (%s: %s), want %s", t.GetState(), t.GetOutcome().GetCode(),
						t.GetOutcome().GetReason(), o.ends),
				)
			}
		}
	}
	if ended != nil {
		want = 1
	}
	if ends != want {
		bad = append(bad, fmt.Sprintf("the end is reported %d times, want %d", ends, want))
	}
	return bad
}

// waiting returns a filter for the leftovers that the next try needs: the chunks and the image of the new version,
// until the task has ended.
func (l *life) waiting(o operation, ended bool) func(name string) bool {
	digest := l.images[o.agent+o.version].GetBlob().GetDigest()
	own := []string{l.root.Relative(l.root.CacheOf(digest)), l.root.Relative(l.root.Image(digest))}
	return func(name string) bool {
		return o.version != "" && !ended &&
			slices.ContainsFunc(own, func(dir string) bool { return name == dir || strings.HasPrefix(name, dir+"/") })
	}
}

// leftovers lists unfinished files, sockets and caches, which must not exist.
func (l *life) leftovers(waiting func(name string) bool) (bad []string) {
	_ = filepath.WalkDir(string(l.root), func(path string, d fs.DirEntry, err error) error {
		name := l.root.Relative(path)
		if err != nil || strings.HasPrefix(filepath.Base(path), layout.TemporaryPrefix) ||
			strings.HasPrefix(name, "cache/") && !waiting(name) ||
			d.Type() == fs.ModeSocket ||
			strings.HasPrefix(filepath.Base(path), "notify-") {
			bad = append(bad, fmt.Sprintf("%s is left (%v)", name, err))
		}
		return nil
	})
	return bad
}

// wholeOnDisk checks that the link leads to the only image, and that it is complete.
func (l *life) wholeOnDisk(s *session, i *change.Instance, waiting func(name string) bool) (bad []string) {
	complain := func(format string, args ...any) { bad = append(bad, fmt.Sprintf(format, args...)) }
	digest := i.Image.Digest()
	if got, want := hexOf(observe.Linked(s.root, i.Agent)), hexOf(digest); got != want {
		complain("the link leads to %q, want %q", got, want)
	}
	if mark, err := s.rooms.images.Whole(digest); err != nil || mark.Version != i.Image.GetVersion() ||
		mark.Agent != i.Agent {
		complain("the image is %+v: %v", mark, err)
	}
	if got, err := os.ReadFile(filepath.Join(l.root.Image(digest), "VERSION")); string(got) != i.Image.GetVersion() {
		complain("VERSION holds %q: %v", got, err)
	}
	if got, err := os.ReadFile(filepath.Join(l.root.Image(digest), "bin/agent")); !bytes.Equal(got, agentBinary) {
		complain("the program has %d bytes, not its own %d: %v", len(got), len(agentBinary), err)
	}
	images, err := filepath.Glob(l.root.Path("images", "*"))
	want := append(l.keptOnDisk(s, i.Agent, complain), l.root.Image(digest))
	slices.Sort(want)
	images = slices.DeleteFunc(images,
		func(path string) bool { return !slices.Contains(want, path) && waiting(l.root.Relative(path)) })
	if !slices.Equal(images, want) {
		complain("images %v, want %v: %v", images, want, err)
	}
	return bad
}

// keptOnDisk returns the directories of the kept versions of the agent, which must be whole.
func (l *life) keptOnDisk(s *session, agent string, complain func(string, ...any)) (dirs []string) {
	err := s.j.Read(func(tx *journal.Tx) error {
		kept, err := tx.Kept()
		if len(kept) > 1 || len(kept[agent]) > crashKeep.Versions {
			complain("kept: %v", kept)
		}
		for _, k := range kept[agent] {
			if mark, err := s.rooms.images.Whole(k.Image.Digest()); err != nil || mark.Version != k.Image.GetVersion() {
				complain("the kept image is %+v: %v", mark, err)
			}
			dirs = append(dirs, l.root.Image(k.Image.Digest()))
		}
		return err
	})
	if err != nil {
		complain("journal: %v", err)
	}
	return dirs
}

// oneProcess looks whether exactly the process runs that the record says, from the image.
func (l *life) oneProcess(s *session, i *change.Instance) (bad []string) {
	complain := func(format string, args ...any) { bad = append(bad, fmt.Sprintf(format, args...)) }
	pids := l.pids()
	if i.Image.GetKind() != agentv1.Kind_KIND_DAEMON {
		if len(pids) != 0 {
			complain("processes %v of an agent that has none", pids)
		}
		return bad
	}
	if bySystemd() { // which has no record but its own
		u := s.rooms.processes.Known(i.Agent, i.Image.GetId())
		if u == nil || !slices.Equal(pids, []int{u.Status().Pid}) {
			complain("processes %v, not those of its unit", pids)
		}
		return bad
	}
	records, _ := filepath.Glob(filepath.Join(l.root.Run(i.Agent), "process-*"))
	if want := s.rooms.specs.RecordPath(agent.Installed(i)); !slices.Equal(records, []string{want}) {
		complain("records %v, want %s", records, want)
		return bad
	}
	var rec struct{ Pid int }
	data, err := os.ReadFile(records[0])
	if err == nil {
		err = json.Unmarshal(data, &rec)
	}
	if err != nil || !slices.Equal(pids, []int{rec.Pid}) {
		complain("processes %v, the record says %d: %v", pids, rec.Pid, err)
		return bad
	}
	exe, _ := os.Readlink(filepath.Join("/proc", strconv.Itoa(pids[0]), "exe"))
	if want := s.rooms.specs.Path(agent.Installed(i), "bin/agent"); exe != want {
		complain("the process runs %s, want %s", exe, want)
	}
	return bad
}

// everything describes what a restart must not change: files, processes and the journal.
func (l *life) everything(s *session) string {
	var out strings.Builder
	fmt.Fprintln(&out, "processes", l.pids())
	inode, _ := s.rooms.sockets.Inode("cn-agent", l.at)
	fmt.Fprintln(&out, "socket", inode)
	_ = filepath.WalkDir(string(l.root), func(path string, d fs.DirEntry, err error) error {
		name := l.root.Relative(path)
		if err != nil || name == "executor" {
			return filepath.SkipDir
		}
		if strings.HasSuffix(name, supervise.OutputMarks("/run/output.log")) {
			return nil // written whenever the output grew
		}
		info, err := d.Info()
		if err != nil {
			fmt.Fprintln(&out, name, err)
			return nil
		}
		target, _ := os.Readlink(path)
		fmt.Fprintln(&out, name, info.Mode(), target)
		if info.Mode().IsRegular() && filepath.Base(path) != "output.log" && filepath.Base(path) != "seen" {
			fmt.Fprintln(&out, "  size", info.Size())
		}
		return nil
	})
	err := s.j.Read(func(tx *journal.Tx) error {
		instances, err := tx.Instances()
		data, _ := json.Marshal(instances)
		fmt.Fprintf(&out, "instances %s, applied %d\n", data, tx.Applied())
		return err
	})
	for _, rep := range s.reports() {
		if rep.GetTask() != nil || rep.GetReceipt() != nil {
			fmt.Fprintf(&out, "report %d %T\n", rep.GetSequence(), rep.GetBody())
		}
	}
	if err != nil {
		fmt.Fprintln(&out, err)
	}
	return out.String()
}

func TestEveryStepHasAPlaceInTheTally(t *testing.T) {
	t.Parallel()
	for state, step := range change.Steps {
		if place(step) < 0 {
			t.Errorf("state %s: step %s has no place", state, step)
		}
	}
}
