package view

import (
	"iter"

	"github.com/garrison-fleet/garrison/pkg/ledger"
	instancev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/instance/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"
)

// smallest returns the term whose index has the fewest rows, or nil when none has an index.
func smallest[T any](terms []term[T]) *term[T] {
	var best *term[T]
	for n := range terms {
		if t := &terms[n]; t.size >= 0 && (best == nil || t.size < best.size) {
			best = t
		}
	}
	return best
}

func meetsAll[T any](terms []term[T], row T) bool {
	for n := range terms {
		if !terms[n].match(row) {
			return false
		}
	}
	return true
}

// search finds servers and instances by filters.
type search struct{ *filters }

// Servers returns the servers that pass the filter and sort after an id, by id.
func (v *search) Servers(q ServerFilter, after string) iter.Seq2[string, *serverv1.Server] {
	return v.serversOf(v.serverTerms(q), after)
}

func (v *search) serversOf(terms []term[*serverv1.Server], after string) iter.Seq2[string, *serverv1.Server] {
	return func(yield func(string, *serverv1.Server) bool) {
		for id := range smallest(terms).rows(after) {
			if s, ok := v.servers.Get(id); ok && meetsAll(terms, s) && !yield(id, s) {
				return
			}
		}
	}
}

// Instances returns the instances that pass the filter and sort after a key, by server and agent.
func (v *search) Instances(q InstanceFilter, after string) iter.Seq2[string, *instancev1.Instance] {
	return func(yield func(string, *instancev1.Instance) bool) {
		for found := range v.found(q, after) {
			if !yield(found.key, found.instance) {
				return
			}
		}
	}
}

// found is an instance with its server.
type found struct {
	key      string
	instance *instancev1.Instance
	server   *serverv1.Server // nil in a view of which a fact about it is missing
}

// found returns the instances that pass a filter. It goes through the smallest index: one of instances, or one of
// servers with the instances of each. The order is the same, because instances are sorted by server first.
func (v *search) found(q InstanceFilter, after string) iter.Seq[found] {
	terms, serverTerms := v.instanceTerms(q), v.instanceServerTerms(q)
	own, theirs := smallest(terms), smallest(serverTerms)
	keys := own.rows(after)
	if theirs != nil && theirs.size*v.each() < own.size {
		keys = v.instancesOn(theirs, after)
	}
	return func(yield func(found) bool) {
		for key := range keys {
			i, ok := v.foundAt(key, q.Executors)
			if !ok || !meetsAll(terms, i) {
				continue
			}
			f := found{key, i, row(v.servers, i.ServerId)}
			if (len(serverTerms) == 0 || f.server != nil && meetsAll(serverTerms, f.server)) && !yield(f) {
				return
			}
		}
	}
}

// each returns how many instances a server has on average, rounded up.
func (v *search) each() int { return 1 + v.instances.Len()/max(v.servers.Len(), 1) }

// instancesOn returns the keys of the instances on the servers of a term.
func (v *search) instancesOn(servers *term[*serverv1.Server], after string) iter.Seq[string] {
	return func(yield func(string) bool) {
		of := func(id string) bool {
			for key := range v.instanceBy.Prefixed(groupAll, ledger.Key(id, ""), after) {
				if !yield(key) {
					return false
				}
			}
			return true
		}
		first := serverOf(after)
		if _, ok := v.servers.Get(first); ok && !of(first) { // the cursor may be in the middle of a server
			return
		}
		for id := range servers.rows(first) {
			if !of(id) {
				return
			}
		}
	}
}
