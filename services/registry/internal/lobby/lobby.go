// Package lobby keeps who waits in the lobby, and decides about a request to join without a token.
//
// Guarantees:
//
//  1. At most Most machines are remembered, each for Kept after its last request. When there are more, the machine goes
//     that was heard longest ago of those that share the address with the most machines: who knocks with many keys
//     pushes out its own.
//  2. A key is admitted only as the server that an operator accepted it for.
package lobby

import (
	"cmp"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/ident"
	"github.com/garrison-fleet/garrison/pkg/noun/lobby"
	"github.com/garrison-fleet/garrison/pkg/noun/server"
	apiv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/api/v1"
	intentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/intent/v1"
	lobbyv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/lobby/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"

	"github.com/garrison-fleet/garrison/services/registry/internal/enrol"
	"github.com/garrison-fleet/garrison/services/registry/internal/selector"
)

const (
	// Most is how many machines the lobby holds.
	Most = 2000
	// Kept is how long a machine is remembered after its last request.
	Kept = 2 * time.Minute
	// soonest is how soon a machine asks again, and perMachine how much later for each that waits.
	soonest    = 4 * time.Second
	perMachine = 10 * time.Millisecond
)

// Waiting is a machine in the lobby.
type Waiting struct {
	PublicKey   string
	Fingerprint string
	Address     netip.Addr // as the bus saw it; the zero Addr when it does not know
	Sysinfo     *serverv1.Sysinfo
	First, Last time.Time
}

// Book is who waits. It is not safe for concurrent use.
type Book struct {
	by         map[string]*Waiting // by public key
	of         map[netip.Addr]int  // how many, by address
	overflowed time.Time           // when one was last left out
}

// NewBook returns an empty book.
func NewBook() *Book { return &Book{by: map[string]*Waiting{}, of: map[netip.Addr]int{}} }

// Note remembers a request of a machine, and reports whether it is the first.
func (b *Book) Note(w Waiting, at time.Time) (fresh bool) {
	have := b.by[w.PublicKey]
	if fresh = have == nil; fresh {
		b.expire(at)
		if len(b.by) >= Most {
			b.overflowed = at
			b.Drop(b.oldest())
		}
		have = &Waiting{PublicKey: w.PublicKey, Fingerprint: lobby.Fingerprint(w.PublicKey), First: at}
	} else {
		b.Drop(w.PublicKey)
	}
	have.Address, have.Sysinfo, have.Last = w.Address, w.Sysinfo, at
	b.by[w.PublicKey] = have
	b.of[have.Address]++
	return fresh
}

// Drop forgets a machine.
func (b *Book) Drop(publicKey string) {
	w, ok := b.by[publicKey]
	if !ok {
		return
	}
	delete(b.by, publicKey)
	if b.of[w.Address]--; b.of[w.Address] == 0 {
		delete(b.of, w.Address)
	}
}

// expire forgets the machines that asked too long ago.
func (b *Book) expire(at time.Time) {
	for key, w := range b.by {
		if at.Sub(w.Last) > Kept {
			b.Drop(key)
		}
	}
}

// oldest returns the machine that was heard longest ago, of the address with the most machines.
func (b *Book) oldest() (key string) {
	var last time.Time
	most := 0
	for _, n := range b.of {
		most = max(most, n)
	}
	for k, w := range b.by {
		if b.of[w.Address] == most && (key == "" || w.Last.Before(last)) {
			key, last = k, w.Last
		}
	}
	return key
}

// All returns who waits at a time, by fingerprint, and whether machines were left out lately.
func (b *Book) All(at time.Time) (all []Waiting, overflowed bool) {
	b.expire(at)
	for w := range maps.Values(b.by) {
		all = append(all, *w)
	}
	slices.SortFunc(all, func(x, y Waiting) int { return cmp.Compare(x.Fingerprint, y.Fingerprint) })
	return all, at.Sub(b.overflowed) < Kept
}

// Len returns how many machines wait.
func (b *Book) Len() int { return len(b.by) }

// AskAgain returns when a machine asks again: the later, the more machines wait.
func (b *Book) AskAgain() time.Duration { return soonest + time.Duration(len(b.by))*perMachine }

// RejectedFor is how long a rejected key is refused.
const RejectedFor = 24 * time.Hour

