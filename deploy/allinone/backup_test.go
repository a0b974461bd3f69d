package allinone

import (
	"bytes"
	"context"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"

	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/topology"
)

// applications returns the names of the applications, with commas between them.
func applications(t *testing.T, c *bus.Conn) string {
	t.Helper()
	list := registryv1.File_garrison_registry_v1_registry_service_proto.Services().ByName("RegistryService").
		Methods().ByName("ListApplications")
	q := &registryv1.ListApplicationsRequest{}
	r, err := bus.Call[*registryv1.ListApplicationsResponse](t.Context(), c, topology.UserRegistry, list, q)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, a := range r.GetApplications() {
		names = append(names, a.GetName())
	}
	slices.Sort(names)
	return strings.Join(names, ",")
}

// serves starts a Garrison that ends with the test.
func serves(t *testing.T, data string) (*Garrison, *bus.Conn) {
	t.Helper()
	g := startIn(t, data)
	stop := running(t, g)
	t.Cleanup(func() { stop(); g.Close() })
	return g, asOperator(t, g)
}

// backsUp writes a backup of a Garrison that runs.
func backsUp(t *testing.T, g *Garrison, b Backup) string {
	t.Helper()
	b.Data, b.Log = filepath.Dir(g.ContextFile()), io.Discard
	if b.File == "" {
		b.File = filepath.Join(t.TempDir(), "backup")
	}
	if err := WriteBackup(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	return b.File
}

// restores makes a data directory of a backup.
func restores(t *testing.T, file, keys string) (data string, err error) {
	t.Helper()
	data = filepath.Join(t.TempDir(), "data")
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	return data, Restore(ctx, Restoring{File: file, Data: data, Keys: keys, Log: io.Discard})
}

func TestARestoredBackupHoldsWhatWasDecidedUntilThen(t *testing.T) {
	g, operator := serves(t, filepath.Join(t.TempDir(), "data"))
	recorded(t, operator, "before")
	file := backsUp(t, g, Backup{})
	bare := backsUp(t, g, Backup{WithoutKeys: true})
	recorded(t, operator, "after")

	data, err := restores(t, file, "")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(data, "address")); err != nil { // the first one still listens there
		t.Fatal(err)
	}
	_, restored := serves(t, data)
	if got := applications(t, restored); got != "before-0" {
		t.Errorf("the restored Garrison has the applications %q", got)
	}
	recorded(t, restored, "later") // it decides
	if got := applications(t, operator); got != "after-0,before-0" {
		t.Errorf("the first Garrison has the applications %q", got)
	}

	if _, err := restores(t, bare, ""); err == nil || !strings.Contains(err.Error(), "--keys") {
		t.Errorf("without keys: %v", err)
	}
	data, err = restores(t, bare, filepath.Dir(g.ContextFile()))
	if err != nil {
		t.Fatal(err)
	}
	seed, err := os.ReadFile(filepath.Join(data, "trust", "secrets.key"))
	want, e := os.ReadFile(filepath.Join(filepath.Dir(g.ContextFile()), "trust", "secrets.key"))
	if err != nil || e != nil || !bytes.Equal(seed, want) {
		t.Errorf("the keys are not those of the directory: %v, %v", err, e)
	}
	text, err := os.ReadFile(bare)
	if err != nil || bytes.Contains(text, want) {
		t.Errorf("a backup without keys holds one: %v", err)
	}
}

func TestABackupThatWasAlteredOrTruncatedIsRefused(t *testing.T) {
	g, _ := serves(t, filepath.Join(t.TempDir(), "data"))
	file := backsUp(t, g, Backup{})
	whole, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	altered := bytes.Clone(whole)
	altered[len(altered)/2] ^= 1
	for name, text := range map[string][]byte{
		"altered": altered, "truncated": whole[:len(whole)-512], "longer": append(bytes.Clone(whole), 0), "empty": nil,
		"of a few bytes": whole[:10],
	} {
		other := filepath.Join(t.TempDir(), "backup")
		if err := os.WriteFile(other, text, 0o600); err != nil {
			t.Fatal(err)
		}
		data, err := restores(t, other, "")
		if err == nil || !strings.Contains(err.Error(), "no whole backup") {
			t.Errorf("%s: %v", name, err)
		}
		if left, err := os.ReadDir(filepath.Dir(data)); err != nil || len(left) > 0 {
			t.Errorf("%s leaves %v, %v", name, left, err)
		}
	}
	data := filepath.Dir(g.ContextFile())
	err = Restore(t.Context(), Restoring{File: file, Data: data, Log: io.Discard})
	if err == nil || !strings.Contains(err.Error(), "is not empty") {
		t.Errorf("into a directory that is used: %v", err)
	}
	err = WriteBackup(t.Context(), Backup{Data: data, File: file, Log: io.Discard})
	if err == nil || !strings.Contains(err.Error(), "never replaces a file") {
		t.Errorf("onto a file that exists: %v", err)
	}
	if now, err := os.ReadFile(file); err != nil || !bytes.Equal(now, whole) {
		t.Errorf("the backup was changed: %v", err)
	}
}

// A disk that is too small for a backup or a restore keeps nothing of it.
func TestABackupThatDoesNotFitLeavesNothing(t *testing.T) {
	g, _ := serves(t, filepath.Join(t.TempDir(), "data"))
	if os.Getuid() != 0 {
		t.Skip("SKIPPED: a small disk needs a file system of its own, and only root may mount one")
	}
	disk := t.TempDir()
	if err := syscall.Mount("tmpfs", disk, "tmpfs", 0, "size=16k"); err != nil {
		t.Skipf("SKIPPED: a small disk needs a file system of its own: mount tmpfs: %v", err)
	}
	t.Cleanup(func() { _ = syscall.Unmount(disk, syscall.MNT_DETACH) })
	b := Backup{Data: filepath.Dir(g.ContextFile()), File: filepath.Join(disk, "backup"), Log: io.Discard}
	if err := WriteBackup(t.Context(), b); err == nil {
		t.Error("a backup was written to a disk that is too small")
	}
	file := backsUp(t, g, Backup{})
	r := Restoring{File: file, Data: filepath.Join(disk, "data"), Log: io.Discard}
	if err := Restore(t.Context(), r); err == nil {
		t.Error("a backup was restored to a disk that is too small")
	}
	if left, err := os.ReadDir(disk); err != nil || len(left) > 0 {
		t.Errorf("%v is left, %v", left, err)
	}
}
