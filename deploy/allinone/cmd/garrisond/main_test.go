package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rs/zerolog"

	"github.com/garrison-fleet/garrison/pkg/freeport"
	"github.com/garrison-fleet/garrison/pkg/polltest"
)

func TestAHandOutNeedsADirectory(t *testing.T) {
	t.Parallel()
	data, parts := filepath.Join(t.TempDir(), "data"), filepath.Join(t.TempDir(), "parts")
	keys := []string{"keys", "--data", data, "--url", "tls://bus:4222", "--hand-out"}
	var stderr bytes.Buffer
	if got := run(t.Context(), append(keys, ""), io.Discard, &stderr); got != 2 ||
		!strings.Contains(stderr.String(), "flag --hand-out") {
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
	t.Parallel()
	for _, name := range []string{"task-deadline", "task-deadline-least", "task-deadline-most"} {
		for _, value := range []string{"0", "-5s", "ten"} {
			var stderr bytes.Buffer
			got := run(t.Context(), []string{"run", "--data", t.TempDir(), "--" + name, value}, io.Discard, &stderr)
			if got != 2 || !strings.Contains(stderr.String(), "flag --"+name) {
				t.Errorf("--%s %s: exit code %d, %s", name, value, got, &stderr)
			}
		}
	}
}

func TestAnUpgradeDoesOneThing(t *testing.T) {
	t.Parallel()
	var stderr bytes.Buffer
	got := run(t.Context(), []string{"upgrade", "--data", t.TempDir(), "--plan", "--back"}, io.Discard, &stderr)
	if got != 2 || !strings.Contains(stderr.String(), "exclude each other") {
		t.Errorf("exit code %d, %s", got, &stderr)
	}
}

func TestWebhooksNeedTheirFileAndTheGateway(t *testing.T) {
	t.Parallel()
	data, file := t.TempDir(), filepath.Join(t.TempDir(), "webhooks.yaml")
	if err := os.WriteFile(file, []byte("as: hooks.json\nruotes: []\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for want, c := range map[string]struct {
		code int
		args []string
	}{
		"--http is missing":     {2, []string{"run", "--webhooks", file}},
		"--webhooks is missing": {2, []string{"webhooks"}},
		"flag --webhooks":       {2, []string{"webhooks", "--webhooks", file + ".missing"}},
		"exclude each other":    {2, []string{"webhooks", "--webhooks", file, "--test", "a", "--rotate-key"}},
		"line 2: the file has no key \"ruotes\". Nearest: routes": {1, []string{"webhooks", "--webhooks", file}},
	} {
		var stderr bytes.Buffer
		got := run(t.Context(), append(c.args, "--data", data), io.Discard, &stderr)
		if got != c.code || !strings.Contains(stderr.String(), want) {
			t.Errorf("%v: exit code %d, %s; want %d and %s", c.args, got, &stderr, c.code, want)
		}
	}
}

// The first start of a member waits for another one, which may be long away.
func TestAMemberThatWaitsForTheOthersIsStoppedByASignal(t *testing.T) {
	t.Parallel()
	var ports [4]int
	for n := range ports {
		var err error
		if ports[n], err = freeport.Take(); err != nil {
			t.Fatal(err)
		}
	}
	data := t.TempDir()
	ctx, signal := context.WithCancel(t.Context())
	defer signal()
	var stderr bytes.Buffer // read once it has ended
	ended := make(chan int, 1)
	log := zerolog.SyncWriter(&stderr) // as with a file, its bus writes from several goroutines
	go func() {
		ended <- run(ctx, []string{
			"run", "--data", data, "--listen", freeport.Address(ports[0]), "--allow-lazy-sync",
			"--cluster", fmt.Sprintf("127.0.0.1:%d,127.0.0.2:%d,127.0.0.3:%d", ports[1], ports[2], ports[3]),
		}, io.Discard, log)
	}()
	polltest.Eventually(t, "its bus listens", func() bool {
		_, err := os.Stat(filepath.Join(data, "operator.json"))
		return err == nil
	})
	signal()
	if code := <-ended; code != 0 {
		t.Errorf("exit code %d: %s", code, &stderr)
	}
}
