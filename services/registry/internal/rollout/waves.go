package rollout

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"slices"
	"strings"

	rollouts "github.com/garrison-fleet/garrison/pkg/noun/rollout"
	rolloutv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/rollout/v1"
)

// Candidate is a server on which something changes.
type Candidate struct {
	ServerID string
	Fields   map[string]string // by field of servers: platform, env, agents, label.NAME and so on
	Owed     bool              // it is offline, or was unhealthy or failed before
	Stages   []uint32          // the stages, from 1, whose conditions it meets
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
	Stages     []*rolloutv1.Stage // those that took servers: the first is that of the first wave
	Empty      []Empty            // stages with conditions that took no server
}

// Empty is a stage with conditions that takes no server.
type Empty struct {
	Stage   uint32 // from 1
	Meet    int    // how many servers meet the conditions
	Owed    int    // of them, how many are offline, or were unhealthy or failed before
	Earlier int    // of them, how many an earlier stage took
}

// order is a candidate with its place in the order of all.
type order struct {
	Candidate
	hash uint64
}

// ordered returns the candidates that can be changed now and those that are owed, each in its random order.
func ordered(candidates []Candidate, id string) (present, owed []order) {
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
	return present, owed
}

// Waves divides candidates into waves as a strategy says: each server into the first stage that takes it. The order
// within a wave is random by the rollout's id, and takes servers of each value of the strategy's field Spread in turn.
// It returns a refusal when the strategy cannot be met. What becomes of stages that took no server is for the caller.
func Waves(candidates []Candidate, s *rolloutv1.Strategy, id string) (Layout, error) {
	if err := Check(s); err != nil {
		return Layout{}, err
	}
	present, owed := ordered(candidates, id)
	present = spread(present, s.GetSpread(), id)
	l := Layout{Owed: uint32(len(owed))}
	rest := present
	for n, stage := range s.GetStages() {
		eligible, total := rest, len(present)
		if stage.Of != nil {
			eligible, total = meeting(rest, n), len(meeting(present, n))
		}
		wave, because, err := take(eligible, stage, s, total)
		if err != nil {
			return Layout{}, err
		}
		if len(wave) == 0 { // earlier stages took all servers, or none meets the conditions
			if stage.Of != nil {
				away := len(meeting(owed, n))
				l.Empty = append(l.Empty, Empty{uint32(n) + 1, total + away, away, total})
			}
			continue
		}
		if n > 0 && stage.GetPercent() > 0 && len(wave) < len(eligible) {
			because = slices.Repeat([]string{fmt.Sprintf("%d %%", stage.GetPercent())}, len(wave))
		}
		l.add(wave, inGroup(because, stage))
		l.Stages = append(l.Stages, stage)
		rest = without(rest, wave)
	}
	if len(rest) > 0 || (len(l.Waves) == 0 && len(owed) == 0) {
		l.add(rest, slices.Repeat([]string{"the rest"}, len(rest)))
	}
	for _, o := range owed {
		l.Placements = append(l.Placements, Placement{o.ServerID, 0, "offline, or unhealthy or failed before"})
	}
	return l, nil
}

// meeting returns the servers that meet the conditions of a stage, whose position counts from 0.
func meeting(all []order, stage int) (out []order) {
	for _, o := range all {
		if slices.Contains(o.Stages, uint32(stage)+1) {
			out = append(out, o)
		}
	}
	return out
}

// inGroup adds the conditions of a stage to why servers are in it.
func inGroup(because []string, stage *rolloutv1.Stage) []string {
	if stage.Of == nil {
		return because
	}
	group := rollouts.GroupText(stage.Of)
	for n, text := range because {
		if because[n] = group; stage.Size != nil {
			because[n] = text + " of " + group
		}
	}
	return because
}

func (l *Layout) add(wave []order, because []string) {
	l.Waves = append(l.Waves, uint32(len(wave)))
	for i, o := range wave {
		l.Placements = append(l.Placements, Placement{o.ServerID, uint32(len(l.Waves)), because[i]})
	}
}

// take returns the servers of a stage out of those that it may take, and why each is in it.
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
	default:
		n = len(rest)
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
