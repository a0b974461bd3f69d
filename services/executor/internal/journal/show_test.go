package journal_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	reportv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/report/v1"
	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"

	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/services/executor/internal/change"
	"github.com/garrison-fleet/garrison/services/executor/internal/journal"
)

func TestAJournalIsShownRecordByRecord(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal.db")
	if err := journal.Show(path, nil); !fault.Is(err, fault.NotFound) {
		t.Errorf("without a journal: %v", err)
	}
	j, err := journal.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	err = j.Update(func(tx *journal.Tx) error {
		for _, err := range []error{
			tx.SetNote(journal.NoteServer, "a"), tx.SetApplied(7),
			tx.PutInstance(&change.Instance{Agent: "app", ID: "i"}),
			tx.End("t", journal.Ended{State: taskv1.State_STATE_SUCCEEDED}),
			tx.Say(
				&reportv1.Report{
					ServerId: "a", Body: &reportv1.Report_Receipt{Receipt: &reportv1.ReceiptReport{Agent: "app"}},
				},
			),
		} {
			if err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := journal.Show(path, nil); !fault.Is(err, fault.Conflict) {
		t.Errorf("beside an executor: %v", err)
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	before, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	shown := map[string]bool{}
	err = journal.Show(path, func(l journal.Line) error {
		var v any
		if err := json.Unmarshal(l.Value, &v); err != nil {
			return err
		}
		shown[strings.ReplaceAll(fmt.Sprintf("%s %s %v", l.Record, l.Key, v), "  ", " ")] = true
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"meta note.server a", "meta applied 7"} {
		if !shown[want] {
			t.Errorf("without %q: %v", want, shown)
		}
	}
	for _, want := range []string{"instances app", "ended t map[", "outbox 1 map[", "receipt:map[agent:app]"} {
		if !strings.Contains(fmt.Sprint(shown), want) {
			t.Errorf("without %q: %v", want, shown)
		}
	}
	if after, err := os.ReadFile(path); err != nil || string(after) != string(before) {
		t.Errorf("the journal changed, %v", err)
	}
}

func TestARecordIsMaskedInItsSecretsAndItsTexts(t *testing.T) {
	value, err := json.Marshal(&change.Record{
		Agent: "app", Generation: 1 << 60, Metadata: map[string]string{"secrets": "mine", "size": "7"},
		Secrets: map[string]string{"password": "hunter2", "pin": "7"},
		From:    &change.Instance{Secrets: map[string]string{"password": "hunter1"}},
		Failure: &change.Failure{Reason: "no login", LogTail: "hunter2, and before that hunter1"},
	})
	if err != nil {
		t.Fatal(err)
	}
	l, err := journal.Line{Record: "changes", Key: "app", Value: value}.Masked()
	if err != nil {
		t.Fatal(err)
	}
	text := string(l.Value)
	for _, want := range []string{
		`"secrets":{"password":"<secret password>","pin":"<secret pin>"}`, `"secrets":{"password":"<secret password>"}`,
		`"log_tail":"<secret password>, and before that <secret password>"`, `"generation":1152921504606846976`,
		`"metadata":{"secrets":"mine","size":"7"}`,
	} {
		if !strings.Contains(text, want) {
			t.Errorf("without %s:\n%s", want, text)
		}
	}
	if strings.Contains(text, "hunter") {
		t.Errorf("a secret in clear:\n%s", text)
	}
	plain := journal.Line{Record: "meta", Key: "applied", Value: []byte("7")}
	if l, err := plain.Masked(); err != nil || string(l.Value) != "7" {
		t.Errorf("a record without secrets became %s, %v", l.Value, err)
	}
}
