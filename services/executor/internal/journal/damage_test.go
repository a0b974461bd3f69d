package journal_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/garrison-fleet/garrison/services/executor/internal/change"
	"github.com/garrison-fleet/garrison/services/executor/internal/journal"
)

// worked returns the path of a journal with an agent in it, and its bytes before that.
func worked(t *testing.T) (path string, early []byte) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "journal.db")
	j := open(t, path)
	_ = j.Close()
	early, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	j = open(t, path)
	update(t, j, func(tx *journal.Tx) error {
		for _, agent := range []string{"a", "b", "c"} {
			if err := tx.PutInstance(&change.Instance{Agent: agent, ID: strings.Repeat("i", 600)}); err != nil {
				return err
			}
		}
		return tx.Say(agents(""))
	})
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	return path, early
}

func TestADamagedJournalIsSetAsideAndAnEmptyOneTakesItsPlace(t *testing.T) {
	for how, spoil := range map[string]func(data, early []byte) []byte{
		"cut":            func(data, _ []byte) []byte { return data[:len(data)/3] },
		"cut to a byte":  func(data, _ []byte) []byte { return data[:1] },
		"garbage":        func([]byte, []byte) []byte { return bytes.Repeat([]byte{7}, 40000) },
		"pages of zeros": func(data, _ []byte) []byte { clear(data[2*os.Getpagesize():]); return data },
		"both heads": func(data, _ []byte) []byte {
			data[30] ^= 1
			data[os.Getpagesize()+30] ^= 1
			return data
		},
		"a value of a record": func(data, _ []byte) []byte {
			return bytes.ReplaceAll(data, []byte("iiii"), []byte("iixi"))
		},
		"set back": func(_, early []byte) []byte { return early },
		"a record of an agent": func(data, _ []byte) []byte {
			return bytes.ReplaceAll(data, []byte(`"agent":"b"`), []byte(`"agent":"x"`))
		},
	} {
		t.Run(how, func(t *testing.T) {
			path, early := worked(t)
			data, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			was := idOf(t, data, filepath.Join(t.TempDir(), "copy.db"))
			bad := spoil(data, early)
			if err := os.WriteFile(path, bad, 0o600); err != nil {
				t.Fatal(err)
			}
			if err := journal.Look(
				path, func(tx *journal.Tx) error { _, err := tx.Instances(); return err },
			); err == nil {
				t.Error("it can be looked at")
			}
			j := open(t, path)
			o := j.Origin()
			if !o.Made || o.Lost == "" || !journal.IsAside(filepath.Base(o.Aside)) || j.ID() == was {
				t.Errorf("it was found as %+v, and is %s", o, j.ID())
			}
			if aside, err := os.ReadFile(o.Aside); err != nil || !bytes.Equal(aside, bad) {
				t.Errorf("what is aside has %d bytes: %v", len(aside), err)
			}
			if c, err := j.Examine(); err != nil || c != (journal.Contents{}) {
				t.Errorf("it holds %+v, %v", c, err)
			}
		})
	}
}

func idOf(t *testing.T, data []byte, path string) string {
	t.Helper()
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	j, err := journal.OpenWhole(path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = j.Close() }()
	return j.ID()
}

func TestOfJournalsThatWereSetAsideThreeStay(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal.db")
	for range 6 {
		if err := os.WriteFile(path, []byte("bad"), 0o600); err != nil {
			t.Fatal(err)
		}
		j := open(t, path)
		_ = j.Close()
	}
	if all, _ := filepath.Glob(path + ".damaged-*"); len(all) != 3 {
		t.Errorf("aside: %v", all)
	}
}

func TestAJournalThatIsOpenedAgainIsTheSame(t *testing.T) {
	path, _ := worked(t)
	for range 3 {
		j := open(t, path)
		if o := j.Origin(); o != (journal.Origin{}) {
			t.Errorf("it was found as %+v", o)
		}
		_ = j.Close()
	}
	if err := os.Remove(strings.TrimSuffix(path, ".db") + ".mark"); err != nil {
		t.Fatal(err)
	}
	if o := open(t, path).Origin(); o != (journal.Origin{}) {
		t.Errorf("without its mark it was found as %+v", o)
	}
}

func TestAJournalThatIsCutWhileItIsOpenOnlyAnswersThatItIsDamaged(t *testing.T) {
	for name, left := range map[string]int{"to nothing": 0, "behind its heads": 2 * os.Getpagesize()} {
		t.Run(name, func(t *testing.T) {
			path, _ := worked(t)
			j := open(t, path)
			if err := os.Truncate(path, int64(left)); err != nil {
				t.Fatal(err)
			}
			for range 2 {
				err := j.Update(func(tx *journal.Tx) error { return tx.Say(agents("")) })
				_, err2 := j.Examine()
				if !errors.Is(err, journal.ErrDamaged) || !errors.Is(err2, journal.ErrDamaged) {
					t.Errorf("write: %v, read: %v", err, err2)
				}
			}
			if err := j.Close(); err != nil {
				t.Error(err)
			}
			if o := open(t, path).Origin(); !o.Made || o.Lost == "" {
				t.Errorf("it was found as %+v", o)
			}
		})
	}
}

func TestAJournalWhoseFileIsGoneIsNotHere(t *testing.T) {
	path, _ := worked(t)
	j := open(t, path)
	if err := j.Here(); err != nil {
		t.Error(err)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if err := j.Here(); !errors.Is(err, journal.ErrDamaged) {
		t.Errorf("got %v", err)
	}
}
