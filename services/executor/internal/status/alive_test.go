package status

import (
	"bytes"
	"encoding/json"
	"maps"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/garrison-fleet/garrison/services/executor/internal/layout"
)

// The status of an executor that was killed is fresh for a while, and says that it runs.
func TestAKilledExecutorIsNotHealthy(t *testing.T) {
	t.Parallel()
	told := fields(t, Status{State: Running, Connected: true, At: time.Now(), process: thisProcess()})
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
		"it was quarantined and ended": {map[string]any{"pid": ended.Process.Pid, "state": Suspended}, false},
	} {
		t.Run(name, func(t *testing.T) {
			root := layout.Root(t.TempDir())
			says := maps.Clone(told)
			says["at"] = time.Now()
			maps.Copy(says, c.change)
			keep(t, root, says)
			is, err := Read(string(root))
			if err != nil {
				t.Fatal(err)
			}
			if err := is.Healthy(time.Now()); (err == nil) != c.well ||
				err != nil && !strings.Contains(err.Error(), "is gone") {
				t.Errorf("its health is %v", err)
			}
			if now := is.AsOf(time.Now()); now.Connected != c.well || (now.State == Gone) == c.well {
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

// fields returns what the file of a status holds.
func fields(t *testing.T, s Status) (out map[string]any) {
	t.Helper()
	root := layout.Root(t.TempDir())
	if err := os.Mkdir(root.Home(), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := write(root, s); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(root.Status())
	if err == nil {
		err = json.Unmarshal(data, &out)
	}
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// keep writes a status with these fields.
func keep(t *testing.T, root layout.Root, fields map[string]any) {
	t.Helper()
	data, err := json.Marshal(fields)
	if err == nil {
		err = os.Mkdir(root.Home(), 0o700)
	}
	if err == nil {
		err = os.WriteFile(root.Status(), data, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}
