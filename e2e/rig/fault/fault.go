// Package fault breaks parts of a rig for a while: processes are killed and paused, servers of the bus are cut off,
// disks are full.
package fault

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"syscall"
	"time"

	"github.com/garrison-fleet/garrison/e2e/rig"
)

// Fault is something that is wrong between Begin and End. Both may be nil.
type Fault struct {
	Begin func() error
	End   func() error
}

// Killed ends processes with SIGKILL, all at once, and starts them again in their order.
func Killed(processes ...*rig.Process) Fault {
	return Fault{
		func() error { return each(processes, (*rig.Process).Kill) },
		func() error {
			var errs []error
			for _, p := range processes {
				errs = append(errs, p.Revive())
			}
			return errors.Join(errs...)
		},
	}
}

// each does something to all processes at once.
func each(processes []*rig.Process, do func(*rig.Process) error) error {
	errs := make(chan error, len(processes))
	for _, p := range processes {
		go func() { errs <- do(p) }()
	}
	var err error
	for range processes {
		err = errors.Join(err, <-errs)
	}
	return err
}

// Paused stops a process with SIGSTOP; its connections stay.
func Paused(p *rig.Process) Fault { return Fault{p.Pause, p.Resume} }

// KilledAgent ends an agent's process with SIGKILL. Its executor starts it again.
func KilledAgent(pid int) Fault { return Fault{Begin: signal(pid, syscall.SIGKILL)} }

// PausedAgent stops an agent's process with SIGSTOP.
func PausedAgent(pid int) Fault {
	return Fault{signal(pid, syscall.SIGSTOP), signal(pid, syscall.SIGCONT)}
}

// signal sends a signal, also to a process that ended meanwhile.
func signal(pid int, s syscall.Signal) func() error {
	return func() error {
		if err := syscall.Kill(pid, s); !errors.Is(err, syscall.ESRCH) {
			return err
		}
		return nil
	}
}

// CutOff lets nothing pass between a server of the bus and anybody else; see rig.Options.Networks.
func CutOff(f *rig.Fleet, member int) Fault {
	return Fault{func() error { return f.CutOff(member) }, func() error { return f.Rejoin(member) }}
}

// Start begins the fault.
func (f Fault) Start() error { return call(f.Begin) }

// Stop ends the fault.
func (f Fault) Stop() error { return call(f.End) }

func call(do func() error) error {
	if do == nil {
		return nil
	}
	return do()
}

// For begins the fault and ends it after some time, or when ctx ends.
func (f Fault) For(ctx context.Context, d time.Duration) error {
	err := f.Start()
	_ = rig.Sleep(ctx, d)
	return errors.Join(err, f.Stop())
}

// Again repeats the fault for so long, with a pause before each, until ctx ends. It ends with nothing wrong.
func (f Fault) Again(ctx context.Context, pause, d time.Duration) error {
	for rig.Sleep(ctx, pause) == nil {
		if err := f.For(ctx, d); err != nil {
			return err
		}
	}
	return nil
}

// Damage is a way in which a file is damaged.
type Damage string

// The ways.
const (
	Deleted   Damage = "deleted"
	Emptied   Damage = "emptied"
	Truncated Damage = "truncated"
	Flipped   Damage = "flipped" // twenty bytes are changed
	Garbage   Damage = "replaced by garbage"
	SetBack   Damage = "set back" // to the copy that was made when the round began
)

// damages lists every way; the last needs a copy.
var damages = []Damage{Deleted, Emptied, Truncated, Flipped, Garbage, SetBack}

// DamageFile damages a file in a way that pick chooses. Without an old copy it is not set back.
func DamageFile(path, old string, pick uint64) (Damage, error) {
	ways := damages
	if _, err := os.Stat(old); old == "" || err != nil {
		ways = damages[:len(damages)-1]
	}
	way := ways[pick%uint64(len(ways))]
	data, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return "missing already", nil
	}
	if err != nil {
		return way, err
	}
	random := rand.New(rand.NewPCG(pick, 3))
	switch way {
	case Deleted:
		return way, os.Remove(path)
	case Emptied:
		data = nil
	case Truncated:
		data = data[:len(data)/2]
	case Flipped:
		for range min(20, len(data)) {
			data[random.IntN(len(data))] ^= 0xff
		}
	case Garbage:
		for i := range data {
			data[i] = byte(random.Uint32())
		}
	case SetBack:
		if data, err = os.ReadFile(old); err != nil {
			return way, err
		}
	}
	if err := os.WriteFile(path, data, 0o600); err != nil {
		return way, fmt.Errorf("damage %s: %w", path, err)
	}
	return way, nil
}
