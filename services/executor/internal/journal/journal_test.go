package journal_test

import (
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"
	reportv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/report/v1"
	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"

	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/services/executor/internal/change"
	"github.com/garrison-fleet/garrison/services/executor/internal/journal"
)

func open(t *testing.T, path string) *journal.Journal {
	t.Helper()
	j, err := journal.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = j.Close() })
	return j
}

func update(t *testing.T, j *journal.Journal, f func(*journal.Tx) error) {
	t.Helper()
	if err := j.Update(f); err != nil {
		t.Fatal(err)
	}
}

func agents(task string) *reportv1.Report {
	return &reportv1.Report{Body: &reportv1.Report_Agents{Agents: &reportv1.AgentsReport{TaskId: task}}}
}

func task(id string, s taskv1.State) *reportv1.Report {
	return &reportv1.Report{Body: &reportv1.Report_Task{Task: &reportv1.TaskReport{TaskId: id, State: s}}}
}

// waiting returns what waits, as short words.
func waiting(t *testing.T, j *journal.Journal) (out []string) {
	t.Helper()
	err := j.Read(func(tx *journal.Tx) error {
		all, err := tx.Waiting(journal.MaxOutbox + 1)
		for _, p := range all {
			r := &reportv1.Report{}
			if err := proto.Unmarshal(p.Data, r); err != nil {
				return err
			}
			out = append(out,
				fmt.Sprintf("%d %s %s%s", r.Sequence, p.Kind, r.GetTask().GetTaskId(), r.GetAgents().GetTaskId()))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestWhatWasWrittenIsThereAfterAnotherOpen(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal.db")
	j := open(t, path)
	image := change.Manifest{
		Manifest: &imagev1.Manifest{Id: "i", Version: "1.0.0", Blob: &imagev1.Blob{Digest: []byte{1, 2}}},
	}
	update(t, j, func(tx *journal.Tx) error {
		_ = tx.SetApplied(7)
		_ = tx.PutInstance(&change.Instance{Agent: "a", ID: "id", Image: image})
		_ = tx.End("t", journal.Ended{State: taskv1.State_STATE_UNDONE, At: time.Now()})
		return tx.PutChange(&change.Record{Agent: "b", To: image, Step: taskv1.Step_STEP_PROVE})
	})
	_ = j.Close()
	err := open(t, path).Read(func(tx *journal.Tx) error {
		i, _ := tx.Instance("a")
		changes, _ := tx.Changes()
		ended, _ := tx.Ended("t")
		if tx.Applied() != 7 || !proto.Equal(i.Image.Manifest, image.Manifest) || len(changes) != 1 ||
			changes[0].Step != taskv1.Step_STEP_PROVE ||
			ended.State != taskv1.State_STATE_UNDONE {
			t.Errorf("applied %d, instance %v, changes %v, ended %v", tx.Applied(), i, changes, ended)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

func TestAJournalInUseIsAConflict(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal.db")
	open(t, path)
	if _, err := journal.Open(path); !fault.Is(err, fault.Conflict) {
		t.Errorf("got %v", err)
	}
}

func TestAnUpdateThatFailsChangesNothing(t *testing.T) {
	j := open(t, filepath.Join(t.TempDir(), "journal.db"))
	_ = j.Update(func(tx *journal.Tx) error {
		_ = tx.Say(task("t", taskv1.State_STATE_RUNNING))
		return fmt.Errorf("no")
	})
	update(t, j, func(tx *journal.Tx) error { return tx.Say(agents("")) })
	if got := waiting(t, j); len(got) != 1 || got[0] != "1 agents " {
		t.Errorf("waiting: %v", got)
	}
}

func TestANewerListTakesThePlaceOfAnOlderOne(t *testing.T) {
	j := open(t, filepath.Join(t.TempDir(), "journal.db"))
	for _, r := range []*reportv1.Report{
		agents(""), task("t", taskv1.State_STATE_SUCCEEDED), agents("asked"), agents(""),
	} {
		update(t, j, func(tx *journal.Tx) error { return tx.Say(r) })
	}
	want := []string{"2 task t", "3 agents asked", "4 agents "}
	if got := waiting(t, j); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("waiting %v, want %v", got, want)
	}
}

func TestAFullOutboxGivesUpListsThenWordsOfRunningThenTheOldest(t *testing.T) {
	j := open(t, filepath.Join(t.TempDir(), "journal.db"))
	update(t, j, func(tx *journal.Tx) error {
		_ = tx.Say(task("end", taskv1.State_STATE_SUCCEEDED))
		_ = tx.Say(task("run", taskv1.State_STATE_RUNNING))
		_ = tx.Say(agents("asked"))
		for i := range journal.MaxOutbox - 3 {
			if err := tx.Say(task(fmt.Sprint(i), taskv1.State_STATE_FAILED)); err != nil {
				return err
			}
		}
		return nil
	})
	for _, first := range []string{"1 task end", "1 task end", "4 task 0"} {
		update(t, j, func(tx *journal.Tx) error { return tx.Say(task("more", taskv1.State_STATE_FAILED)) })
		if got := waiting(t, j); len(got) != journal.MaxOutbox || got[0] != first {
			t.Errorf("%d wait, the first is %q, want %q", len(got), got[0], first)
		}
	}
}

func TestEndedTasksAreBounded(t *testing.T) {
	j := open(t, filepath.Join(t.TempDir(), "journal.db"))
	update(t, j, func(tx *journal.Tx) error {
		for i := range journal.MaxEnded + 10 {
			if err := tx.End(fmt.Sprint(i), journal.Ended{State: taskv1.State_STATE_SUCCEEDED}); err != nil {
				return err
			}
		}
		return nil
	})
	err := j.Read(func(tx *journal.Tx) error {
		kept := 0
		for i := range journal.MaxEnded + 10 {
			if e, _ := tx.Ended(fmt.Sprint(i)); e != nil {
				kept++
			}
		}
		if kept != journal.MaxEnded {
			t.Errorf("%d are kept", kept)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}
