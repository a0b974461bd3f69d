package chaos

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strconv"
	"time"

	"github.com/garrison-fleet/garrison/e2e/rig"
	"github.com/garrison-fleet/garrison/e2e/rig/fault"
	"github.com/garrison-fleet/garrison/pkg/client"
	"github.com/garrison-fleet/garrison/pkg/freeport"
	"github.com/garrison-fleet/garrison/pkg/topology"
	dispatcherv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/dispatcher/v1"
	instancev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/instance/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"
	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"
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
	*rig.Fleet
	opts   Options
	tuner  map[string]int   // the port of the agent tuner, by server
	gates  map[string]*gate // between each server and the bus
	disks  []*fault.Disk    // file systems of their own that can be filled
	guest  int              // counts the servers that come and go
	client *client.Client   // the operator's, which reconnects by itself
}

const (
	beat = time.Second
	// The sizes of the file systems that can be filled, in MiB.
	controlDisk, serverDisk = 1024, 192
	deadline                = 60 * time.Second // of a task
)

// New starts a control plane with servers and the images of both agents. Close must follow, also after an error.
func New(ctx context.Context, o Options) (*World, error) {
	f, err := rig.New(rig.Options{ // versions that fail are asked for again and again
		Bin: o.Bin, Dir: o.Dir, Apart: o.Apart, Beat: beat, Deadline: deadline, Views: o.Apart, Retry: true,
	})
	if err != nil {
		return nil, err
	}
	w := &World{Fleet: f, opts: o, tuner: map[string]int{}, gates: map[string]*gate{}}
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
	var err error
	w.client, err = w.Client(ctx, 0)
	w.Intents.Client = w.client
	return err
}

// mountDisk mounts a file system of its own. Where that is not allowed, rounds with a full disk are skipped, and their
// results say so.
func (w *World) mountDisk(whose, dir string, mebibytes int) {
	d, err := fault.MountDisk(whose, dir, mebibytes)
	if err != nil {
		w.logf("no disk of its own for %s: %v", whose, err)
		return
	}
	w.disks = append(w.disks, d)
}

// addServer enrols a server with a port for each agent and starts its executor.
func (w *World) addServer(ctx context.Context, name string) error {
	port, err := freeport.Take()
	if err != nil {
		return err
	}
	w.tuner[name] = port
	s, err := w.JoinServer(ctx, name, "tuner="+strconv.Itoa(port))
	if err != nil {
		return err
	}
	if w.gates[name], err = throughGate(s); err != nil {
		return err
	}
	return s.Executor.Start()
}

// everyProcess returns the processes of the control plane and the executors; the bus is the first.
func (w *World) everyProcess() []*rig.Process {
	all := w.Processes()
	for _, s := range w.Servers() {
		all = append(all, s.Executor)
	}
	return all
}

func (w *World) logf(format string, args ...any) {
	fmt.Fprintf(w.opts.Log, time.Now().Format("15:04:05 ")+format+"\n", args...)
}

// Close ends everything and takes the mounted disks away.
func (w *World) Close() error {
	if w.client != nil {
		w.client.Close()
	}
	var errs []error
	for _, p := range w.everyProcess() {
		errs = append(errs, p.Resume())
	}
	errs = append(errs, w.Fleet.Close())
	for _, g := range w.gates {
		errs = append(errs, g.listener.Close())
	}
	for _, d := range w.disks {
		errs = append(errs, d.Unmount())
	}
	return errors.Join(errs...)
}

// servers returns what the registry says of every server that is not dead, by name.
func (w *World) servers(ctx context.Context) (map[string]*serverv1.Server, error) {
	out := map[string]*serverv1.Server{}
	for s, err := range w.client.Servers(ctx, nil) {
		if err != nil {
			return nil, err
		}
		out[s.Name] = s
	}
	return out, nil
}

// instances returns what the registry says of every instance, by server name and agent.
func (w *World) instances(ctx context.Context) (map[string]map[string]*instancev1.Instance, error) {
	out := map[string]map[string]*instancev1.Instance{}
	for row, err := range w.client.Instances(ctx, nil) {
		if err != nil {
			return nil, err
		}
		if out[row.ServerName] == nil {
			out[row.ServerName] = map[string]*instancev1.Instance{}
		}
		out[row.ServerName][row.Instance.Agent] = row.Instance
	}
	return out, nil
}

// openTasks returns the tasks that have not ended.
func (w *World) openTasks(ctx context.Context) (open []*taskv1.Task, err error) {
	q := &dispatcherv1.ListTasksRequest{
		States: []taskv1.State{taskv1.State_STATE_QUEUED, taskv1.State_STATE_ASSIGNED, taskv1.State_STATE_RUNNING},
	}
	for t, err := range w.client.Tasks(ctx, q) {
		if err != nil {
			return nil, err
		}
		open = append(open, t)
	}
	return open, nil
}
