package main

import (
	"bytes"
	"io"
	"path/filepath"
	"strings"
	"testing"
)

func TestHelpListsEachCommandAndEachCommandItsFlags(t *testing.T) {
	t.Parallel()
	for _, ask := range []string{"help", "-h", "--help"} {
		var stdout bytes.Buffer
		if got := run(t.Context(), []string{ask}, &stdout, io.Discard); got != 0 {
			t.Errorf("%s: exit code %d", ask, got)
		}
		for _, c := range commands {
			if !strings.Contains(stdout.String(), "\n  "+c.name+" ") {
				t.Errorf("%s does not list %s: %s", ask, c.name, &stdout)
			}
		}
	}
	for command, flag := range map[string]string{
		"run": "-listen", "health": "-data", "keys": "-hand-out", "provision": "-dry-run", "grow": "-to",
	} {
		for _, ask := range [][]string{{command, "--help"}, {"help", command}} {
			var stderr bytes.Buffer
			if got := run(t.Context(), ask, io.Discard, &stderr); got != 0 || !strings.Contains(stderr.String(), flag) {
				t.Errorf("%v: exit code %d, without %s: %s", ask, got, flag, &stderr)
			}
		}
	}
}

func TestHealthNamesADirectoryWithoutAGarrisond(t *testing.T) {
	t.Parallel()
	var stderr bytes.Buffer
	if got := run(t.Context(), []string{"health"}, io.Discard, &stderr); got != 2 ||
		!strings.Contains(stderr.String(), "--data is missing") {
		t.Errorf("without a directory: exit code %d, %s", got, &stderr)
	}
	stderr.Reset()
	dir := filepath.Join(t.TempDir(), "data")
	if got := run(t.Context(), []string{"health", "--data", dir}, io.Discard, &stderr); got != 1 ||
		!strings.Contains(stderr.String(), "no garrisond has run with the data directory "+dir) {
		t.Errorf("exit code %d, %s", got, &stderr)
	}
}

func TestCommandLinesAreCompleted(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]string{
		"he": "health help", "run --log-level d": "debug", "--log-level d": "debug", "backup ": ":files",
		"keys --change-ca ": "begin end", "run --data ": ":files", "grow --t": "--to",
	} {
		var stdout bytes.Buffer
		run(t.Context(), append([]string{"__complete"}, strings.Split(line, " ")...), &stdout, io.Discard)
		if have := strings.Join(strings.Fields(stdout.String()), " "); have != want {
			t.Errorf("%q: have %q, want %q", line, have, want)
		}
	}
	var stdout, stderr bytes.Buffer
	if got := run(t.Context(), []string{"completion", "bash"}, &stdout, &stderr); got != 0 ||
		!strings.Contains(stdout.String(), "complete -F _garrisond_complete garrisond") {
		t.Errorf("exit code %d: %s", got, &stdout)
	}
	for _, ask := range [][]string{{"completion", "--help"}, {"help", "completion"}} {
		stdout.Reset()
		if got := run(t.Context(), ask, &stdout, &stderr); got != 0 ||
			!strings.Contains(stdout.String(), "bash|zsh|fish") {
			t.Errorf("%v: exit code %d: %s", ask, got, &stdout)
		}
	}
	for _, wrong := range [][]string{{"completion"}, {"completion", "tcsh"}} {
		if got := run(t.Context(), wrong, io.Discard, &stderr); got != 2 || !strings.Contains(stderr.String(), "bash") {
			t.Errorf("%v: exit code %d: %s", wrong, got, &stderr)
		}
	}
}
