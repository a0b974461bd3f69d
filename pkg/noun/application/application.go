// Package application is the life of the noun application: a named group of agents with its metadata.
// The registry writes the noun.
//
//	next, fit := application.Apply(record, fact)
//
// Guarantee: a record is created once and changed or deleted only while it exists.
package application

import (
	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/noun/declared"
	applicationv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/application/v1"
)

// Life lists which facts can happen in which state, and the state that follows.
var Life = declared.Life

// Apply folds a fact into an application's record, as declared.Apply does.
func Apply(have *applicationv1.Application, f ledger.Fact) (*applicationv1.Application, bool) {
	return declared.Apply(have, f)
}
