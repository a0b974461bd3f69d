package fold

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"

	apiv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/api/v1"
	viewv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/view/v1"

	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/version"
)

// maxCounted bounds how many kinds of facts are counted apart; the rest share one count a noun.
const maxCounted = 256

// counts counts facts by noun and kind.
type counts map[[2]string]*viewv1.FactCount

// add counts a fact, and returns the count of its kind.
func (c counts) add(noun ledger.Noun, kind string, sequence uint64) *viewv1.FactCount {
	key := [2]string{string(noun), kind}
	if _, there := c[key]; !there && len(c) >= maxCounted {
		key[1] = "other"
	}
	n, there := c[key]
	if !there {
		n = &viewv1.FactCount{Noun: key[0], Kind: key[1], First: sequence}
		c[key] = n
	}
	n.Count, n.Last = n.Count+1, sequence
	return n
}

func (c counts) load(list []*viewv1.FactCount) {
	for _, n := range list {
		c[[2]string{n.Noun, n.Kind}] = n
	}
}

// list returns copies of the counts, sorted.
func (c counts) list() []*viewv1.FactCount {
	var out []*viewv1.FactCount
	for _, n := range c {
		out = append(out, proto.CloneOf(n))
	}
	slices.SortFunc(out, func(a, b *viewv1.FactCount) int {
		return cmp.Or(strings.Compare(a.Noun, b.Noun), strings.Compare(a.Kind, b.Kind))
	})
	return out
}

func (c counts) total() (n uint64) {
	for _, one := range c {
		n += one.Count
	}
	return n
}

// Misfits counts the facts up to Position that could not be read or did not fit.
func (r *Reader) Misfits() uint64 {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.unread.total() + r.unfit.total()
}

// Unread lists the facts that this program cannot read, or only in part: facts of a newer version.
func (r *Reader) Unread() []*viewv1.FactCount {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.unread.list()
}

// Unfit lists the facts that were read and did not fit the view.
func (r *Reader) Unfit() []*viewv1.FactCount {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.unfit.list()
}

// NewWriter makes a writer that records no fact that MayDecide refuses.
func (f *Follower) NewWriter() *bus.Writer { return f.source.conn.NewGatedWriter(f) }

// Contract returns the contract in force on the bus when it was last connected; 1 before that.
func (f *Follower) Contract() uint32 { return max(f.source.contract.Load(), 1) }

// MayDecide refuses decisions about a noun while the view lacks facts, or parts of facts, for them because this program
// cannot read those. A noun that it does not know may bear on every decision. The error is Unavailable: a replica of a
// newer version decides, or this one after its upgrade.
func (r *Reader) MayDecide(about ledger.Noun) error {
	unread := r.Unread()
	if len(unread) == 0 {
		return nil
	}
	rests := about.RestsOn()
	for _, n := range unread {
		if noun := ledger.Noun(n.Noun); !noun.Known() || slices.Contains(rests, noun) {
			return fault.Refuse(fault.Unavailable, r.tooOld(about, n))
		}
	}
	return nil
}

func (r *Reader) tooOld(about ledger.Noun, n *viewv1.FactCount) *apiv1.Refusal {
	writer := "a newer version"
	if n.Writer != "" {
		writer = "version " + n.Writer
	}
	return &apiv1.Refusal{
		Code: code.ServiceTooOld, Component: r.service,
		Message: fmt.Sprintf("%d facts %s.%s in the ledger (the first is fact %d, of %s) hold what %s version %s does "+
			"not know: %s; it decides nothing about the noun %s until it is upgraded",
			n.Count, n.Noun, n.Kind, n.First, writer, r.service, version.Version, n.Unknown, about),
		Try: "garrison versions --check",
	}
}
