// Package user is the life of the noun user: a person, or a program that acts for one, who may
// connect. The service access writes the noun; every service that folds users takes its rules from
// here.
//
//	next, fit := user.Apply(previous, fact) // nil before the first fact
//
// Guarantees:
//
//  1. Life is one table. A fact that is not in the row of a user's state changes nothing.
//  2. Apply has no clock and no I/O: the same facts produce the same record.
//  3. A revocation covers every key that the user has. A key that was revoked never comes back; the
//     user may get a new one.
package user

import (
	"slices"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/garrison-fleet/garrison/pkg/fsm"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	userv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/user/v1"
)

// State is a state in a user's life.
type State string

// The states. A user is Unknown before its first fact. The record of a revoked user stays, so its
// name keeps its meaning.
const (
	Unknown State = "unknown"
	Active  State = "active"
	Revoked State = "revoked"
)

// Life lists which facts can happen in which state, and the state that follows.
var Life = fsm.Table[State, string]{
	Unknown: {"created": Active},
	Active:  {"created": Active, "renewed": Active, "revoked": Revoked},
	Revoked: {"created": Active},
}

var states = map[userv1.State]State{
	userv1.State_STATE_ACTIVE:  Active,
	userv1.State_STATE_REVOKED: Revoked,
}

// StateOf returns the state that a record's state stands for; Unknown for the zero value.
func StateOf(s userv1.State) State {
	if state, ok := states[s]; ok {
		return state
	}
	return Unknown
}

// Apply folds a fact into a user's record, which is nil for an unknown user, and returns the record
// after it. Apply may change the record in place. It returns false, and the record unchanged, for a
// fact that does not fit. Keys whose credentials expired before the fact leave the record.
func Apply(u *userv1.User, f ledger.Fact) (*userv1.User, bool) {
	if _, fit := Life.Next(StateOf(u.GetState()), f.Name()); !fit {
		return u, false
	}
	switch b := f.Body.(type) {
	case *userv1.Created:
		if KeyOf(u, b.PublicKey) != nil {
			return u, false
		}
		if u == nil {
			u = &userv1.User{Name: f.Key}
		}
		dropExpired(u, f.At)
		u.State, u.Role = userv1.State_STATE_ACTIVE, b.Role
		u.CreatedAt, u.CreatedBy, u.RenewedAt = timestamppb.New(f.At), f.Actor, nil
		u.RevokedAt, u.RevokedBy, u.Reason = nil, "", ""
		k := &userv1.Key{PublicKey: b.PublicKey, Role: b.Role, CreatedAt: timestamppb.New(f.At)}
		sign(k, b.ExpiresAt, f.At)
		u.Keys = append(u.Keys, k)
	case *userv1.Renewed:
		k := KeyOf(u, b.PublicKey)
		if k == nil {
			return u, false
		}
		u.RenewedAt = timestamppb.New(f.At)
		sign(k, b.ExpiresAt, f.At)
		dropExpired(u, f.At)
	case *userv1.Revoked:
		u.State, u.Keys = userv1.State_STATE_REVOKED, nil
		u.RevokedAt, u.RevokedBy, u.Reason = timestamppb.New(f.At), f.Actor, b.Reason
	}
	return u, true
}

// sign records the last credentials of a key.
func sign(k *userv1.Key, expires *timestamppb.Timestamp, at time.Time) {
	if k.ExpiresAt, k.ValidForS = expires, 0; expires != nil {
		k.ValidForS = uint64(max(0, expires.AsTime().Sub(at).Round(time.Minute)/time.Second))
	}
}

// KeyOf returns a key of a user, or nil.
func KeyOf(u *userv1.User, public string) *userv1.Key {
	for _, k := range u.GetKeys() {
		if k.PublicKey == public {
			return k
		}
	}
	return nil
}

// Expired reports whether the last credentials of a key have expired.
func Expired(k *userv1.Key, at time.Time) bool {
	return k.GetExpiresAt() != nil && !at.Before(k.ExpiresAt.AsTime())
}

// ValidUntil returns when the last credentials of a user expire. The time is zero when they do not; ok
// is false for a user without keys.
func ValidUntil(u *userv1.User) (until time.Time, ok bool) {
	for _, k := range u.GetKeys() {
		if k.ExpiresAt == nil {
			return time.Time{}, true
		}
		if at := k.ExpiresAt.AsTime(); at.After(until) {
			until = at
		}
	}
	return until, len(u.GetKeys()) > 0
}

func dropExpired(u *userv1.User, at time.Time) {
	u.Keys = slices.DeleteFunc(u.Keys, func(k *userv1.Key) bool { return Expired(k, at) })
}
