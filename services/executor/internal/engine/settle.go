package engine

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"

	desiredv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/desired/v1"
	reportv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/report/v1"

	"github.com/garrison-fleet/garrison/services/executor/internal/journal"
)

// settle sweeps, makes sure that what the inventory says runs, and reports the end.
func (c *change) settle(ctx context.Context) error {
	c.closeNotify()
	c.giveBackSpace()
	err := c.step(ctx, sweep)
	c.noteRepair()
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
	if c.rec.NotProven != "" {
		c.sick[c.rec.Agent] = c.rec.NotProven
	} else {
		delete(c.sick, c.rec.Agent) // what runs now was proven; what the probe said before was of another version
	}
	c.settled[c.rec.Agent] = time.Now()
	c.mu.Unlock()
	if err := c.settleRecord(); err != nil {
		c.log.Error().Err(err).Msg("record beside the agent not written")
	}
	if err := c.end(); err != nil {
		return err
	}
	return c.replaceSelf()
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

// close takes a change out of the journal and keeps how its task ended.
func (c *change) close(tx *journal.Tx) error {
	if err := tx.DropChange(c.rec.Agent); err != nil || c.rec.TaskID == "" {
		return err
	}
	data, err := proto.Marshal(c.rec.Outcome())
	if err != nil {
		return err
	}
	return tx.End(c.rec.TaskID, journal.Ended{State: c.rec.State(), Outcome: data, At: time.Now()})
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

// needed says whether an image is named by the inventory, by a change other than except,
// or is kept.
func (e *Engine) needed(digest []byte, except *journal.Change) (needed bool, err error) {
	if needed, err = e.neededBesideKept(digest, except); needed || err != nil {
		return needed, err
	}
	err = e.cfg.Journal.Read(func(tx *journal.Tx) error {
		kept, err := tx.Kept()
		for _, of := range kept {
			needed = needed || slices.ContainsFunc(of, func(k journal.Kept) bool { return !k.Going && bytes.Equal(k.Image.Digest(), digest) })
		}
		return err
	})
	return needed, err
}

// neededBesideKept says the same, but for what is only kept.
func (e *Engine) neededBesideKept(digest []byte, except *journal.Change) (needed bool, err error) {
	err = e.cfg.Journal.Read(func(tx *journal.Tx) error {
		in, err := neededIn(tx, except)
		if err == nil {
			needed = in(digest)
		}
		return err
	})
	return needed, err
}

func neededIn(tx *journal.Tx, except *journal.Change) (func(digest []byte) bool, error) {
	instances, err := tx.Instances()
	if err != nil {
		return nil, err
	}
	changes, err := tx.Changes()
	if err != nil {
		return nil, err
	}
	names := map[string]bool{}
	for _, i := range instances {
		names[hexOf(i.Image.Digest())] = true
	}
	for _, c := range changes {
		if except == nil || c.Agent != except.Agent {
			names[hexOf(c.To.Digest())] = true
			if c.From != nil {
				names[hexOf(c.From.Image.Digest())] = true
			}
		}
	}
	return func(digest []byte) bool { return names[hexOf(digest)] }, nil
}

// sweepUnasked deletes the images and chunks that neither the inventory, nor a change, nor
// the document asks for: what crashes left behind. Those of an interrupted change stay
// until a document has come: it brings the change back, and what came over a slow line is
// not fetched again.
func (e *Engine) sweepUnasked() error {
	all := errors.Join(e.images.SweepRemoved(), e.sweepFresh())
	images, caches := e.images.Others()
	for _, digest := range digestsOf(append(images, caches...)) {
		asked := func() (bool, error) {
			if slices.ContainsFunc(e.document.GetEntries(), func(en *desiredv1.Entry) bool {
				return bytes.Equal(en.GetImage().GetBlob().GetDigest(), digest)
			}) {
				return true, nil
			}
			return e.needed(digest, nil)
		}
		keep, err := asked()
		if err == nil && !keep { // Remove would wait for whatever is being staged
			_, err = e.images.Remove(digest, asked)
		}
		all = errors.Join(all, err)
	}
	return all
}

// digestsOf gives those of the names that are digests; others are not ours.
func digestsOf(names []string) (out [][]byte) {
	for _, name := range names {
		if digest, err := hex.DecodeString(name); err == nil && len(digest) == digestBytes {
			out = append(out, digest)
		}
	}
	return out
}
