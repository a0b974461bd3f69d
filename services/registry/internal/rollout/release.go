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
	room, budget, door, blocks := room(r, servers(r)), budgets{in: in}, doors{in: in}, blocked{in: in}
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
