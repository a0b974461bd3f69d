package executor_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/garrison-fleet/garrison/pkg/bustest"
	"github.com/garrison-fleet/garrison/pkg/polltest"
	"github.com/garrison-fleet/garrison/services/executor"
	"github.com/garrison-fleet/garrison/services/executor/internal/status"
)

// The status of an executor that was killed is fresh for a while, and says that it runs.
func TestAKilledExecutorIsNotHealthy(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	bustest.Go(t, s.executor().Run)
	path := filepath.Join(s.root, "executor", "status.json")
	var told map[string]any
	polltest.Eventually(t, "it runs", func() bool {
		is, err := status.Read(s.root)
		data, e := os.ReadFile(path)
		return err == nil && e == nil && is.Connected && is.Healthy(time.Now()) == nil &&
			json.Unmarshal(data, &told) == nil
	})
	ended := exec.Command("true")
	if err := ended.Run(); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		change map[string]any
		well   bool
	}{
		"it runs":                      {nil, true},
		"its process ended":            {map[string]any{"pid": ended.Process.Pid}, false},
		"another one has its id":       {map[string]any{"process_started": 1}, false},
		"it is of another namespace":   {map[string]any{"pid": ended.Process.Pid, "pid_namespace": "pid:[1]"}, true},
		"it does not say since when":   {map[string]any{"pid": ended.Process.Pid, "process_started": 0}, true},
		"it was quarantined and ended": {map[string]any{"pid": ended.Process.Pid, "state": status.Suspended}, false},
	} {
		t.Run(name, func(t *testing.T) {
			root := t.TempDir()
			says := map[string]any{}
			for k, v := range told {
				says[k] = v
			}
			says["at"] = time.Now()
			for k, v := range c.change {
				says[k] = v
			}
			writeJSON(t, filepath.Join(root, "executor", "status.json"), says)
			is, err := status.Read(root)
			if err != nil {
				t.Fatal(err)
			}
			if err := is.Healthy(time.Now()); (err == nil) != c.well ||
				err != nil && !strings.Contains(err.Error(), "is gone") {
				t.Errorf("its health is %v", err)
			}
			if now := is.AsOf(time.Now()); now.Connected != c.well || (now.State == status.Gone) == c.well {
				t.Errorf("it says %s, connected %v", now.State, now.Connected)
			}
			var text bytes.Buffer
			if err := is.Print(&text, time.Now()); err != nil ||
				strings.Contains(text.String(), "not running") == c.well {
				t.Errorf("it prints %v:\n%s", err, text.String())
			}
		})
	}
}

func writeJSON(t *testing.T, path string, v any) {
	t.Helper()
	data, err := json.Marshal(v)
	if err == nil {
		err = os.MkdirAll(filepath.Dir(path), 0o700)
	}
	if err == nil {
		err = os.WriteFile(path, data, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func TestARehearsalWithoutAJournalDoesNotPassAndMakesNone(t *testing.T) {
	t.Parallel()
	missing := filepath.Join(t.TempDir(), "copy.db")
	_, err := executor.Rehearse(context.Background(), executor.Config{Root: t.TempDir()}, missing)
	if !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the rehearsal ends with %v", err)
	}
	if _, err := os.Stat(missing); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the journal: %v", err)
	}
}
