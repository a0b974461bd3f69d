package main

import (
	"strings"
	"testing"

	"github.com/garrison-fleet/garrison/pkg/config"
)

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
