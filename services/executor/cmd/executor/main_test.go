package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/config"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/trust"
	"github.com/garrison-fleet/garrison/pkg/visible"
	"github.com/garrison-fleet/garrison/services/executor/internal/change"
	"github.com/garrison-fleet/garrison/services/executor/internal/journal"
	"github.com/garrison-fleet/garrison/services/executor/internal/layout"
	"github.com/garrison-fleet/garrison/services/executor/internal/status"
)

func TestAWrongCommandLineDoesNothingAndEndsWith2(t *testing.T) {
	root := filepath.Join(t.TempDir(), "root")
	for name, args := range map[string][]string{
		"nothing":              {},
		"an unknown command":   {"dance"},
		"a surplus argument":   {"status", "--root", root, "stray"},
		"one after version":    {"version", "stray"},
		"fewer than none":      {"run", "--root", root, "--keep-versions", "-3"},
		"bytes below none":     {"run", "--root", root, "--keep-bytes", "-1"},
		"no such supervisor":   {"run", "--root", root, "--supervisor", "foo"},
		"back in time":         {"run", "--root", root, "--beat-interval", "-5s"},
		"all the time":         {"run", "--root", root, "--beat-interval", "0"},
		"no such level":        {"run", "--root", root, "--log-level", "loud"},
		"an input read again":  {"run", "--root", root, "--token", "-"},
		"a join without token": {"join", "--root", root},
		"a token's lost file":  {"join", "--root", root, "--token-file", root},
		"an invalid token":     {"join", "--root", root, "--token", "nonsense"},
		"a damaged token":      {"run", "--root", root, "--token", "garrison-1.abc"},
		"a file without one":   {"join", "--root", root, "--token-file", "main.go"},
		"a token for all eyes": {"join", "--root", root, "--token=garrison-1.abc"},
		"two tokens":           {"join", "--root", root, "--token", "x", "--token-file", "main.go"},
		"no journal":           {"rehearse", "--root", root},
		"a journal not there":  {"rehearse", "--root", root, "--journal", root},
		"no such format":       {"status", "--root", root, "-o", "xml"},
		"no root":              {"status", "--root", ""},
		"json of a decision":   {"uninstall", "--root", root, "-o", "json"},
		"a tombstone's file":   {"uninstall", "--root", root, "--tombstone", root},
		"half a command":       {"journal"},
		"no time at all":       {"uninstall", "--root", root, "--tombstone", "main.go", "--within", "0s"},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			if err := execute(ctx, args); config.ExitCode(err) != 2 {
				t.Errorf("execute returned %v", err)
			}
			if _, err := os.Stat(root); err == nil {
				t.Error("it created the root")
			}
		})
	}
}

func TestATokenComesFromWhereItIsSaid(t *testing.T) {
	_, seed, err := trust.NewUserKey()
	if err != nil {
		t.Fatal(err)
	}
	token := trust.Token{
		URL:      "nats://nowhere",
		ServerID: "s",
		Cell:     "main",
		Secret:   "s",
		JWT:      "guest",
		Seed:     string(seed),
	}.String()
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte(token+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	damaged := filepath.Join(t.TempDir(), "damaged")
	if err := os.WriteFile(damaged, []byte(token[:30]), 0o600); err != nil {
		t.Fatal(err)
	}
	marked := filepath.Join(t.TempDir(), "marked")
	if err := os.WriteFile(marked, []byte("\xEF\xBB\xBF"+token+"\r\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		args []string
		env  map[string]string
		ok   bool
	}{
		"a file with a byte order mark":   {[]string{"--token-file", marked}, nil, true},
		"a file":                          {[]string{"--token-file", file}, nil, true},
		"a word":                          {[]string{"--token", token}, nil, true},
		"the environment":                 {nil, map[string]string{"GARRISON_TOKEN": token}, true},
		"a file that the environment has": {nil, map[string]string{"GARRISON_TOKEN_FILE": file}, true},
		"a file, whatever else is there": {
			[]string{"--token-file", file}, map[string]string{"GARRISON_TOKEN": "x"}, true,
		},
		"a word, whatever else is there": {
			[]string{"--token", token}, map[string]string{"GARRISON_TOKEN_FILE": damaged}, true,
		},
		"a file that was cut": {[]string{"--token-file", damaged}, nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			f := &flags{FlagSet: flag.NewFlagSet("join", flag.ContinueOnError)}
			f.joinFlags("", fromWordOrInput)
			var stderr bytes.Buffer
			if err := config.Parse(f.FlagSet, c.args, func(k string) string { return c.env[k] }, &stderr); err != nil {
				t.Fatal(err, stderr.String())
			}
			got, err := f.invitation.token(t.Context())
			if (err == nil) != c.ok || c.ok && strings.TrimSpace(got) != token {
				t.Errorf("%q, %v", got, err)
			}
			if err != nil && strings.Contains(err.Error(), token[12:30]) {
				t.Errorf("the error shows it: %v", err)
			}
		})
	}
}

// The token may never arrive, so the wait for it ends with the process.
func TestAWaitForATokenEndsWhenItIsToldTo(t *testing.T) {
	in, out, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _, _ = in.Close(), out.Close() }()
	stdin := os.Stdin
	os.Stdin = in
	defer func() { os.Stdin = stdin }()
	var i invitation
	if err := (invitationFlag{&i, "token", fromWordOrInput}).Set("-"); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if _, err := i.token(ctx); ctx.Err() == nil || err == nil {
		t.Errorf("it gave %v", err)
	}
}

