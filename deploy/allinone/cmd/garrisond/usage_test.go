package main

import (
	"bytes"
	"io"
	"path/filepath"
	"strings"
	"testing"
)

func TestHelpListsEachCommandAndEachCommandItsFlags(t *testing.T) {
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