// ServerOf returns the id of the server that a key becomes: repeated acceptance makes one server.
func ServerOf(publicKey string) string { return ident.From("lobby", publicKey) }

// Decide decides a request of a key. s is the server that the key became, or nil; r the rejection of the key, or nil.
// It returns a refusal, or whether the key is admitted as that server; otherwise it waits.
func Decide(
	s *serverv1.Server, r *lobbyv1.Rejection, key string, at time.Time,
) (refusal *apiv1.Refusal, admitted bool) {
	switch {
	case s != nil && s.PublicKey == key && server.Believed(s):
		return nil, true
	case s != nil && server.Managed(s) && server.ShutOut(s):
		return enrol.ShutOut(s), false
	case s != nil:
		return enrol.OthersKey(), false
	case lobby.Holds(r, at):
		text := "the key of this machine was rejected by " + r.RejectedBy
		if r.Reason != "" {
			text += ": " + r.Reason
		}
		return &apiv1.Refusal{
			Code: code.LobbyRejected, Message: text + "; it is refused until " + r.Until.AsTime().Format(time.RFC3339),
			Try: "ask who operates the control plane",
		}, false
	}
	return nil, false
}

// The fields of a machine in the lobby beyond those of its sysinfo.
const (
	fieldAddress     = "address"
	fieldFingerprint = "fingerprint"
)

// Matcher returns a function that reports whether a machine meets all of some conditions.
func Matcher(r selector.Reader, where []*intentv1.Condition) (func(Waiting) bool, *apiv1.Refusal) {
	var rest []*intentv1.Condition
	var own []func(Waiting) bool
	for _, c := range where {
		if c.GetField() != fieldAddress && c.GetField() != fieldFingerprint {
			rest = append(rest, c)
			continue
		}
		match, refusal := ownField(c)
		if refusal != nil {
			return nil, refusal
		}
		own = append(own, match)
	}
	fields := append(slices.Clone(selector.MachineFields), fieldAddress, fieldFingerprint)
	if refusal := selector.CheckConditions(r, rest, fields...); refusal != nil {
		return nil, refusal
	}
	return func(w Waiting) bool {
		return selector.MeetsAll(&serverv1.Server{Sysinfo: w.Sysinfo}, rest) &&
			!slices.ContainsFunc(own, func(match func(Waiting) bool) bool { return !match(w) })
	}, nil
}

// ownField returns a function that reports whether a machine meets a condition on its address or its fingerprint.
func ownField(c *intentv1.Condition) (func(Waiting) bool, *apiv1.Refusal) {
	not := c.GetOperator() == intentv1.Operator_OPERATOR_NOT_IN
	if !not && c.GetOperator() != intentv1.Operator_OPERATOR_IN || len(c.GetValues()) == 0 {
		return nil, badCondition("%s is compared with = or !=, and with a value", c.GetField())
	}
	if c.GetField() == fieldFingerprint {
		return func(w Waiting) bool {
			return not != slices.ContainsFunc(c.Values, func(v string) bool { return Same(w, v) })
		}, nil
	}
	var ranges []string
	for _, text := range c.GetValues() {
		prefix, err := netip.ParsePrefix(text)
		if a, e := netip.ParseAddr(text); e == nil && a.Zone() == "" {
			prefix, err = netip.PrefixFrom(a, a.BitLen()), nil
		}
		if err != nil {
			return nil, badCondition("address %.60q; want an address or a prefix such as 10.0.0.0/8", text)
		}
		ranges = append(ranges, prefix.String())
	}
	return func(w Waiting) bool { return not != enrol.Within(ranges, w.Address) }, nil
}

func badCondition(format string, args ...any) *apiv1.Refusal {
	return &apiv1.Refusal{
		Code: code.BadSelector, Message: fmt.Sprintf(format, args...),
		Try: "garrison server list --lobby --on os=linux",
	}
}

// Same reports whether a reference is the fingerprint of a machine, with or without its dashes, or its public key.
func Same(w Waiting, reference string) bool {
	plain := func(s string) string { return strings.ToUpper(strings.ReplaceAll(s, "-", "")) }
	return reference == w.PublicKey || plain(reference) == plain(w.Fingerprint)
}
