package executor

import (
	"context"
	"encoding/hex"
	"fmt"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	reportv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/report/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"

	"github.com/garrison-fleet/garrison/pkg/logs"
	"github.com/garrison-fleet/garrison/services/executor/internal/identity"
	"github.com/garrison-fleet/garrison/services/executor/internal/journal"
	"github.com/garrison-fleet/garrison/services/executor/internal/link"
	"github.com/garrison-fleet/garrison/services/executor/internal/sysinfo"
	"github.com/garrison-fleet/garrison/services/executor/internal/uninstall"
)

// uninstaller is what the last act needs of the executor that was.
type uninstaller struct {
	who       identity.Identity
	tombstone *serverv1.Tombstone
	journal   *journal.Journal
	link      *link.Link
	teller    *teller // nil where nobody tells how it is
}

// uninstall is the last act: the receipt is sent, then the mark is written, then the
// files go. Stopped before the mark, the next start decides again.
func (x *Executor) uninstall(ctx context.Context, u uninstaller) error {
	x.cfg.FailPoint("uninstall decided")
	mark, err := uninstall.NewMark(u.who, u.tombstone)
	if err != nil {
		return err // package fate looked at the same facts, so this is a defect; nothing was touched
	}
	items, err := uninstall.Inventory(x.root)
	if err != nil {
		return err
	}
	if err := x.sayReceipt(u, items); err != nil {
		return err
	}
	x.cfg.FailPoint("receipt said")
	if err := x.sendReceipt(ctx, u); err != nil {
		if u.teller != nil {
			u.teller.end(x.cfg.StopAgents)
		}
		return nil // it was told to stop meanwhile
	}
	x.cfg.FailPoint("receipt sent")
	if err := u.journal.Close(); err != nil {
		return err
	}
	if err := uninstall.Begin(x.root, mark, x.uninstallOptions()); err != nil {
		return err
	}
	_, err = x.finishUninstall()
	return err
}

func (x *Executor) uninstallOptions() uninstall.Options {
	return uninstall.Options{Keep: x.cfg.Comes, FailPoint: x.cfg.FailPoint}
}

// noteReceipt is where the journal keeps for which tombstone the last receipt was said.
const noteReceipt = "uninstall-receipt"

// maxReceipt is how many paths a receipt names.
const maxReceipt = 1000

// sayReceipt puts the last receipt into the outbox, once.
func (x *Executor) sayReceipt(u uninstaller, items []uninstall.Item) error {
	proof := hex.EncodeToString(u.tombstone.GetSignature())
	receipt := &reportv1.ReceiptReport{}
	for _, i := range items[:min(len(items), maxReceipt)] {
		receipt.Removed = append(receipt.Removed, &reportv1.Removed{
			Path: x.root.Relative(i.Path), LeftBecause: i.LeftBecause, Foreign: i.Foreign(),
		})
	}
	return u.journal.Update(func(tx *journal.Tx) error {
		if tx.Note(noteReceipt) == proof {
			return nil
		}
		r := &reportv1.Report{
			ServerId: u.who.ServerID, BootId: sysinfo.BootID(), At: timestamppb.Now(),
			Body: &reportv1.Report_Receipt{Receipt: receipt},
		}
		if err := tx.Say(r); err != nil {
			return err
		}
		return tx.SetNote(noteReceipt, proof)
	})
}

const (
	sendWithin   = 10 * time.Second // one try to send the receipt
	sendAgain    = time.Second      // before the next try, and twice that before the one after it
	sendAgainMax = time.Minute
)

// sendReceipt waits until the bus has stored every report, for as long as it takes: a
// machine that keeps its files a while longer is better than one of which nobody knows.
func (x *Executor) sendReceipt(ctx context.Context, u uninstaller) error {
	if u.teller != nil {
		telling, stop := context.WithCancel(ctx)
		told := make(chan struct{})
		go func() {
			defer close(told)
			_ = u.teller.run(telling) // it ends with its context
		}()
		defer func() { stop(); <-told }()
	}
	for wait := sendAgain; ; wait = min(2*wait, sendAgainMax) {
		x.manager.expect(sendWithin + sendAgainMax)
		try, cancel := context.WithTimeout(ctx, sendWithin)
		err := u.link.Flush(try)
		cancel()
		if err == nil {
			return nil
		}
		x.cfg.Log.Warn().Err(err).Msg("the last receipt is not stored yet")
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(wait):
		}
	}
}

// finishUninstall does what is left of an uninstall that was begun, if one was.
func (x *Executor) finishUninstall() (done bool, err error) {
	server, err := uninstall.Marked(x.root)
	if err != nil {
		x.cfg.Log.Error().Err(err).Msg("a tombstone that does not hold; nothing is removed")
		return false, nil
	}
	if server == "" {
		return false, nil
	}
	left, err := uninstall.Finish(x.root, x.uninstallOptions())
	for _, i := range left {
		x.cfg.Log.Warn().Str(logs.Path, i.Path).Str(logs.Reason, i.LeftBecause).Msg("left")
	}
	if err != nil {
		return true, fmt.Errorf("uninstall: %w", err)
	}
	for _, path := range installedByHand() {
		x.cfg.Log.Info().Str(logs.Path, path).Str(logs.Reason, byHand).Msg("left")
	}
	x.cfg.Log.Info().Str(logs.Server, server).Msg("decommissioned; this executor removed itself")
	return true, nil
}
