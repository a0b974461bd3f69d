// Package token is the life of the noun token: a pooled enrolment token, with which many servers join. The registry
// writes the noun; access takes from here which keys the bus lets in.
//
//	next, fit := token.Apply(record, fact)
//
// Guarantees:
//
//  1. A name is a token's for good: a revoked token is not created again.
//  2. Nothing counts as a use after a token was revoked.
package token

import (
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/garrison-fleet/garrison/pkg/fsm"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	tokenv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/token/v1"
)

// State is a state in a token's life.
type State string

// The states. A token is Unknown before its first fact.
const (
	Unknown State = "unknown"
	Active  State = "active"
	Revoked State = "revoked"
)

// Life lists which facts can happen in which state, and the state that follows.
var Life = fsm.Table[State, string]{
	Unknown: {"created": Active},
	Active:  {"used": Active, "revoked": Revoked},
	Revoked: {},
}

// UseGrace is how long a token that was used up still lets in after its last use, so that a server whose answer was
// lost can ask for the same one again.
const UseGrace = 5 * time.Minute

// StateOf returns the state in the life that a record's state stands for.
func StateOf(s tokenv1.State) State {
	switch s {
	case tokenv1.State_STATE_UNSPECIFIED:
		return Unknown
	case tokenv1.State_STATE_REVOKED:
		return Revoked
	}
	return Active
}

// Apply folds a fact into a token's record, which is nil for an unknown token, and returns the record after it.
// Apply may change the record in place. It returns false, and the record unchanged, for a fact that does not fit.
func Apply(t *tokenv1.Token, f ledger.Fact) (*tokenv1.Token, bool) {
	if _, fit := Life.Next(StateOf(t.GetState()), f.Name()); !fit {
		return t, false
	}
	switch b := f.Body.(type) {
	case *tokenv1.Token:
		t = proto.CloneOf(b)
		t.Name, t.State = f.Key, tokenv1.State_STATE_ACTIVE
		t.CreatedAt, t.CreatedBy = timestamppb.New(f.At), f.Actor
	case *tokenv1.Used:
		t.Used += uint32(len(b.Uses))
		t.LastUsedAt = timestamppb.New(f.At)
	case *tokenv1.Revoked:
		t.State, t.RevokedAt, t.RevokedBy, t.Reason =
			tokenv1.State_STATE_REVOKED, timestamppb.New(f.At), f.Actor, b.Reason
	}
	return t, true
}

// StateAt returns what a token is good for at a time.
func StateAt(t *tokenv1.Token, at time.Time) tokenv1.State {
	switch {
	case t.GetState() != tokenv1.State_STATE_ACTIVE:
		return t.GetState()
	case t.Used >= t.Uses:
		return tokenv1.State_STATE_USED_UP
	case !at.Before(t.ExpiresAt.AsTime()):
		return tokenv1.State_STATE_EXPIRED
	}
	return tokenv1.State_STATE_ACTIVE
}

// Admitted returns the key of a token that the bus should let in at a time, or "", and until when that holds without
// another fact about the token; zero means for good, or until the credentials for the key expire.
func Admitted(t *tokenv1.Token, at time.Time) (guest string, until time.Time) {
	if t.GetState() != tokenv1.State_STATE_ACTIVE {
		return "", time.Time{}
	}
	if t.Used < t.Uses {
		return t.GuestKey, time.Time{}
	}
	if end := t.LastUsedAt.AsTime().Add(UseGrace); at.Before(end) {
		return t.GuestKey, end
	}
	return "", time.Time{}
}
