package removal

import (
	"context"
	"encoding/hex"
	"strings"
	"sync"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	reportv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/report/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"

	"github.com/garrison-fleet/garrison/pkg/wakeup"
	"github.com/garrison-fleet/garrison/services/executor/internal/identity"
	"github.com/garrison-fleet/garrison/services/executor/internal/journal"
	"github.com/garrison-fleet/garrison/services/executor/internal/layout"
	"github.com/garrison-fleet/garrison/services/executor/internal/sysinfo"
)

// Server is a dead server whose agents are gone.
type Server struct {
	Identity  identity.Identity
	Tombstone *serverv1.Tombstone
	Journal   *journal.Journal
	Link      interface{ Flush(context.Context) error } // sends what waits in the journal
	Meanwhile func(context.Context) error               // runs while the receipt waits for the bus; may be nil
}

// Last is the last act of an executor without agents: it sends the receipt, writes the mark and
// removes the files. When ctx ends before the bus has stored the receipt, it removes nothing and
// reports that it is not done; the next start decides again.
func Last(ctx context.Context, c Config, s Server) (done bool, err error) {
	c.at("uninstall decided")
	mark, err := NewMark(s.Identity, s.Tombstone)
	if err != nil {
		return false, err // the decision used the same facts, so this is a defect; nothing is removed
	}
	items, err := Inventory(c.Root)
	if err != nil {
		return false, err
	}
	if err := queueReceipt(c.Root, s, items); err != nil {
		return false, err
	}
	c.at("receipt said")
	if sendReceipt(ctx, c, s) != nil {
		return false, nil
	}
	c.at("receipt sent")
	if err := s.Journal.Close(); err != nil {
		return false, err
	}
	if err := Begin(c, mark); err != nil {
		return false, err
	}
	return Complete(c)
}

// noteReceipt is the journal's note of the tombstone for which the last receipt was queued.
const noteReceipt = "uninstall-receipt"

// maxReceipt is how many paths a receipt names.
const maxReceipt = 1000

// queueReceipt puts the last receipt into the outbox, once.
func queueReceipt(root layout.Root, s Server, items []Item) error {
	proof := hex.EncodeToString(s.Tombstone.GetSignature())
	return s.Journal.Update(func(tx *journal.Tx) error {
		if tx.Note(noteReceipt) == proof {
			return nil
		}
		err := tx.Say(&reportv1.Report{
			ServerId: s.Identity.ServerID, BootId: sysinfo.BootID(), At: timestamppb.Now(),
			Body: &reportv1.Report_Receipt{Receipt: &reportv1.ReceiptReport{
				Removed: removedItems(root, items[:min(len(items), maxReceipt)]),
			}},
		})
		if err != nil {
			return err
		}
		return tx.SetNote(noteReceipt, proof)
	})
}

// removedItems returns items as receipts name them.
func removedItems(root layout.Root, items []Item) (out []*reportv1.Removed) {
	for _, i := range items {
		path := strings.ToValidUTF8(root.Relative(i.Path), "?")
		out = append(out, &reportv1.Removed{Path: path, LeftBecause: i.LeftBecause, Foreign: i.Foreign()})
	}
	return out
}

const (
	sendWithin   = 10 * time.Second // one attempt to send the receipt
	sendRetry    = time.Second      // before the second attempt; doubled before each later one
	sendRetryMax = time.Minute
)

// sendReceipt waits until the bus has stored every report, without a limit: files that stay longer
// do less harm than a machine without a receipt. It returns the error of ctx.
func sendReceipt(ctx context.Context, c Config, s Server) error {
	if s.Meanwhile != nil {
		background, stop := context.WithCancel(ctx)
		var running sync.WaitGroup
		running.Go(func() { _ = s.Meanwhile(background) }) // it ends with its context
		defer running.Wait()
		defer stop()
	}
	for wait := sendRetry; ; wait = min(2*wait, sendRetryMax) {
		c.expect(sendWithin + sendRetryMax)
		try, cancel := context.WithTimeout(ctx, sendWithin)
		err := s.Link.Flush(try)
		cancel()
		if err == nil {
			return nil
		}
		c.Log.Warn().Err(err).Dur("retry_in", wait).Msg("last receipt not stored yet")
		if err := wakeup.Pause(ctx, wait); err != nil {
			return err
		}
	}
}
