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
		w := r.Waves[n-1]
		room := room(r, load{most: int(w.Servers), proven: countOf(w, succeeded), lost: newlyBroken(r)})
		if room == 0 {
			return d
		}
		budget, door := budgets{in: in}, doors{in: in}
		for server := range in.Pending(n) {
			if door.shut(server) || !budget.take(server) {
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
			d.Waits = ""
			budget.note(&d)
		}
		door.note(&d)
	}
	return d
}

// slowStart is how many servers are under way at once before the first of them succeeded.
const slowStart = 2

// load is what decides how many servers may be under way at once, besides the strategy.
type load struct {
	most   int // without a limit of the strategy
	proven int // how many servers succeeded
	lost   int // how many broke, of those that the strategy allows
}

// room returns how many servers may be released now. A wave begins like a connection of TCP: each server that succeeds
// makes room for one more, so the number of those under way doubles while they prove good. It never exceeds how many
// servers the rollout may still break, or one: so a halt finds at most one more broken than the strategy allows. In an
// emergency, and on the way back, time counts more.
func room(r *rolloutv1.Rollout, l load) int {
	n := int(r.Strategy.GetConcurrency())
	if n == 0 {
		n = max(l.most, 1)
	}
	if !r.Strategy.GetEmergency() && r.Undoes == "" {
		n = min(n, slowStart+l.proven, max(1, mayBreak(r)-l.lost))
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
	room := room(r, load{
		most: servers(r), proven: total(r, succeeded) + countOf(r.Owed, succeeded),
		lost: max(newlyBroken(r), broke(waveOrNone(r.Owed))),
	})
	budget, door, blocks := budgets{in: in}, doors{in: in}, blocked{in: in}
	for server, wave := range in.Returned() {
		switch {
		case len(d.Release) >= room:
			return d
		case wave == 0 && !all, wave > 0 && wave <= last && r.Waves[wave-1].PassedAt == nil:
			continue
		case len(d.Release) > 0 && wave != d.Wave:
			continue
		case blocks.hold(server), door.shut(server):
		case budget.take(server):
			d.Release, d.Wave, d.Waits = append(d.Release, server), wave, ""
		}
	}
	door.note(&d)
	budget.note(&d)
	blocks.note(&d)
	return d
}

// blocked holds back the servers that are owed and that a block keeps the rollout from, within one decision.
type blocked struct {
	in   Input
	held int
	why  string
}

func (b *blocked) hold(server string) bool {
	why := b.in.refused(server)
	if why != nil {
		b.held, b.why = b.held+1, why.Message
	}
	return why != nil
}

func (b *blocked) note(d *Decision) {
	if b.held > 0 {
		d.waitFor(fmt.Sprintf("%s: %s that %s owed held back", b.why, some(b.held), are(b.held)))
	}
}

func are(n int) string {
	if n == 1 {
		return "is"
	}
	return "are"
}

// serveLate goes on with servers of a rollout that succeeded: those under way, and those that were owed.
func serveLate(in Input) (d Decision) {
	if most := mayBreak(in.Rollout); broke(waveOrNone(in.Rollout.Owed)) <= most && newlyBroken(in.Rollout) <= most {
		d.advance(in)
	}
	if d.Acts() {
		return d
	}
	return serveOwed(in, d)
}

func waveOrNone(w *rolloutv1.Wave) *rolloutv1.Wave {
	if w == nil {
		return &rolloutv1.Wave{}
	}
	return w
}
