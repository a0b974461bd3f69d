package engine

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"

	reportv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/report/v1"
	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"

	"github.com/garrison-fleet/garrison/pkg/logs"
	"github.com/garrison-fleet/garrison/services/executor/internal/journal"
)

// settle sweeps, makes sure that what the inventory says runs, and reports the end.
func (c *change) settle(ctx context.Context) error {
	c.closeNotify()
	err := c.step(ctx, sweep)
	// After the sweep, which may have made the space that a start needs.
	if err := c.keepInventory(); err != nil {
		c.log.Error().Err(err).Msg("agent not started")
	}
	if err := c.trimSockets(c.rec.Agent); err != nil {
		c.log.Error().Err(err).Msg("sockets not closed")
	}
	if ctx.Err() != nil {
		return errStopped
	}
	if err != nil {
		return err
	}
	c.mu.Lock()
	delete(c.steps, c.rec.Agent)
	delete(c.sick, c.rec.Agent) // what runs now was proven; what the probe said before was of another version
	c.mu.Unlock()
	return c.end()
}

// keepInventory keeps the version running that the inventory names.
func (c *change) keepInventory() error {
	var now *journal.Instance
	err := c.cfg.Journal.Read(func(tx *journal.Tx) (err error) {
		now, err = tx.Instance(c.rec.Agent)
		return err
	})
	if err != nil || now == nil {
		return err
	}
	return c.keepSide(sideOf(now))
}

// end closes the change in one write: how it ended, what is there now, and the reports.
func (c *change) end() error {
	found, err := c.found()
	if err != nil {
		return err
	}
	state, outcome := c.rec.State(), c.rec.Outcome()
	err = c.cfg.Journal.Update(func(tx *journal.Tx) error {
		if err := tx.DropChange(c.rec.Agent); err != nil {
			return err
		}
		if err := tx.Say(c.agentsReport(found, tx.Applied(), "")); err != nil {
			return err
		}
		if c.rec.Verb == taskv1.Verb_VERB_REMOVE && c.rec.Failure == nil {
			if err := tx.Say(c.receipt()); err != nil {
				return err
			}
		}
		return c.endTask(tx, state, outcome)
	})
	if err != nil {
		return fmt.Errorf("%w: %w", errJournal, err)
	}
	c.cfg.FailPoint("ended")
	c.log.Info().Str(logs.State, state.String()).Dur(logs.Took, time.Since(c.rec.BeganAt)).Msg("change ended")
	return nil
}

func (c *change) endTask(tx *journal.Tx, state taskv1.State, outcome *taskv1.Outcome) error {
	if c.rec.TaskID == "" {
		return nil
	}
	data, err := proto.Marshal(outcome)
	if err != nil {
		return err
	}
	return errors.Join(
		tx.End(c.rec.TaskID, journal.Ended{State: state, Outcome: data, At: time.Now()}),
		tx.Say(c.taskReport(c.rec.TaskID, state, outcome)))
}

func (c *change) receipt() *reportv1.Report {
	r := &reportv1.ReceiptReport{TaskId: c.rec.TaskID, InstanceId: c.rec.InstanceID, Agent: c.rec.Agent}
	for _, p := range c.rec.Removed {
		r.Removed = append(r.Removed, &reportv1.Removed{Path: strings.ToValidUTF8(p.Path, "?"), LeftBecause: p.LeftBecause})
	}
	out := c.report()
	out.Body = &reportv1.Report_Receipt{Receipt: r}
	return out
}

// needed says whether an image is named by the inventory or by a change other than except.
func (e *Engine) needed(digest []byte, except *journal.Change) (needed bool, err error) {
	err = e.cfg.Journal.Read(func(tx *journal.Tx) error {
		instances, err := tx.Instances()
		if err != nil {
			return err
		}
		changes, err := tx.Changes()
		if err != nil {
			return err
		}
		for _, i := range instances {
			needed = needed || bytes.Equal(i.Image.Digest(), digest)
		}
		for _, c := range changes {
			if except == nil || c.Agent != except.Agent {
				needed = needed || bytes.Equal(c.To.Digest(), digest) || c.From != nil && bytes.Equal(c.From.Image.Digest(), digest)
			}
		}
		return nil
	})
	return needed, err
}

// sweepAll deletes every image and cache that nothing needs: what crashes left behind.
func (e *Engine) sweepAll() error {
	all := e.images.SweepTemporary()
	images, caches := e.images.Others()
	for _, name := range append(images, caches...) {
		digest, err := hex.DecodeString(name)
		if err != nil || len(digest) != digestBytes {
			continue // not ours
		}
		_, err = e.images.Remove(digest, func() (bool, error) { return e.needed(digest, nil) })
		all = errors.Join(all, err, e.images.DropCache(digest))
	}
	return all
}
