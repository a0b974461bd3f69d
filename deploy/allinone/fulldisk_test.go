package allinone

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/rs/zerolog"

	applicationv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/application/v1"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"

	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/record"
	"github.com/garrison-fleet/garrison/pkg/topology"
	"github.com/garrison-fleet/garrison/pkg/trust"
)

// smallDisk mounts a file system of its own with the data of a new Garrison.
func smallDisk(t *testing.T) string {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("SKIPPED: a full disk needs a file system of its own, and only root may mount one")
	}
	made := filepath.Join(t.TempDir(), "data")
	first := startIn(t, made) // here, because a first start needs more space than the small disk has
	stop := running(t, first)
	recorded(t, asOperator(t, first), "before")
	stop()
	first.Close()
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=96m"); err != nil {
		t.Skipf("SKIPPED: a full disk needs a file system of its own: mount tmpfs: %v", err)
	}
	t.Cleanup(func() { _ = syscall.Unmount(dir, syscall.MNT_DETACH) })
	data := filepath.Join(dir, "data")
	if err := os.CopyFS(data, os.DirFS(made)); err != nil {
		t.Fatal(err)
	}
	return data
}

func startIn(t *testing.T, data string) *Garrison {
	t.Helper()
	g, err := tryStart(t, data)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func tryStart(t *testing.T, data string) (*Garrison, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	return Start(ctx, Config{Data: data, Listen: "127.0.0.1:0", Log: zerolog.Nop()})
}

// fill writes until the file system of dir is full, and returns a function that frees the space.
func fill(t *testing.T, dir string) (free func()) {
	t.Helper()
	name := filepath.Join(filepath.Dir(dir), "filler")
	f, err := os.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	for block := make([]byte, 64<<10); len(block) > 0; {
		if _, err := f.Write(block); err != nil {
			block = block[:len(block)/2]
		}
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	return func() {
		if err := os.Remove(name); err != nil {
			t.Error(err)
		}
	}
}

// create asks the registry for a new application.
func create(ctx context.Context, c *bus.Conn, name string) error {
	method := registryv1.File_garrison_registry_v1_registry_service_proto.Services().
		ByName("RegistryService").
		Methods().
		ByName("PutRecord")
	q := record.Create(&applicationv1.Application{Name: name})
	_, err := bus.Call[*registryv1.PutRecordResponse](ctx, c, topology.UserRegistry, method, q)
	return err
}

// recorded waits until the registry has recorded an application.
func recorded(t *testing.T, c *bus.Conn, name string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := untilRecorded(ctx, c, name); err != nil {
		t.Fatalf("there is space, and nothing is recorded: %v", err)
	}
}

// untilRecorded creates applications until one is recorded. Each has another name, because an attempt without an answer
// may have been recorded.
func untilRecorded(ctx context.Context, c *bus.Conn, name string) error {
	for i := 0; ; i++ {
		err := create(ctx, c, fmt.Sprint(name, "-", i))
		if err == nil || ctx.Err() != nil {
			return err
		}
		time.Sleep(50 * time.Millisecond)
	}
}

func asOperator(t *testing.T, g *Garrison) *bus.Conn {
	t.Helper()
	soon, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := g.WaitReady(soon); err != nil {
		t.Fatal(err)
	}
	who, err := trust.ReadContext(g.ContextFile())
	if err != nil {
		t.Fatal(err)
	}
	c, err := bus.Dial(bus.Options{
		URL:         g.URL(),
		Name:        who.Actor,
		TLS:         bus.TLSOf(who),
		Credentials: who.Credentials,
		Log:         zerolog.Nop(),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	if err := c.WaitConnected(t.Context()); err != nil {
		t.Fatal(err)
	}
	return c
}

// A Garrison that starts on a full disk decides again once there is space.
func TestAStartOnAFullDiskIsNoStandstillForGood(t *testing.T) {
	t.Parallel()
	data := smallDisk(t)
	free := fill(t, data)
	g, err := tryStart(t, data)
	if err != nil { // a start that needs space fails; the next one may need none
		if g, err = tryStart(t, data); err != nil {
			t.Skipf("SKIPPED: it does not start at all on a full disk: %v", err)
		}
	}
	g.store.every = 50 * time.Millisecond
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	ended := make(chan error, 1)
	go func() { ended <- g.Run(ctx) }()
	c := asOperator(t, g)
	for i := 0; ; i++ { // the last page of a file may have space for some
		once, cancel := context.WithTimeout(ctx, 5*time.Second)
		err := create(once, c, fmt.Sprint("while-full-", i))
		cancel()
		if err != nil && fault.RefusalOf(err).GetCode() != "NO_ANSWER" ||
			errors.Is(once.Err(), context.DeadlineExceeded) {
			break // it answers, and cannot write
		}
		if i == 1000 {
			t.Fatal("1,000 facts were recorded on a full disk")
		}
	}
	if HasRoom(data) == nil {
		t.Error("a full disk has room")
	}
	free()

	halt := func() { stop(); <-ended }
	tries, end := context.WithTimeout(ctx, time.Minute)
	defer end()
	written := make(chan error, 1)
	go func() { written <- untilRecorded(tries, c, "by-itself") }()
	select {
	case err = <-ended: // it asks for a restart
		g.Close()
		if !errors.Is(err, ErrStore) {
			t.Fatalf("ended with %v, want ErrStore", err)
		}
		g = startIn(t, data)
		halt = running(t, g)
		c = asOperator(t, g)
	case err = <-written: // or writes by itself
		if err != nil {
			t.Fatalf("it neither ends nor writes: %v", err)
		}
	}
	defer g.Close()
	defer halt()
	recorded(t, c, "with-room")
}
