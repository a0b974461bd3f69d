package rollout

// atOnceAhead is how many servers of a rollout fetch ahead at once.
const atOnceAhead = 100

// prime has servers that must not be changed now fetch ahead what the rollout brings them, of any wave, when there is
// nothing else to do. What comes too late for that comes with the change, so nothing waits for it.
func (d *Decision) prime(in Input) {
	r := in.Rollout
	if d.Acts() || in.Paused != "" || in.Unprimed == nil || in.Ahead == nil {
		return
	}
	room := atOnceAhead
	if own := int(r.Strategy.GetConcurrency()); own > 0 {
		room = min(room, own)
	}
	room -= int(r.Primed) - int(r.FetchedAhead) - int(r.NotFetchedAhead)
	door := doors{in: in}
	for server := range in.Unprimed() {
		if len(d.Prime) >= room {
			return
		}
		if !door.shut(server) || in.refused(server) != nil {
			continue
		}
		open, next := in.Ahead(server)
		if open {
			d.Prime = append(d.Prime, server)
		} else if !next.IsZero() {
			d.at(next)
		}
	}
}
