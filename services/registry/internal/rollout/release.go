package rollout

import (
	"cmp"
	"fmt"

	rolloutv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/rollout/v1"
)

// release releases the next servers of the first wave that has pending ones, up to the wave that is open.
func release(in Input, d Decision, upTo uint32) Decision {
	r := in.Rollout
	for n := uint32(1); n <= upTo; n++ {
		if countOf(r.Waves[n-1], pending) == 0 || in.Pending == nil {
			continue
		}
		room := room(r, int(r.Waves[n-1].Servers))
		if room == 0 {
			return d
		}
		budget := budgets{in: in}
		for server := range in.Pending(n) {
			if !budget.take(server) {
				continue
			}
			if d.Release = append(d.Release, server); len(d.Release) == room {
				break
			}
		}
		if d.Wave = n; len(d.Release) > 0 {
			d.Waits = ""
			return d
		}
		if budget.held > 0 {
			d.Waits = fmt.Sprintf("%s: %s held back", budget.why, some(budget.held))
		}
	}
	return d
}

// room returns how many servers may be released now.
func room(r *rolloutv1.Rollout, wave int) int {
	n := int(r.Strategy.GetConcurrency())
	if n == 0 {
		n = max(wave, 1)
	}
	return min(Batch, max(0, n-total(r, reached)-countOf(r.Owed, reached)))
}

// serveOwed releases servers that were owed and are back: those of a wave once it passed, those that were owed from the
// start once the last wave began. They stop when more of them broke than the rollout may break.
func serveOwed(in Input, d Decision) Decision {
	r := in.Rollout
	if in.Returned == nil {
		return d
	}
	if most := mayBreak(r); broke(waveOrNone(r.Owed)) > most || newlyBroken(r) > most {
		d.Waits = cmp.Or(d.Waits, "nothing: too many servers broke, so those that are owed are not served")
		return d
	}
	last := uint32(len(r.Waves))
	all := last == 0 || r.Waves[last-1].OpenedAt != nil
	room, budget := room(r, servers(r)), budgets{in: in}
	for server, wave := range in.Returned() {
		switch {
		case len(d.Release) >= room:
			return d
		case wave == 0 && !all, wave > 0 && wave <= last && r.Waves[wave-1].PassedAt == nil:
			continue
		case len(d.Release) > 0 && wave != d.Wave:
			continue
		case budget.take(server):
			d.Release, d.Wave, d.Waits = append(d.Release, server), wave, ""
		}
	}
	return d
}

func waveOrNone(w *rolloutv1.Wave) *rolloutv1.Wave {
	if w == nil {
		return &rolloutv1.Wave{}
	}
	return w
}

// budgets is what the keep budgets still allow within one decision.
type budgets struct {
	in    Input
	spare map[[2]string]int // by field and value: how many servers may be taken away
	held  int
	why   string
}

// take reports whether a server may be changed now, and takes it out of every budget if so.
func (b *budgets) take(server string) bool {
	keep := b.in.Rollout.Strategy.GetKeep()
	if len(keep) == 0 || (b.in.Works != nil && !b.in.Works(server)) {
		return true
	}
	if b.spare == nil {
		b.spare = map[[2]string]int{}
	}
	keys := make([][2]string, len(keep))
	for i, k := range keep {
		value := b.in.Field(server, k.Field)
		keys[i] = [2]string{k.Field, value}
		spare, known := b.spare[keys[i]]
		if !known {
			working, all := b.in.Working(k.Field, value)
			spare = working - needed(k, all)
			b.spare[keys[i]] = spare
		}
		if spare <= 0 {
			b.held++
			b.why = fmt.Sprintf("more working servers with %s %s", k.Field, orNone(value))
			return false
		}
	}
	for _, key := range keys {
		b.spare[key]--
	}
	return true
}
