package executor

import (
	"context"

	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/services/executor/internal/engine"
	"github.com/garrison-fleet/garrison/services/executor/internal/identity"
	"github.com/garrison-fleet/garrison/services/executor/internal/journal"
	"github.com/garrison-fleet/garrison/services/executor/internal/layout"
	"github.com/garrison-fleet/garrison/services/executor/internal/lifecycle"
	"github.com/garrison-fleet/garrison/services/executor/internal/link"
	"github.com/garrison-fleet/garrison/services/executor/internal/removal"
	"github.com/garrison-fleet/garrison/services/executor/internal/selfupdate"
	"github.com/garrison-fleet/garrison/services/executor/internal/status"
)

// Removal are the options of Remove.
type Removal = removal.Options

// RemovalWithin is how long the agents of a dead server usually need to be removed.
const RemovalWithin = removal.Within

// Remove removes the executor under the root in its place, where the decision allows that and no
// executor runs. It may be repeated. An error is NotFound where no server joined.
func Remove(ctx context.Context, cfg Config, o Removal) error {
	x := New(cfg)
	var err error
	if x.root, err = layout.New(cfg.Root); err != nil {
		return err
	}
	return removal.Run(ctx, x.removal(), o)
}

// removal returns what a removal of this executor needs.
func (x *Executor) removal() removal.Config {
	program, _ := selfupdate.Bootstrap() // only named
	return removal.Config{
		Root: x.root, Executor: removed{x}, Program: program, KeepMark: x.cfg.Rejoins,
		Expect: x.notifier.Expect, Log: x.cfg.Log, FailPoint: x.cfg.FailPoint,
	}
}

// removed is an executor that is removed. It implements removal.Executor.
type removed struct{ x *Executor }

func (r removed) Identity() (identity.Identity, error) { return r.x.identity() }

func (r removed) Dial(who identity.Identity, persist bool) (*bus.Conn, error) {
	return r.x.dial(who, persist)
}

func (r removed) Link(who identity.Identity, conn *bus.Conn, j *journal.Journal) *link.Link {
	return link.New(r.x.linkConfig(who, conn, &backend{journal: j}))
}

func (r removed) OpenJournal(server string) (*journal.Journal, error) { return r.x.openJournal(server) }

// Engine returns the config of an engine without a bus, with the supervisor that ran the agents.
func (r removed) Engine(who identity.Identity, j *journal.Journal) (engine.Config, func(), error) {
	x := *r.x
	x.cfg.Supervisor = SupervisorDirect
	was, err := j.Note(noteSupervisor)
	if err != nil {
		return engine.Config{}, nil, err
	}
	if was == SupervisorSystemd {
		x.cfg.Supervisor = SupervisorAuto
	}
	x.process = selfupdate.Fixed(x.selfUpdate(), "this process removes it")
	return x.engineConfig(who, j, nil, x.cfg.Log)
}

// Reported returns what the status of the running executor says.
func (r removed) Reported() (left removal.Remaining, err error) {
	s, err := status.Read(string(r.x.root))
	left.Inventory = lifecycle.InventoryTrusted
	if lifecycle.OfInventory(s.Code) {
		left.Inventory, left.Doubt = lifecycle.InventoryUntrusted, s.Reason
	}
	for _, a := range s.Agents {
		left.Agents = append(left.Agents, a.Agent)
		if a.Step != "" {
			left.Changes = append(left.Changes, a.Agent)
		}
	}
	return left, err
}
