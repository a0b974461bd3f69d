package inventory_test

import (
	"os"
	"path/filepath"
	"testing"

	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"
	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"

	"github.com/garrison-fleet/garrison/services/executor/internal/change"
	"github.com/garrison-fleet/garrison/services/executor/internal/inventory"
	"github.com/garrison-fleet/garrison/services/executor/internal/journal"
	"github.com/garrison-fleet/garrison/services/executor/internal/layout"
)

const server = "0197b5a0-0000-7000-8000-000000000001"

func manifest(version string) change.Manifest {
	return change.Manifest{Manifest: &imagev1.Manifest{
		Id: "image of " + version, Agent: "beacon", Version: version, Blob: &imagev1.Blob{Digest: []byte(version)},
	}}
}

// kept returns the records of an agent of version 1 and its change to version 2.
func kept(t *testing.T) (inventory.Keeper, *change.Instance, *change.Record) {
	t.Helper()
	root := layout.Root(t.TempDir())
	for _, dir := range []string{root.Home(), root.Agent("beacon")} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	k := inventory.Keeper{Root: root, Server: server, Journal: open(t, root.Journal())}
	i := &change.Instance{
		Agent:      "beacon",
		ID:         "i",
		Generation: 1,
		Image:      manifest("1.0.0"),
		Labels:     map[string]string{"env": "prod"},
	}
	c := &change.Record{
		ID:         "c",
		Agent:      "beacon",
		InstanceID: "i",
		Generation: 2,
		From:       i,
		To:         manifest("2.0.0"),
		Step:       taskv1.Step_STEP_SWITCH,
	}
	if err := k.Installed(i); err != nil {
		t.Fatal(err)
	}
	if err := k.Begins(c); err != nil {
		t.Fatal(err)
	}
	return k, i, c
}

func open(t *testing.T, path string) *journal.Journal {
	t.Helper()
	j, err := journal.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = j.Close() })
	return j
}

func TestAnEmptyJournalIsFilledWithWhatTheDiskSays(t *testing.T) {
	k, _, c := kept(t)
	gone := k.Root.Gone(layout.GoneName("x"))
	if err := os.CopyFS(gone, os.DirFS(k.Root.Agent("beacon"))); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]journal.Contents{
		"under way": {Instances: 1, Changes: 1},
		"committed": {Instances: 1},
	} {
		if name == "committed" {
			if err := k.Installed(&change.Instance{Agent: "beacon", ID: "i", Generation: 2, Image: c.To}); err != nil {
				t.Fatal(err)
			}
		} else if err := k.Installed(c.From); err != nil {
			t.Fatal(err)
		}
		j := open(t, filepath.Join(t.TempDir(), "journal.db"))
		disk := inventory.Look(k.Root, server)
		if err := disk.Rebuild(j); err != nil {
			t.Fatal(err)
		}
		if got, err := j.Examine(); err != nil || got != want {
			t.Errorf("%s: it holds %+v, want %+v, %v", name, got, want, err)
		}
		err := j.Read(func(tx *journal.Tx) error {
			trash, err := tx.Trash()
			if len(trash) != 1 || trash[0].Agent != "beacon" || trash[0].InstanceID != "i" {
				t.Errorf("%s: to be deleted: %+v", name, trash)
			}
			return err
		})
		if err != nil || disk.Server() != server {
			t.Errorf("%s: of server %q, %v", name, disk.Server(), err)
		}
	}
}

func TestWhatIsDamagedOrOfAnotherServerCountsForNothing(t *testing.T) {
	k, _, _ := kept(t)
	if d := inventory.Look(k.Root, "another"); len(d.Instances)+len(d.Changes) != 0 {
		t.Errorf("of another server: %+v", d)
	}
	for _, path := range []string{k.Root.Installed("beacon"), k.Root.Changing("beacon")} {
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		data[len(data)/2] ^= 1
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if d := inventory.Look(k.Root, ""); len(d.Instances)+len(d.Changes) != 0 {
		t.Errorf("of flipped records: %+v", d)
	}
}

func TestAJournalIsOlderThanARecordOfAnotherOneOrOfALaterCount(t *testing.T) {
	k, i, _ := kept(t)
	older := func(j *journal.Journal) (why string) {
		err := j.Read(
			func(tx *journal.Tx) (err error) { why, err = inventory.Look(k.Root, server).Older(tx); return err })
		if err != nil {
			t.Fatal(err)
		}
		return why
	}
	if older(k.Journal) == "" {
		t.Error("a journal that does not know what was installed is not older")
	}
	if err := k.Journal.Update(func(tx *journal.Tx) error { return tx.PutInstance(i) }); err != nil {
		t.Fatal(err)
	}
	if why := older(k.Journal); why != "" {
		t.Errorf("it is older: %s", why)
	}
	if older(open(t, filepath.Join(t.TempDir(), "journal.db"))) == "" {
		t.Error("another journal is not older")
	}
}
