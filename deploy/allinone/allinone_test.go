package allinone_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/garrison-fleet/garrison/deploy/allinone"
	"github.com/garrison-fleet/garrison/pkg/bustest"
	"github.com/garrison-fleet/garrison/pkg/trust"
)

func start(t *testing.T, dir string) (*allinone.Garrison, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	return allinone.Start(ctx, allinone.Config{Data: dir, Listen: "127.0.0.1:0", Log: zerolog.Nop(), Lazy: true})
}

// run runs a Garrison until the test ends, and waits until clients can connect.
func run(t *testing.T, g *allinone.Garrison) {
	t.Helper()
	bustest.Go(t, g.Run)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := g.WaitReady(ctx); err != nil {
		t.Fatal(err)
	}
}

func TestItIsFoundAtTheSameAddressAfterARestart(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	first, err := start(t, dir)
	if err != nil {
		t.Fatal(err)
	}
	url := first.URL()
	first.Close()
	second, err := start(t, dir)
	if err != nil {
		t.Fatal(err)
	}
	defer second.Close()
	if second.URL() != url {
		t.Errorf("at %s after the restart, want %s", second.URL(), url)
	}
	c, err := trust.ReadContext(second.ContextFile())
	if err != nil || c.URL != url || c.Actor != "operator" {
		t.Errorf("the context says %s as %s (%v), want %s as operator", c.URL, c.Actor, err, url)
	}
}

func TestAnAddressThatIsDamagedIsReplaced(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{"empty": "", "cut": "127.0.0.1", "no number": "127.0.0.1:x\n"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			if err := os.WriteFile(filepath.Join(dir, "address"), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			g, err := start(t, dir)
			if err != nil {
				t.Fatal(err)
			}
			g.Close()
			kept, err := os.ReadFile(filepath.Join(dir, "address"))
			if err != nil || "tls://"+strings.TrimSpace(string(kept)) != g.URL() {
				t.Errorf("kept %q (%v), want %s", kept, err, g.URL())
			}
		})
	}
}

func TestAnOperatorsContextThatIsDamagedIsMadeAnew(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "operator.json"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	g, err := start(t, dir)
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	if c, err := trust.ReadContext(g.ContextFile()); err != nil || c.URL != g.URL() {
		t.Errorf("the context says %s (%v), want %s", c.URL, err, g.URL())
	}
}

func TestOnlyOneCanUseADirectory(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	g, err := start(t, dir)
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	if _, err := start(t, dir); err == nil || !strings.Contains(err.Error(), "in use by another garrisond") {
		t.Errorf("a second one: %v, want it refused", err)
	}
}

func TestSecretsAreForTheirOwnerOnly(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	g, err := start(t, dir)
	if err != nil {
		t.Fatal(err)
	}
	g.Close()
	for _, path := range []string{"trust", "operator.json"} {
		err := filepath.WalkDir(filepath.Join(dir, path), func(path string, d os.DirEntry, err error) error {
			if err != nil {
				return err
			}
			info, err := d.Info()
			if err == nil && info.Mode().Perm()&0o077 != 0 {
				t.Errorf("%s has mode %v", path, info.Mode())
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

func TestWhatIsNoServiceIsRefused(t *testing.T) {
	t.Parallel()
	if _, err := allinone.ParseServices("registry,nonsense"); err == nil ||
		!strings.Contains(err.Error(), `"nonsense"`) {
		t.Errorf("%v, want nonsense refused", err)
	}
	if s, err := allinone.ParseServices("none"); err != nil || s == nil || len(s) != 0 {
		t.Errorf("none is read as %v, %v", s, err)
	}
}

func TestABusThatForgetsAtAPowerCutIsRefused(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	g, err := start(t, dir) // with lazy sync
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = g.Close() })
	run(t, g)
	p := allinone.Provisioning{Data: dir, URL: g.URL(), Replicas: 1}
	if err := allinone.Provision(t.Context(), p); err == nil ||
		!strings.Contains(err.Error(), "sync_interval: always") {
		t.Errorf("%v, want it refused", err)
	}
	p.Lazy = true
	if err := allinone.Provision(t.Context(), p); err != nil {
		t.Errorf("with the risk accepted: %v", err)
	}
}
