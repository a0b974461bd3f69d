package main

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestAFlagThatNeedsAnotherOneIsRefusedWithoutIt(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "webhooks.yaml")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for want, args := range map[string][]string{
		"--webhooks-state is missing": {"--webhooks", file},
		"--webhooks is missing":       {"webhooks", "--webhooks-state", filepath.Dir(file)},
		"--tls-key is missing":        {"--tls-cert", file},
		"--tls-cert is missing":       {"--tls-key", file},
		"no command":                  {"hooks"},
	} {
		var stderr bytes.Buffer
		got := run(t.Context(), args, func(string) string { return "" }, io.Discard, &stderr)
		if got != 2 || !strings.Contains(stderr.String(), want) {
			t.Errorf("%v: exit code %d, %s; want 2 and %s", args, got, &stderr, want)
		}
	}
}
