package chaos

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"github.com/garrison-fleet/garrison/e2e/fleet"
	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/client"
	"github.com/garrison-fleet/garrison/pkg/freeport"
	"github.com/garrison-fleet/garrison/pkg/topology"
	"github.com/garrison-fleet/garrison/pkg/trust"
)

// Options describe a world.
type Options struct {
	Bin     string    // where the binaries are
	Dir     string    // where everything goes; must be empty or missing
	Apart   bool      // two registries, two dispatchers, a catalog and a bus, each a process
	Servers int       // servers that stay for all rounds
	Log     io.Writer // what happens, a line each
}

// World is a fleet under chaos.
type World struct {
	*fleet.Fleet
	opts   Options
	tuner  map[string]int // the port of the agent tuner, by server
	disks  []*disk        // file systems of their own that can be filled
	guest  int            // counts the servers that come and go
	conn   *bus.Conn      // the operator's, which reconnects by itself
	client *client.Client // on conn

	mu           sync.Mutex
	acknowledged []string // the ids of intents that the bus acknowledged
	sent         int      // how many were published, acknowledged or not
}

const (
	beat     = time.Second
	deadline = 60 * time.Second // of a task
)

// New starts a control plane with servers and the images of both agents. Close must follow, also after an error.
func New(ctx context.Context, o Options) (*World, error) {
	f, err := fleet.New(fleet.Options{ // versions that fail are asked for again and again
		Bin: o.Bin, Dir: o.Dir, Apart: o.Apart, Beat: beat, Deadline: deadline, Views: o.Apart, Retry: true,
	})
	if err != nil {
		return nil, err
	}
	w := &World{Fleet: f, opts: o, tuner: map[string]int{}}
	w.mountDisk("the control plane", f.DataDir(), controlDisk)
	if err := w.start(ctx); err != nil {
		return w, err
	}
	for n := range o.Servers {
		name := "n" + strconv.Itoa(n)
		if n == 0 {
			w.mountDisk(name, filepath.Join(f.Dir, "servers", name), serverDisk)
		}
		if err := w.addServer(ctx, name); err != nil {
			return w, err
		}
	}
	return w, w.prepareAgents(ctx)
}

func (w *World) start(ctx context.Context) error {
	if err := w.Start(ctx); err != nil {
		return err
	}
	if w.opts.Apart {
		for _, service := range []string{topology.UserRegistry, topology.UserDispatcher} {
			if err := w.Replica(service).Start(); err != nil {
				return err
			}
		}
	}
	c, err := trust.ReadContext(w.ContextFile())
	if err != nil {
		return err
	}
	w.conn, err = bus.Dial(bus.Options{
		URL: c.URL, Name: c.Actor, TLS: bus.TLSOf(c), Credentials: c.Credentials,
		Log: zerolog.Nop(), Persist: true, MaxBackoff: time.Second,
	})
	if err != nil {
		return err
	}
	w.client = client.New(w.conn, 0)
	return nil
}

// addServer enrols a server with a port for each agent and starts its executor.
func (w *World) addServer(ctx context.Context, name string) error {
	port, err := freeport.Take()
	if err != nil {
		return err
	}
	w.tuner[name] = port
	_, err = w.AddServer(ctx, name, "tuner="+strconv.Itoa(port))
	return err
}

// processes returns every process of the control plane.
func (w *World) processes() []*fleet.Process {
	out := []*fleet.Process{w.Garrisond}
	for _, name := range topology.Services {
		if p := w.Services[name]; p != nil {
			out = append(out, p)
		}
	}
	return append(out, w.Replicas()...)
}

func (w *World) logf(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	fmt.Fprintf(w.opts.Log, time.Now().Format("15:04:05 ")+format+"\n", args...)
}

// Close ends everything and takes the mounted disks away.
func (w *World) Close() error {
	if w.conn != nil {
		w.conn.Close()
	}
	var errs []error
	for _, p := range w.processes() {
		errs = append(errs, p.Resume())
	}
	for _, s := range w.Servers() {
		errs = append(errs, s.Executor.Resume())
	}
	errs = append(errs, w.Fleet.Close())
	for _, d := range w.disks {
		errs = append(errs, d.unmount())
	}
	return errors.Join(errs...)
}
