package allinone

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/rs/zerolog"

	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"

	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/record"
	"github.com/garrison-fleet/garrison/pkg/topology"
)

// applications returns the names of the applications, with commas between them.
func applications(t *testing.T, c *bus.Conn) string {
	t.Helper()
	list := registryv1.File_garrison_registry_v1_registry_service_proto.Services().ByName("RegistryService").
		Methods().ByName("ListRecords")
	q := record.List(ledger.Application)
	r, err := bus.Call[*registryv1.ListRecordsResponse](t.Context(), c, topology.UserRegistry, list, q)
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
	t.Parallel()
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

// altersTar writes a copy of a backup in which change may replace or leave out entries.
func altersTar(t *testing.T, file string, change func(h *tar.Header, text []byte) []byte) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	to, from := tar.NewWriter(&out), tar.NewReader(bytes.NewReader(text[:len(text)-sha256.Size]))
	for {
		h, err := from.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(from)
		if err != nil {
			t.Fatal(err)
		}
		if text = change(h, text); text == nil {
			continue
		}
		if err := add(to, h.Name, text); err != nil {
			t.Fatal(err)
		}
	}
	if err := to.Close(); err != nil {
		t.Fatal(err)
	}
	digest := sha256.Sum256(out.Bytes())
	other := filepath.Join(t.TempDir(), "backup")
	if err := os.WriteFile(other, append(out.Bytes(), digest[:]...), 0o600); err != nil {
		t.Fatal(err)
	}
	return other
}

func TestABackupOfAClusterIsRestoredToOneServer(t *testing.T) {
	t.Parallel()
	g, operator := serves(t, filepath.Join(t.TempDir(), "data"))
	recorded(t, operator, "before")
	file := altersTar(t, backsUp(t, g, Backup{}), func(h *tar.Header, text []byte) []byte {
		if path.Base(h.Name) != streamHead {
			return text
		}
		var head bus.SnapshotHead
		if err := json.Unmarshal(text, &head); err != nil {
			t.Fatal(err)
		}
		head.Config.Replicas, head.Config.PersistMode = 3, jetstream.DefaultPersistMode
		text, err := json.Marshal(head)
		if err != nil {
			t.Fatal(err)
		}
		return text
	})
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
}

func TestABackupWithoutItsKeysOrOutOfOrderIsRefused(t *testing.T) {
	t.Parallel()
	g, _ := serves(t, filepath.Join(t.TempDir(), "data"))
	file, bare := backsUp(t, g, Backup{}), backsUp(t, g, Backup{WithoutKeys: true})
	renamed := func(file, from, to string) string {
		return altersTar(t, file, func(h *tar.Header, text []byte) []byte {
			if h.Name == from {
				h.Name = to
			}
			return text
		})
	}
	dropped := func(file, prefix string) string {
		return altersTar(t, file, func(h *tar.Header, text []byte) []byte {
			if strings.HasPrefix(h.Name, prefix) {
				return nil
			}
			return text
		})
	}
	keys := filepath.Dir(g.ContextFile())
	const part = "streams/BLOBS/stream.json"
	for name, c := range map[string]struct{ file, keys, want string }{
		"keys of another directory": {bare, t.TempDir(), "the keys are not there"},
		"without the keys":          {dropped(file, "files/trust/secrets.key"), "", "the keys are not there"},
		"without its head":          {dropped(file, backupHead), "", "is before"},
		"with a second head":        {renamed(bare, part, backupHead), keys, "not belong there"},
		"with keys it lacks":        {renamed(bare, part, "files/trust/secrets.key"), keys, "not belong there"},
		"with a file of no key":     {renamed(file, "files/operator.json", "files/format"), "", "not belong there"},
		"with a path that escapes":  {renamed(file, "files/operator.json", "files/trust/../format"), "", "is outside"},
		"with an unknown stream":    {renamed(bare, part, "streams/OTHER/stream.json"), keys, "not belong there"},
		"with a stream twice":       {renamed(bare, part, "streams/LEDGER/stream.json"), keys, "not belong there"},
		"without a stream":          {dropped(bare, "streams/BLOBS/"), keys, "does not hold the stream BLOBS"},
	} {
		data, err := restores(t, c.file, c.keys)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", name, err)
		}
		if left, err := os.ReadDir(filepath.Dir(data)); err != nil || len(left) > 0 {
			t.Errorf("%s leaves %v, %v", name, left, err)
		}
	}
	empty := t.TempDir()
	err := WriteBackup(t.Context(), Backup{
		Data: empty, URL: g.URL(), File: filepath.Join(t.TempDir(), "backup"), Log: io.Discard,
	})
	if err == nil || !strings.Contains(err.Error(), "the keys are not there") {
		t.Errorf("a backup with a directory without keys: %v", err)
	}
	if left, err := os.ReadDir(empty); err != nil || len(left) > 0 {
		t.Errorf("a backup made %v, %v", left, err)
	}
}

// A bus that moves is served without services, so that the move can go on, and is not backed up.
func TestABusThatMovesIsServedWithoutServices(t *testing.T) {
	t.Parallel()
	data := filepath.Join(t.TempDir(), "data")
	g := startIn(t, data)
	nc, err := nats.Connect("", nats.Timeout(time.Minute), nats.InProcessServer(g.server),
		nats.CustomInboxPrefix(topology.Inbox(topology.UserProvision)),
		nats.UserCredentials(g.authority.ServiceCredentials(topology.UserProvision)))
	if err != nil {
		t.Fatal(err)
	}
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	s, err := js.Stream(t.Context(), topology.Ledger)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := js.UpdateStream(t.Context(), topology.Fenced(s.CachedInfo().Config)); err != nil {
		t.Fatal(err)
	}
	nc.Close()
	g.Close()

	if g, err := tryStart(t, data); fault.RefusalOf(err) == nil || fault.RefusalOf(err).Code != code.BusMoved {
		t.Fatalf("with services it starts: %v, %v", g, err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	g, err = Start(ctx, Config{Data: data, Listen: "127.0.0.1:0", Services: []string{}, Log: zerolog.Nop()})
	if err != nil {
		t.Fatal(err)
	}
	stop := running(t, g)
	t.Cleanup(func() { stop(); g.Close() })
	if err := g.WaitReady(ctx); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "backup")
	err = WriteBackup(ctx, Backup{Data: data, File: file, Log: io.Discard})
	if err == nil || !strings.Contains(err.Error(), "pass --url of the cluster") {
		t.Errorf("a backup of a bus that moves: %v", err)
	}
	if _, err := os.Stat(file); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("it left a file: %v", err)
	}
}

func TestABackupThatWasAlteredOrTruncatedIsRefused(t *testing.T) {
	t.Parallel()
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
	t.Parallel()
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
