// Package view is the registry's view: a fold over the ledger, kept in tables and in indexes that are
// built from them.
//
// Guarantees:
//
//  1. The same facts in the same order lead to the same tables, byte for byte, wherever a
//     snapshot was taken and read in between.
//  2. A fact that does not fit changes nothing but the sequence of its key.
//  3. The name of a server that is not dead is unique: a second invitation under it does
//     not fit. The ledger's order decides between two registries that invite at once.
//  4. Its size is bounded by the fleet: it keeps the 10,000 intents that were decided last, by
//     the ledger's order, the open tasks, and at most a sequence of a deleted record.
//  5. A filtered list reads the most selective index and checks only its members.
//  6. A count by fields with few values reads counters that the fold keeps. One by a field of servers, a label for
//     instance, reads two numbers for each instance; one of few rows, or by a field with as many values as there are
//     rows, reads the rows that pass the filter.
//
// Its parts. Each may use those above it:
//
//	tables     the records, and what is built from them
//	declared   finds agents, environments, holds, rules and tokens
//	origins    finds images, channels and sources
//	fleet      finds servers and instances
//	orders     finds intents and rollouts
//	filters    makes terms of filters, for the three that follow
//	search     lists of servers and instances
//	counting   counts of them
//	foreign    lists and counts of external instances
//	budgets    the servers that work, by the groups of keep budgets
//	faults     the builds that failed: suspected or blocked
//	reach      what rollouts reach, and what happens to it
//	View       folds a fact into all of them
package view

import (
	"github.com/garrison-fleet/garrison/pkg/fold"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/noun/agent"
	"github.com/garrison-fleet/garrison/pkg/noun/application"
	"github.com/garrison-fleet/garrison/pkg/noun/channel"
	"github.com/garrison-fleet/garrison/pkg/noun/environment"
	"github.com/garrison-fleet/garrison/pkg/noun/hold"
	imagenoun "github.com/garrison-fleet/garrison/pkg/noun/image"
	"github.com/garrison-fleet/garrison/pkg/noun/labelrule"
	"github.com/garrison-fleet/garrison/pkg/noun/source"
	"github.com/garrison-fleet/garrison/pkg/noun/token"
	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"

	"github.com/garrison-fleet/garrison/services/registry/internal/image"
)

// Layout is the version of the tables below.
const Layout = 50

// Nouns is the nouns whose facts the view folds.
var Nouns = []ledger.Noun{
	ledger.Application, ledger.Environment, ledger.Agent, ledger.Server, ledger.Instance,
	ledger.Intent, ledger.Image, ledger.Channel, ledger.Task, ledger.External, ledger.Token,
	ledger.LabelRule, ledger.Lobby, ledger.Hold, ledger.Rollout, ledger.Block, ledger.Source,
}

// View is the registry's view. Each part of it may read the tables, and the parts that are named before it.
type View struct {
	*tables
	*declared
	*origins
	*fleet
	*orders
	*search
	*counting
	*foreign
	*budgets
	*faults
	*reach
}

// New returns an empty view.
func New() *View {
	t := newTables()
	servers, images, orders := &fleet{t}, &origins{t}, &orders{t}
	s := &search{&filters{t, servers}}
	b, f, c := &budgets{s}, &faults{t, servers, images, orders}, &counting{s}
	return &View{
		tables: t, declared: &declared{t}, origins: images, fleet: servers, orders: orders,
		search: s, counting: c, foreign: &foreign{c}, budgets: b, faults: f, reach: &reach{t, orders, b, f},
	}
}

// Tables returns the tables, in the order of their names.
func (v *View) Tables() []fold.Stored {
	return []fold.Stored{
		v.agents, v.applications, v.blocks, v.channels, v.environments, v.externals, v.holds, v.images,
		v.instances, v.intents, v.labelRules, v.rejections, v.removed, v.rollouts, v.servers, v.sources, v.suspects,
		v.targets, v.tasks, v.tokens, v.Writers,
	}
}

// Apply folds a fact and reports whether it fit. One that did not fit takes room in the ledger as well.
func (v *View) Apply(f ledger.Fact) bool {
	v.Writers.Apply(f)
	switch f.Noun {
	case ledger.Agent:
		return v.applyAgent(f)
	case ledger.Server:
		return v.applyServer(f)
	case ledger.Instance:
		return v.applyInstance(f)
	case ledger.External:
		return v.applyExternal(f)
	case ledger.Intent:
		return v.applyIntent(f)
	case ledger.Task:
		return v.applyTask(f)
	case ledger.Lobby:
		return v.applyLobby(f)
	case ledger.Rollout:
		return v.applyRollout(f)
	case ledger.Block:
		return v.applyBlock(f)
	case ledger.Image:
		return v.applyImage(f)
	case ledger.Channel:
		next, fit := channel.Apply(row(v.channels, f.Key), f, v.imageKnown)
		return follow(v.channels, f, next, fit)
	case ledger.Source:
		next, fit := source.Apply(row(v.sources, f.Key), f)
		return follow(v.sources, f, next, fit)
	}
	return v.applyDeclared(f)
}

// applyDeclared folds a fact of a noun whose record is all that follows from it.
func (v *View) applyDeclared(f ledger.Fact) bool {
	switch f.Noun {
	case ledger.Application:
		next, fit := application.Apply(row(v.applications, f.Key), f)
		return own(v.applications, f, next, fit)
	case ledger.Environment:
		have := row(v.environments, f.Key)
		next, fit := environment.Apply(have, f)
		own(v.environments, f, next, fit)
		v.keepEnvironment(f.Key, have.GetKeep())
		return fit
	case ledger.Token:
		next, fit := token.Apply(row(v.tokens, f.Key), f)
		return own(v.tokens, f, next, fit)
	case ledger.LabelRule:
		next, fit := labelrule.Apply(row(v.labelRules, f.Key), f)
		return own(v.labelRules, f, next, fit)
	case ledger.Hold:
		next, fit := hold.Apply(row(v.holds, f.Key), f)
		return own(v.holds, f, next, fit)
	}
	return false
}

func (v *View) applyAgent(f ledger.Fact) bool {
	have := row(v.agents, f.Key)
	next, fit := agent.Apply(have, f)
	if fit {
		was := v.isSelf(f.Key)
		v.indexAgent(f.Key, have, next)
		if was != v.isSelf(f.Key) {
			v.placeExecutorsOf(f.Key)
		}
	}
	return own(v.agents, f, next, fit)
}

// applyImage keeps the part of the manifest that decisions need. A deleted image leaves its channels.
func (v *View) applyImage(f ledger.Fact) bool {
	next, fit := imagenoun.Apply(row(v.images, f.Key), f)
	if _, ok := f.Body.(*imagev1.Created); ok && fit {
		next.Manifest = image.WithoutContent(next.Manifest)
	}
	if next == nil && fit {
		for _, c := range v.channels.All() {
			channel.Drop(c, f.Key)
		}
	}
	return follow(v.images, f, next, fit)
}
