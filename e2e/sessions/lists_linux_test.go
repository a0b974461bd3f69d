package sessions_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/garrison-fleet/garrison/e2e/rig"
	"github.com/garrison-fleet/garrison/e2e/scenario"
	"github.com/garrison-fleet/garrison/e2e/simulated"
)

// The size of the terminal on which lists are looked at.
const terminalColumns, terminalLines = 80, 24

func TestListsOfManyServersHaveALineForEachRow(t *testing.T) {
	t.Parallel()
	const servers = 300
	f := scenario.Simulated(t, rig.Options{})
	r := simulated.New(f, simulated.Options{
		Servers: servers, Within: 5 * time.Minute, Flags: []string{"--duration", "50ms"},
	})
	if err := r.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	defer func() { // before the context of the test ends
		if _, err := r.Stop(); err != nil {
			t.Error(err)
		}
	}()
	if err := r.Online(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{
		"install beacon@1.0.0 --on all -m CHG-90", "up beacon@2.0.0 --on all --yes --at-once",
	} {
		if out, err := f.CLI(t.Context(), strings.Fields(line)...); err != nil {
			t.Fatalf("garrison %s: %v\n%s", line, err, out)
		}
	}
	beginsWithOne(t, f)
	shown := onTerminal(t, f, "status")
	for l := range strings.SplitSeq(shown, "\n") {
		if n := utf8.RuneCountInString(l); n > terminalColumns {
			t.Errorf("garrison status: a line of %d columns: %q", n, l)
		}
	}
	if n := strings.Count(shown, "\n"); n > terminalLines || !strings.Contains(shown, "300 online") {
		t.Errorf("garrison status has %d lines, want %d at most, and all servers:\n%s", n, terminalLines, shown)
	}
	for line, rows := range map[string]int{
		"server list": servers, "instance list --agent beacon": servers, "task list --limit 50": 50, "image list": 2,
		"intent list --limit 5 --derived": 5, "events --noun intent --limit 5": 5, "rollout list": 1,
		"events --limit 40": 40, "check": 0,
	} {
		shown := onTerminal(t, f, line)
		lines := strings.Split(strings.TrimRight(shown, "\n"), "\n")
		if rows > 0 && len(lines) != rows+1 {
			t.Errorf("garrison %s: %d lines, want a header and %d rows:\n%s", line, len(lines), rows, shown)
		}
		for _, l := range lines {
			if n := utf8.RuneCountInString(l); n > terminalColumns || strings.HasPrefix(l, " ") {
				t.Errorf("garrison %s: a line of %d columns, or one below its row: %q", line, n, l)
			}
		}
	}
}

// beginsWithOne checks that the install of many servers was a rollout that began with one, and that its page says why.
func beginsWithOne(t *testing.T, f *rig.Fleet) {
	t.Helper()
	out, err := f.CLI(t.Context(), "rollout", "list", "-o", "json")
	if err != nil {
		t.Fatal(err)
	}
	var all struct {
		Rollouts []struct {
			ID    string
			Waves []struct{ Servers int }
		}
	}
	if err := json.Unmarshal([]byte(out), &all); err != nil || len(all.Rollouts) != 1 {
		t.Fatalf("want one rollout, have %v and %s", err, out)
	}
	if waves := all.Rollouts[0].Waves; len(waves) != 2 || waves[0].Servers != 1 {
		t.Errorf("the install had waves %v, want one server and then the others", waves)
	}
	page, err := f.CLI(t.Context(), "rollout", "show", all.Rollouts[0].ID[:13])
	if err != nil || !strings.Contains(page, "CHG-90") {
		t.Errorf("the page of the rollout does not say why: %v\n%s", err, page)
	}
}

// onTerminal runs garrison on a terminal, and returns what it prints there.
func onTerminal(t *testing.T, f *rig.Fleet, line string) string {
	t.Helper()
	master, slave := scenario.Terminal(t, terminalLines, terminalColumns)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, filepath.Join(f.Bin, "garrison"), strings.Fields(line)...)
	var said bytes.Buffer
	cmd.Env = append(os.Environ(), "GARRISON_CONTEXT="+f.ContextFile(), "NO_COLOR=1", "TERM=xterm")
	cmd.Stdout, cmd.Stderr = slave, &said
	read := make(chan string, 1)
	go func() {
		all, _ := io.ReadAll(master) // it ends with an error once nothing has the other end open
		read <- string(all)
	}()
	err := cmd.Run()
	_ = slave.Close()
	if err != nil && cmd.ProcessState.ExitCode() != 3 { // what check exits with when something differs
		t.Fatalf("garrison %s: %v\n%s", line, err, &said)
	}
	return strings.ReplaceAll(<-read, "\r\n", "\n")
}
