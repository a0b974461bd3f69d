package scenario

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os/exec"
	"path/filepath"
	"testing"
)

// Program is an executor that a test starts outside the fleet.
type Program struct {
	*exec.Cmd
	out bytes.Buffer
}

// Execute starts an executor; it ends with the test.
func Execute(t *testing.T, args ...string) *Program {
	t.Helper()
	p := &Program{Cmd: exec.Command(filepath.Join(Bin, "executor"), args...)}
	p.Stdout, p.Stderr = &p.out, &p.out
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		p.Kill()
		if t.Failed() {
			t.Logf("executor %v:\n%s", args, p.out.String())
		}
	})
	return p
}

// Kill kills the executor and waits for its end.
func (p *Program) Kill() {
	_ = p.Process.Kill() // it may have ended
	_ = p.Wait()
}

// ExecutorStatus returns what the executor in a root says of itself.
func (w *World) ExecutorStatus(root string) ([]byte, error) {
	program := filepath.Join(Bin, "executor")
	return exec.CommandContext(w.T.Context(), program, "status", "--root", root).CombinedOutput()
}

// Reports waits until the executor in a root reports a state and a code.
func (w *World) Reports(root, state, code string) {
	w.T.Helper()
	w.Eventually("the executor reports "+state+" "+code, func() error {
		status := exec.CommandContext(w.T.Context(), filepath.Join(Bin, "executor"), "status", "-o", "json",
			"--root", root)
		out, err := status.Output()
		if err != nil {
			return err
		}
		var s struct {
			State, Code, Reason string
			Connected           bool
		}
		if err := json.Unmarshal(out, &s); err != nil {
			return err
		}
		if s.State != state || s.Code != code || code == "" && !s.Connected {
			return fmt.Errorf("it reports %+v", s)
		}
		return nil
	})
}
