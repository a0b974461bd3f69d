package selfupdate

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
)

func TestARehearsalWithoutAJournalDoesNotPassAndMakesNone(t *testing.T) {
	t.Parallel()
	missing := filepath.Join(t.TempDir(), "copy.db")
	_, err := Examine(missing, func() (uint64, error) { return 1, nil })
	if !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the rehearsal ends with %v", err)
	}
	if _, err := os.Stat(missing); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the journal: %v", err)
	}
}
