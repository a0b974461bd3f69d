package main

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestAHandOutNeedsADirectory(t *testing.T) {
	data, parts := filepath.Join(t.TempDir(), "data"), filepath.Join(t.TempDir(), "parts")
	keys := []string{"keys", "--data", data, "--url", "tls://bus:4222", "--hand-out"}
	var stderr bytes.Buffer
	if got := run(t.Context(), append(keys, ""), io.Discard, &stderr); got != 2 ||
		!strings.Contains(stderr.String(), "flag -hand-out") {
		t.Errorf("an empty directory: exit code %d, %s", got, &stderr)
	}
	if got := run(t.Context(), append(keys, parts), io.Discard, &stderr); got != 0 {
		t.Errorf("exit code %d: %s", got, &stderr)
	}
	if _, err := os.Stat(filepath.Join(parts, "operator", "operator.json")); err != nil {
		t.Error(err)
	}
}

func TestADeadlineIsADurationAboveZero(t *testing.T) {
	for _, name := range []string{"task-deadline", "task-deadline-least", "task-deadline-most"} {
		for _, value := range []string{"0", "-5s", "ten"} {
			var stderr bytes.Buffer
			got := run(t.Context(), []string{"run", "--data", t.TempDir(), "--" + name, value}, io.Discard, &stderr)
			if got != 2 || !strings.Contains(stderr.String(), "flag -"+name) {
				t.Errorf("--%s %s: exit code %d, %s", name, value, got, &stderr)
			}
		}
	}
}
