package rollout

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"slices"
	"strings"

	rolloutv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/rollout/v1"
)

// Candidate is a server on which something changes.
type Candidate struct {
	ServerID string
	Fields   map[string]string // by field of servers: platform, env, agents, label.NAME and so on
	Owed     bool              // it is offline, or was unhealthy before
}

// Placement is a candidate with its wave.
type Placement struct {
	ServerID string
	Wave     uint32 // from 1; 0 for an owed one
	Because  string
}

// Layout is the waves of a rollout.
type Layout struct {
	Placements []Placement // by wave, in the order of release; owed ones last
	Waves      []uint32    // how many servers each wave has, from the first
	Owed       uint32
}

// order is a candidate with its place in the order of all.
type order struct {
	Candidate
	hash uint64
}

// Waves divides candidates into waves as a strategy says. The order within a wave is random by the rollout's id, and
// takes servers of each value of the strategy's field Spread in turn. It returns a refusal when the strategy cannot be
// met.
func Waves(candidates []Candidate, s *rolloutv1.Strategy, id string) (Layout, error) {
	if err := Check(s); err != nil {
		return Layout{}, err
	}
	var present, owed []order
	for _, c := range candidates {
		o := order{c, hash(id, c.ServerID)}
		if c.Owed {
			owed = append(owed, o)
		} else {
			present = append(present, o)
		}
	}
	sortOrders(present)
	sortOrders(owed)
	present = spread(present, s.GetSpread(), id)
	l := Layout{Owed: uint32(len(owed))}
	rest, total := present, len(present)
	for n, stage := range s.GetStages() {
		wave, because, err := take(rest, stage, s, total)
		if err != nil {
			return Layout{}, err
		}
		if len(wave) == 0 { // earlier stages took all servers
			continue
		}
		if n > 0 && stage.GetPercent() > 0 && len(wave) < len(rest) {
			because = slices.Repeat([]string{fmt.Sprintf("%d %%", stage.GetPercent())}, len(wave))
		}
		l.add(wave, because)
		rest = without(rest, wave)
	}
	if len(rest) > 0 || (len(l.Waves) == 0 && len(owed) == 0) {
		l.add(rest, slices.Repeat([]string{"the rest"}, len(rest)))
	}
	for _, o := range owed {
		l.Placements = append(l.Placements, Placement{o.ServerID, 0, "offline, or unhealthy before"})
	}
	return l, nil
}

func (l *Layout) add(wave []order, because []string) {
	l.Waves = append(l.Waves, uint32(len(wave)))
	for i, o := range wave {
		l.Placements = append(l.Placements, Placement{o.ServerID, uint32(len(l.Waves)), because[i]})
	}
}

// take returns the servers of a stage, and why each is in it.
func take(rest []order, stage *rolloutv1.Stage, s *rolloutv1.Strategy, total int) ([]order, []string, error) {
	var n int
	switch size := stage.Size.(type) {
	case *rolloutv1.Stage_Canaries:
		if int(size.Canaries) > len(rest) {
			return nil, nil, tooManyCanaries(size.Canaries, len(rest))
		}
		wave, because := canaries(rest, cover(s), int(size.Canaries))
		return wave, because, nil
	case *rolloutv1.Stage_Servers:
		n = int(size.Servers)
	case *rolloutv1.Stage_Percent:
		n = max(1, total*int(size.Percent)/100)
	}
	n = min(n, len(rest))
	return rest[:n], slices.Repeat([]string{some(n)}, n), nil
}

// without returns rest without the servers of wave, in order.
func without(rest, wave []order) []order {
	taken := map[string]bool{}
	for _, o := range wave {
		taken[o.ServerID] = true
	}
	return slices.DeleteFunc(slices.Clone(rest), func(o order) bool { return taken[o.ServerID] })
}

// spread returns the candidates such that the values of a field follow each other in turn, while there are servers of
// each.
func spread(all []order, field, id string) []order {
	if field == "" {
		return all
	}
	groups := map[string][]order{}
	var values []string
	for _, o := range all {
		v := o.Fields[field]
		if groups[v] == nil {
			values = append(values, v)
		}
		groups[v] = append(groups[v], o)
	}
	slices.SortFunc(values, func(a, b string) int {
		return cmp.Or(cmp.Compare(hash(id, a), hash(id, b)), strings.Compare(a, b))
	})
	mixed := make([]order, 0, len(all))
	for turn := 0; len(mixed) < len(all); turn++ {
		for _, v := range values {
			if turn < len(groups[v]) {
				mixed = append(mixed, groups[v][turn])
			}
		}
	}
	return mixed
}

func sortOrders(all []order) {
	slices.SortFunc(all, func(a, b order) int {
		return cmp.Or(cmp.Compare(a.hash, b.hash), strings.Compare(a.ServerID, b.ServerID))
	})
}

func hash(id, name string) uint64 {
	sum := sha256.Sum256([]byte(id + "\x00" + name))
	return binary.BigEndian.Uint64(sum[:])
}
