package view

import (
	"slices"
	"time"

	"google.golang.org/protobuf/proto"

	apiv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/api/v1"
	userv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/user/v1"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/ident"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/nearest"
	"github.com/garrison-fleet/garrison/pkg/noun/user"
	"github.com/garrison-fleet/garrison/pkg/topology"
)

const (
	defaultLimit = 100
	maxLimit     = 1000
	// maxBytes ends a page early, so that it fits into one message of the bus.
	maxBytes = 512 << 10
)

// LimitOf returns how many rows a page has at most.
func LimitOf(p *apiv1.Page) int {
	if n := int(p.GetLimit()); n > 0 {
		return min(n, maxLimit)
	}
	return defaultLimit
}

// User returns a user as it is at a time. The error is NotFound.
func (v *View) User(name string, at time.Time) (*userv1.User, error) {
	u, ok := v.users.Get(name)
	if !ok {
		return nil, fault.Refusef(fault.NotFound, code.NotFound, "no user %q (%d searched)", name, v.users.Len()).
			Near(nearest.Name(name, v.names())).Try("garrison user list").From(ledger.Access)
	}
	return shown(u, at), nil
}

// UserSequence returns the sequence of the last fact about a user.
func (v *View) UserSequence(name string) uint64 { return v.users.Sequence(name) }

// OwnerOf returns the server, pooled token or user that first had a key in an account, or "".
func (v *View) OwnerOf(account, public string) string {
	k, _ := v.keys.Get(keyOf(account, public))
	return k.GetOwner()
}

// Users returns one page of the users, by name, as they are at a time, and the cursor of the next page.
func (v *View) Users(p *apiv1.Page, at time.Time) ([]*userv1.User, string, error) {
	if c := p.GetCursor(); c != "" && ident.CheckName("cursor", c) != nil {
		return nil, "", fault.Refusef(fault.Invalid, code.Invalid,
			"invalid cursor %.80q: pass next_cursor of an answer", c).From(ledger.Access)
	}
	var names []string
	for name := range v.names() {
		if name > p.GetCursor() {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	var out []*userv1.User
	size := 0
	for n, name := range names {
		if n == LimitOf(p) || size > maxBytes {
			return out, names[n-1], nil
		}
		u, _ := v.users.Get(name)
		out, size = append(out, shown(u, at)), size+proto.Size(u)
	}
	return out, "", nil
}

func (v *View) names() func(yield func(string) bool) {
	return func(yield func(string) bool) {
		for name := range v.users.All() {
			if !yield(name) {
				return
			}
		}
	}
}

// IsLastAdmin reports whether a user is the only admin who may connect at a time.
func (v *View) IsLastAdmin(name string, at time.Time) bool {
	is := false
	for other, u := range v.users.All() {
		if u.Role != userv1.Role_ROLE_ADMIN || shown(u, at).State != userv1.State_STATE_ACTIVE {
			continue
		}
		if other != name {
			return false
		}
		is = true
	}
	return is
}

// shown returns a copy of a user whose state is that at a time.
func shown(u *userv1.User, at time.Time) *userv1.User {
	u = proto.CloneOf(u)
	if until, ok := user.ValidUntil(u); u.State == userv1.State_STATE_ACTIVE &&
		(!ok || !until.IsZero() && !at.Before(until)) {
		u.State = userv1.State_STATE_EXPIRED
	}
	return u
}

// UsesOf returns how many servers may join with the pooled token that has a key; 0 for any other key.
func (v *View) UsesOf(public string) int {
	t, _ := v.tokens.Get(v.OwnerOf(topology.AccountGuests, public))
	return int(t.GetUses())
}

// KeyOfServer returns the public key of a server, or "".
func (v *View) KeyOfServer(id string) string {
	s, _ := v.servers.Get(id)
	return s.GetPublicKey()
}
