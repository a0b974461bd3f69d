// Package hold finds the holds that are in effect on a server, and decides which ones an operator ends.
package hold

import (
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/ident"
	"github.com/garrison-fleet/garrison/pkg/noun/hold"
	apiv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/api/v1"
	holdv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/hold/v1"
	intentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/intent/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"

	"github.com/garrison-fleet/garrison/services/registry/internal/selector"
)

// Reader is the view that is searched.
type Reader interface {
	selector.Reader
	Holds(after string) iter.Seq2[string, *holdv1.Hold]
}

// Index finds the hold of an agent on a server. It is valid only while the view stands still.
type Index map[string][]entry

type entry struct {
	hold  *holdv1.Hold
	match func(*serverv1.Server) bool
}

// NewIndex returns the index of the holds that are in effect at a time.
func NewIndex(r Reader, at time.Time) Index {
	x := Index{}
	for _, h := range r.Holds("") {
		if hold.InEffect(h, at) {
			x[h.Agent] = append(x[h.Agent], entry{h, selector.Fixed(h.On)})
		}
	}
	return x
}

// On returns the hold of an agent on a server that ends last, or nil. A pause of the site holds every agent.
func (x Index) On(s *serverv1.Server, agent string) *holdv1.Hold {
	var last *holdv1.Hold
	for _, e := range slices.Concat(x[agent], x[""]) {
		if e.match(s) && (last == nil || endsAfter(e.hold, last)) {
			last = e.hold
		}
	}
	return last
}

var pauseID = hold.ID("", hold.Site())

// Pause returns the pause of the site that is in effect at a time, or nil.
func Pause(r interface {
	Hold(id string) (*holdv1.Hold, bool)
}, at time.Time,
) *holdv1.Hold {
	if h, _ := r.Hold(pauseID); hold.InEffect(h, at) {
		return h
	}
	return nil
}

func endsAfter(a, b *holdv1.Hold) bool {
	switch {
	case b.Until == nil:
		return false
	case a.Until == nil:
		return true
	}
	return a.Until.AsTime().After(b.Until.AsTime())
}

// Refuse explains that a hold keeps an intent from a server.
func Refuse(h *holdv1.Hold) *apiv1.Refusal {
	text, try := fmt.Sprintf("%s holds agent %q there", h.SetBy, h.Agent), "garrison unhold --id "+ident.Short(h.Id)
	if h.Agent == "" {
		text, try = h.SetBy+" paused the site", "garrison unhold --all"
	}
	if h.Until != nil {
		text += " until " + h.Until.AsTime().UTC().Format(time.RFC3339)
	}
	if h.Reason != "" {
		text += ": " + h.Reason
	}
	return &apiv1.Refusal{Code: code.Held, Message: text, Try: try}
}

// Resolved returns a selector with its servers named by id, sorted, or refuses it as any selector is.
func Resolved(r Reader, on *intentv1.Selector) (*intentv1.Selector, *apiv1.Refusal) {
	if _, refusal := selector.Resolve(r, on); refusal != nil {
		return nil, refusal
	}
	out := proto.CloneOf(on)
	for _, s := range append([]*intentv1.Selector{out}, out.Not...) {
		for n, reference := range s.Servers {
			found, refusal := selector.Find(r, reference)
			if refusal != nil {
				return nil, refusal
			}
			s.Servers[n] = found.Id
		}
		slices.Sort(s.Servers)
		s.Servers = slices.Compact(s.Servers)
	}
	return out, nil
}

// Servers returns the living servers of a hold.
func Servers(r Reader, on *intentv1.Selector) []*serverv1.Server {
	match := selector.Fixed(on)
	var out []*serverv1.Server
	for s := range r.ServersWhere("", nil) {
		if s.Life == serverv1.Life_LIFE_ALIVE && match(s) {
			out = append(out, s)
		}
	}
	return out
}

// Row returns a copy of a hold with the number of its servers, and the names of those that it names.
func Row(r Reader, h *holdv1.Hold) *holdv1.Hold {
	row := proto.CloneOf(h)
	row.Servers = uint32(len(Servers(r, h.On)))
	for _, s := range append([]*intentv1.Selector{h.On}, h.On.GetNot()...) {
		for _, id := range s.GetServers() {
			if named, ok := r.Server(id); ok {
				if row.ServerNames == nil {
					row.ServerNames = map[string]string{}
				}
				row.ServerNames[id] = named.Name
			}
		}
	}
	return row
}

// Named returns the hold with an id, or with the only id that starts with a prefix.
func Named(r Reader, reference string) (*holdv1.Hold, *apiv1.Refusal) {
	var found []*holdv1.Hold
	for id, h := range r.Holds("") {
		if reference != "" && strings.HasPrefix(id, reference) {
			found = append(found, h)
		}
	}
	if len(found) == 1 {
		return found[0], nil
	}
	message := fmt.Sprintf("no hold has the id %q, or an id with that prefix", reference)
	switch {
	case reference == hold.ID("", hold.Site()):
		message = "the site is not paused"
	case len(found) > 1:
		message = fmt.Sprintf("%d holds have an id that starts with %q", len(found), reference)
	}
	return nil, &apiv1.Refusal{Code: code.NotFound, Message: message, Try: "garrison hold list -o wide"}
}

// Ended returns the holds of an agent that end when it is released on the servers of a selector: those all of whose
// living servers are selected. It refuses when one of them is also about other servers, or none is there.
func Ended(r Reader, agent string, on *intentv1.Selector, at time.Time) ([]*holdv1.Hold, *apiv1.Refusal) {
	found, refusal := selector.Resolve(r, on)
	if refusal != nil {
		return nil, refusal
	}
	selected := map[string]bool{}
	for _, s := range found.Servers {
		selected[s.Id] = true
	}
	var out []*holdv1.Hold
	for _, h := range r.Holds("") {
		if h.Agent != agent || !hold.InEffect(h, at) {
			continue
		}
		servers := Servers(r, h.On)
		inside := 0
		for _, s := range servers {
			if selected[s.Id] {
				inside++
			}
		}
		switch {
		case inside == 0:
		case inside == len(servers):
			out = append(out, h)
		default:
			return nil, wider(h, len(servers)-inside)
		}
	}
	if len(out) == 0 {
		return nil, &apiv1.Refusal{
			Code: code.NotFound, Message: fmt.Sprintf("no hold of agent %q is about these servers (%d searched)", agent,
				len(found.Servers)),
			Try: "garrison hold list " + agent,
		}
	}
	return out, nil
}

func wider(h *holdv1.Hold, others int) *apiv1.Refusal {
	id := ident.Short(h.Id)
	return &apiv1.Refusal{
		Code: code.HoldIsWider,
		Message: fmt.Sprintf("hold %s of agent %q, by %s, is also about %d other servers", id, h.Agent, h.SetBy,
			others),
		Try: "garrison unhold --id " + id + ", and then garrison hold " + h.Agent + " on those that stay held",
	}
}
