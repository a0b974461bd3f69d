package executor

import (
	"context"
	"fmt"

	"github.com/garrison-fleet/garrison/services/executor/internal/layout"
	"github.com/garrison-fleet/garrison/services/executor/internal/link"
	"github.com/garrison-fleet/garrison/services/executor/internal/selfupdate"
)

// selfUpdate returns what the self-update of this executor needs.
func (x *Executor) selfUpdate() selfupdate.Config {
	return selfupdate.Config{
		Root: x.root, Args: x.cfg.Args, URL: x.cfg.URL, SteadyAfter: x.cfg.SteadyAfter, Notifier: x.notifier,
		ReadBus: func(ctx context.Context) error { _, err := x.readDocument(ctx); return err },
		Log:     x.cfg.Log, FailPoint: x.cfg.FailPoint,
	}
}

// readDocument connects anew and returns the generation of the server's document; 0 without one.
func (x *Executor) readDocument(ctx context.Context) (generation uint64, err error) {
	who, err := x.identity()
	if err != nil {
		return 0, err
	}
	conn, err := x.dial(who, false)
	if err != nil {
		return 0, err
	}
	defer conn.Close()
	d, err := link.Document(ctx, conn, who.Address())
	if err != nil {
		return 0, fmt.Errorf("read the document: %w", err)
	}
	return d.GetGeneration(), nil
}

// Rehearsal is what an executor shows before it may replace another one.
type Rehearsal = selfupdate.Rehearsal

// Rehearse reads all of a journal, which must be a copy, connects to the bus as Run does, and reads
// the server's document. It changes nothing else.
func Rehearse(ctx context.Context, cfg Config, copied string) (Rehearsal, error) {
	x := New(cfg)
	var err error
	if x.root, err = layout.New(cfg.Root); err != nil {
		return Rehearsal{}, err
	}
	return selfupdate.Examine(copied, func() (uint64, error) { return x.readDocument(ctx) })
}
