// Package application is the life of the noun application: a named group of agents with its metadata.
// The registry writes the noun.
//
//	next, fit := application.Apply(record, fact)
//
// Guarantee: a record is created once and changed or deleted only while it exists.
package application

import (
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/noun/declared"
	applicationv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/application/v1"
)

// Life lists which facts can happen in which state, and the state that follows.
var Life = declared.Life

// Apply folds a fact into an application's record, which is nil for an unknown application, and returns the
// record after it; nil means that the application is deleted. It returns false, and the record unchanged,
// for a fact that does not fit.
func Apply(have *applicationv1.Application, f ledger.Fact) (*applicationv1.Application, bool) {
	exists, fit := declared.Next(have != nil, f.Name())
	switch {
	case !fit:
		return have, false
	case !exists:
		return nil, true
	}
	next := proto.CloneOf(body(f.Body))
	if next == nil {
		return have, false
	}
	next.Name, next.CreatedAt = f.Key, declared.CreatedAt(have.GetCreatedAt(), f.At)
	next.Revision, next.ChangedBy, next.Changed, next.ChangedAt = f.Sequence, f.Actor, nil, nil
	if have != nil {
		next.Changed, next.ChangedAt = declared.Changed(have, next), timestamppb.New(f.At)
	}
	return next, true
}

// body returns the record in a fact, or nil.
func body(m proto.Message) *applicationv1.Application {
	switch b := m.(type) {
	case *applicationv1.Created:
		return b.Application
	case *applicationv1.Changed:
		return b.Application
	}
	return nil
}
