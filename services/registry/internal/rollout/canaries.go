package rollout

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/fault"
	rolloutv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/rollout/v1"
)

// cover returns the fields whose values canaries cover.
func cover(s *rolloutv1.Strategy) []string {
	if len(s.GetCover()) > 0 {
		return s.Cover
	}
	return []string{"platform", "env"}
}

// kind is the servers with the same values of all fields of a cover.
type kind struct {
	values  []string // "platform linux/arm64"
	servers []order
	taken   bool
}

// canaries chooses n servers that cover first each value of the fields, then each combination of values, the most
// frequent first; then the next ones in order. The choice is the greedy one of weighted set cover: the server that adds
// most uncovered values, and among those the one whose combination has most servers.
func canaries(all []order, fields []string, n int) (chosen []order, because []string) {
	kinds := kindsOf(all, fields)
	covered := map[string]bool{}
	for len(chosen) < n {
		var best *kind
		var bestNew int
		for _, k := range kinds {
			if k.taken {
				continue
			}
			if fresh := uncovered(k, covered); best == nil || fresh > bestNew ||
				(fresh == bestNew && len(k.servers) > len(best.servers)) {
				best, bestNew = k, fresh
			}
		}
		if best == nil {
			break
		}
		best.taken = true
		for _, v := range best.values {
			covered[v] = true
		}
		chosen = append(chosen, best.servers[0])
		because = append(because, "covers "+strings.Join(best.values, ", "))
	}
	if left := without(all, chosen); len(chosen) < n && len(left) > 0 {
		left = left[:min(n-len(chosen), len(left))]
		chosen = append(chosen, left...)
		because = append(because, slices.Repeat([]string{fmt.Sprintf("one of %d canaries", n)}, len(left))...)
	}
	return chosen, because
}

// kindsOf groups servers, in the order of their first server.
func kindsOf(all []order, fields []string) []*kind {
	byKey := map[string]*kind{}
	var kinds []*kind
	for _, o := range all {
		values := make([]string, len(fields))
		for i, f := range fields {
			values[i] = strings.TrimPrefix(f, "label.") + " " + orNone(o.Fields[f])
		}
		key := strings.Join(values, "\x00")
		k := byKey[key]
		if k == nil {
			k = &kind{values: values}
			byKey[key] = k
			kinds = append(kinds, k)
		}
		k.servers = append(k.servers, o)
	}
	return kinds
}

func orNone(value string) string {
	if value == "" {
		return "(none)"
	}
	return value
}

func uncovered(k *kind, covered map[string]bool) (n int) {
	for _, v := range k.values {
		if !covered[v] {
			n++
		}
	}
	return n
}

// Uncovered returns the combinations of the strategy's cover that no server of the first wave has, sorted, so that a
// plan can warn of them.
func Uncovered(candidates []Candidate, s *rolloutv1.Strategy, l Layout) []string {
	first := map[string]bool{}
	for _, p := range l.Placements {
		first[p.ServerID] = p.Wave == 1
	}
	left, seen := map[string]bool{}, map[string]bool{}
	for _, c := range candidates {
		k := kindsOf([]order{{Candidate: c}}, cover(s))[0]
		name := strings.Join(k.values, ", ")
		if left[name] = true; first[c.ServerID] {
			seen[name] = true
		}
	}
	for name := range seen {
		delete(left, name)
	}
	return slices.Sorted(maps.Keys(left))
}

func tooManyCanaries(n uint32, servers int) error {
	can := some(servers) + " can be canaries"
	if servers == 1 {
		can = "1 server can be a canary"
	}
	return fault.Refusef(fault.Invalid, code.BadStrategy, "%d canaries were asked for, but only %s", n, can).
		Try(fmt.Sprintf("--canaries %d", servers))
}
