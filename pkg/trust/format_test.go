package trust_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/topology"
	"github.com/garrison-fleet/garrison/pkg/trust"
)

func read(t *testing.T, path string) []byte {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// What was written before there were numbers is read.
func TestFilesWithoutANumberAreRead(t *testing.T) {
	t.Parallel()
	old := filepath.Join("testdata", "format-0")
	c, err := trust.ReadContext(filepath.Join(old, "context.json"))
	if err != nil || c.Actor != "operator" || c.Format != 0 {
		t.Errorf("context of %q, format %d: %v", c.Actor, c.Format, err)
	}
	if k, err := trust.ParseToken(string(read(t, filepath.Join(old, "join-token")))); err != nil || k.Cell != "main" {
		t.Errorf("token for cell %q: %v", k.Cell, err)
	}
	dir := t.TempDir() // an authority without its keys is left as it is
	authority := read(t, filepath.Join(old, "authority.json"))
	if err := os.WriteFile(filepath.Join(dir, "authority.json"), authority, 0o600); err != nil {
		t.Fatal(err)
	}
	if a, err := trust.OpenAuthority(dir); err != nil || len(a.Accounts) != 4 || a.Topology != 0 {
		t.Errorf("authority of topology %d: %v", a.Topology, err)
	}
}

func TestAContextIsWrittenWithItsNumber(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "c.json")
	if err := (trust.Context{URL: "nats://x", Actor: "ann"}).Write(path); err != nil {
		t.Fatal(err)
	}
	if c, err := trust.ReadContext(path); err != nil || c.Format != 2 || c.Floor != 1 {
		t.Errorf("%+v, %v, want format 2", c.Stamp, err)
	}
	if err := os.WriteFile(path, append([]byte("\xEF\xBB\xBF"), read(t, path)...), 0o600); err != nil {
		t.Fatal(err)
	}
	if c, err := trust.ReadContext(path); err != nil || c.Actor != "ann" {
		t.Errorf("with a byte order mark: %v", err)
	}
}

// An older program would look for the bus without its CA.
func TestAContextWithACAIsRefusedByOlderPrograms(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "c.json")
	if err := (trust.Context{URL: "tls://x", Actor: "ann", CA: "pem"}).Write(path); err != nil {
		t.Fatal(err)
	}
	if c, err := trust.ReadContext(path); err != nil || c.Floor != 2 || c.CA != "pem" {
		t.Errorf("%+v, %v, want floor 2", c, err)
	}
}

func TestATokenKeepsItsPins(t *testing.T) {
	t.Parallel()
	want := trust.Token{URL: "tls://x", ServerID: "s", Secret: "s", JWT: "j", Pins: []string{"a", "b"}}
	got, err := trust.ParseToken(want.String())
	if err != nil || !slices.Equal(got.Pins, want.Pins) || !strings.HasPrefix(want.String(), "garrison-2.") {
		t.Errorf("%+v, %v; want %+v", got, err, want)
	}
}

func TestANewerContextOrTokenIsRefusedByItsNumber(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "c.json")
	newer := `{"format": 4, "format_floor": 3, "url": {"of": "another type"}}`
	if err := os.WriteFile(path, []byte(newer), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := trust.ReadContext(path)
	want := "FORMAT_TOO_NEW: context " + path + " has format 4, which needs a program that knows format 3"
	if !fault.Is(err, fault.Invalid) || errors.Is(err, trust.ErrDamaged) || !strings.Contains(err.Error(), want) {
		t.Errorf("%v, want %s", err, want)
	}
	_, err = trust.ParseToken("garrison-4.abc")
	if err == nil || !strings.Contains(err.Error(), "FORMAT_TOO_NEW: join token") {
		t.Errorf("%v, want the token's number refused", err)
	}
}

// An older program signs nothing again that a newer one signed.
func TestAnAuthorityThatANewerProgramSignedIsLeftAloneOrRefused(t *testing.T) {
	t.Parallel()
	for name, floor := range map[string]uint32{
		"it may be used": topology.Number, "it may not be used": topology.Number + 1,
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			a, err := trust.OpenAuthority(dir)
			if err != nil {
				t.Fatal(err)
			}
			path := filepath.Join(dir, "authority.json")
			text := string(read(t, path))
			core := a.Accounts[a.Names[topology.AccountCore]]
			for old, with := range map[string]string{
				fmt.Sprintf(`"topology": %d`, topology.Number):      fmt.Sprintf(`"topology": %d`, topology.Number+1),
				fmt.Sprintf(`"topology_floor": %d`, topology.Floor): fmt.Sprintf(`"topology_floor": %d`, floor),
				core: "of-a-newer-program",
			} {
				if !strings.Contains(text, old) {
					t.Fatalf("authority.json lacks %s", old)
				}
				text = strings.Replace(text, old, with, 1)
			}
			if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			a, err = trust.OpenAuthority(dir)
			if floor > topology.Number && fault.RefusalOf(err).GetCode() != "TOPOLOGY_TOO_NEW" {
				t.Errorf("%v, want TOPOLOGY_TOO_NEW", err)
			}
			if floor == topology.Number &&
				(err != nil || a.Accounts[a.Names[topology.AccountCore]] != "of-a-newer-program") {
				t.Errorf("signed again (%v)", err)
			}
			if string(read(t, path)) != text {
				t.Error("authority.json was written")
			}
		})
	}
}