func TestTheJournalIsShownAndAMissingOneRefused(t *testing.T) {
	f := newFlags("journal show")
	f.root = t.TempDir()
	if err := f.showJournal(t.Context()); !fault.Is(err, fault.NotFound) {
		t.Errorf("without a journal: %v", err)
	}
	root := layout.Root(f.root)
	if err := os.MkdirAll(root.Home(), 0o700); err != nil {
		t.Fatal(err)
	}
	j, err := journal.Open(root.Journal())
	if err != nil {
		t.Fatal(err)
	}
	if err := f.showJournal(t.Context()); fault.RefusalOf(err).GetCode() != "EXECUTOR_RUNS" {
		t.Errorf("beside an executor: %v", err)
	}
	err = j.Update(func(tx *journal.Tx) error {
		return tx.PutInstance(&change.Instance{Agent: "app", Secrets: map[string]string{"password": "hunter2"}})
	})
	if err = errors.Join(err, j.Close()); err != nil {
		t.Fatal(err)
	}
	for option, clear := range map[string]bool{"--secrets=false": false, "--secrets": true} {
		out := textOf(t, "journal", "show", "--root", f.root, option)
		if !strings.Contains(out, `"agent":"app"`) || strings.Contains(out, "hunter2") != clear ||
			strings.Contains(out, "<secret password>") == clear {
			t.Errorf("%s prints\n%s", option, out)
		}
	}
}

// printed returns what a command prints.
func textOf(t *testing.T, args ...string) string {
	t.Helper()
	file, err := os.Create(filepath.Join(t.TempDir(), "stdout"))
	if err != nil {
		t.Fatal(err)
	}
	before := os.Stdout
	os.Stdout = file
	err = execute(t.Context(), args)
	os.Stdout = before
	if err = errors.Join(err, file.Close()); err != nil {
		t.Fatal(err)
	}
	out, err := os.ReadFile(file.Name())
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

// The texts of a status are those of agents, also when an older version wrote it.
func TestNoCommandPrintsWhatSteersTheTerminal(t *testing.T) {
	const hostile = "\u009b31m\u202e\u2028\u001b[2J\u007f"
	root := layout.Root(t.TempDir())
	s := status.Status{
		ServerID: "s", State: status.Running, At: time.Now(), Reason: hostile, Code: "NOT_READY", Note: hostile,
		Busy: []string{hostile}, Agents: []status.Agent{{Agent: "app", Reason: hostile}},
	}
	data, err := json.Marshal(s)
	if err == nil {
		err = errors.Join(os.MkdirAll(filepath.Dir(root.Status()), 0o755), os.WriteFile(root.Status(), data, 0o600))
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, format := range []string{"text", "json"} {
		out := textOf(t, "status", "--root", string(root), "-o", format)
		if strings.ContainsFunc(out, visible.Steers) || !strings.Contains(out, `\u009b31m\u202e`) {
			t.Errorf("%s: %q", format, out)
		}
	}
}

// A local user who can write the root, or replace it, would decide what root executes.
func TestARootThatOthersCanChangeIsRefused(t *testing.T) {
	_, seed, err := trust.NewUserKey()
	if err != nil {
		t.Fatal(err)
	}
	token := trust.Token{
		URL: "nats://127.0.0.1:1", ServerID: "s", Cell: "main", Secret: "s", JWT: "j", Seed: string(seed),
	}
	dir := t.TempDir()
	tokenFile, link := filepath.Join(dir, "token"), filepath.Join(dir, "link")
	open, above := filepath.Join(dir, "open"), filepath.Join(dir, "open", "below")
	inside := filepath.Join(dir, "inside")
	if err := errors.Join(
		os.Chmod(dir, 0o700),
		os.WriteFile(tokenFile, []byte(token.String()+"\n"), 0o600),
		os.MkdirAll(above, 0o700), os.Chmod(open, 0o777), //nolint:gosec // as the attack has it
		os.Symlink(inside, link),
		os.MkdirAll(filepath.Join(inside, "executor"), 0o700), os.Chmod(filepath.Join(inside, "executor"), 0o775),
	); err != nil {
		t.Fatal(err)
	}
	for _, root := range []string{open, above, link, inside} {
		for _, args := range [][]string{
			{"join", "--token-file", tokenFile}, {"run"}, {"run", "--token-file", tokenFile}, {"uninstall"},
			{"uninstall", "--dry-run"}, {"journal", "show"}, {"rehearse", "--journal", tokenFile},
		} {
			err := execute(t.Context(), append(args, "--root", root))
			if got := fault.RefusalOf(err).GetCode(); got != code.UnsafePermissions {
				t.Errorf("%v --root %s: %v, want %s", args, root, err, code.UnsafePermissions)
			}
		}
	}
	if !layout.Missing(filepath.Join(open, "executor")) {
		t.Error("a refused command wrote into the root")
	}
}

func TestCommandLinesAreCompleted(t *testing.T) {
	for line, want := range map[string]string{
		"st": "status", "journal ": "show", "status -o ": "text json", "run --supervisor s": "systemd",
		"run --log-level ": "debug info warn error", "join --root ": ":files", "health --": "--root --help",
		"completion ": "bash zsh fish --help",
	} {
		var b strings.Builder
		completed().Print(&b, strings.Split(line, " "))
		if have := strings.Join(strings.Fields(b.String()), " "); have != want {
			t.Errorf("%q: have %q, want %q", line, have, want)
		}
	}
	for _, wrong := range [][]string{{"completion"}, {"completion", "tcsh"}, {"completion", "bash", "more"}} {
		if err := execute(t.Context(), wrong); config.ExitCode(err) != 2 {
			t.Errorf("%v: %v", wrong, err)
		}
	}
}
