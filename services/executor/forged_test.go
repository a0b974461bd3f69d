package executor_test

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	desiredv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/desired/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"

	"github.com/garrison-fleet/garrison/pkg/bustest"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/topology"
	"github.com/garrison-fleet/garrison/services/executor"
	"github.com/garrison-fleet/garrison/services/executor/internal/change"
	"github.com/garrison-fleet/garrison/services/executor/internal/identity"
	"github.com/garrison-fleet/garrison/services/executor/internal/journal"
	"github.com/garrison-fleet/garrison/services/executor/internal/status"
)

// forge stores a document for the server, as a thief of the task-dispatcher's key can.
func (h *host) forge(epoch, generation uint64) {
	h.t.Helper()
	data, err := proto.Marshal(&desiredv1.Document{
		ServerId: h.who.ServerID, Cell: h.who.Cell, Life: serverv1.Life_LIFE_ALIVE,
		Epoch: epoch, Generation: generation,
	})
	if err != nil {
		h.t.Fatal(err)
	}
	h.store(h.says, topology.DesiredSubject(h.who.Address()), data)
}

func (h *host) alive() { h.document(&desiredv1.Document{Life: serverv1.Life_LIFE_ALIVE}) }

// applies waits until the executor works by a document.
func (h *host) applies(generation uint64) {
	h.t.Helper()
	h.eventually("the document is taken", func() bool {
		s, err := status.Read(string(h.root))
		return err == nil && s.State == status.Running && s.Applied == generation
	})
}

func TestAnImpossibleDocumentIsNeitherFollowedNorRemembered(t *testing.T) {
	t.Parallel()
	h := newHost(t, bustest.StartGuarded(t), filepath.Join(t.TempDir(), "root"), identity.Manual)
	h.run(h.config())
	h.alive()
	h.applies(1)
	for _, forged := range [][2]uint64{{1, 1<<64 - 1}, {1<<64 - 1, 2}} {
		h.forge(forged[0], forged[1])
		if s := h.state(status.Suspended, "IMPOSSIBLE_DOCUMENT"); s.Applied != h.newest {
			t.Errorf("it remembers generation %d, want %d", s.Applied, h.newest)
		}
		h.alive() // as the dispatcher writes over it
		h.applies(h.newest)
	}
}

func TestAGenerationThatWasForgedIsForgottenByHand(t *testing.T) {
	t.Parallel()
	h := newHost(t, bustest.StartGuarded(t), filepath.Join(t.TempDir(), "root"), identity.Manual)
	_, stop := h.run(h.config())
	h.alive()
	h.applies(1)
	const forged = 1_000_000 // which a ledger may have reached
	h.forge(1, forged)
	h.applies(forged)
	h.alive()
	h.state(status.Suspended, "LEDGER_BEHIND")
	_, err := executor.ResetGeneration(string(h.root), time.Now())
	if fault.RefusalOf(err).GetCode() != "EXECUTOR_RUNS" {
		t.Errorf("beside an executor: %v", err)
	}
	stop()
	open := &change.Record{Agent: "web", TaskID: "t"}
	h.journal(func(tx *journal.Tx) error { return tx.PutChange(open) })
	_, err = executor.ResetGeneration(string(h.root), time.Now())
	if fault.RefusalOf(err).GetCode() != "CHANGE_OPEN" {
		t.Errorf("with an open change: %v", err)
	}
	h.journal(func(tx *journal.Tx) error { return tx.DropChange(open.Agent) })
	was, err := executor.ResetGeneration(string(h.root), time.Now())
	if err != nil || was.Generation != forged {
		t.Fatalf("it forgot generation %d, %v; want %d", was.Generation, err, forged)
	}
	h.journal(func(tx *journal.Tx) error {
		if note := tx.Note(journal.NoteReset); !strings.Contains(note, "generation 1000000 of epoch 1") {
			t.Errorf("the journal notes %q", note)
		}
		return nil
	})
	h.run(h.config())
	h.applies(h.newest)
}

// journal changes the journal of an executor that does not run.
func (h *host) journal(f func(*journal.Tx) error) {
	h.t.Helper()
	j, err := journal.OpenWhole(h.root.Journal())
	if err != nil {
		h.t.Fatal(err)
	}
	if err := j.Update(f); err != nil {
		h.t.Error(err)
	}
	if err := j.Close(); err != nil {
		h.t.Error(err)
	}
}

func TestAGenerationIsForgottenOnlyWhereThereIsAJournal(t *testing.T) {
	t.Parallel()
	if _, err := executor.ResetGeneration(t.TempDir(), time.Now()); !fault.Is(err, fault.NotFound) {
		t.Errorf("without a journal: %v", err)
	}
}
