package beats

import (
	"context"
	"time"

	"github.com/rs/zerolog"

	"github.com/garrison-fleet/garrison/pkg/topology"

	"github.com/garrison-fleet/garrison/services/registry/internal/presence"
)

const (
	// serversEvery is how often a bus with several servers is asked which of them it hears.
	serversEvery = time.Second
	// serversAnswer is how long it may take to answer: a bus without a leader does not.
	serversAnswer = 3 * time.Second
	// aloneEvery is how often a bus with one server is asked whether it has more now.
	aloneEvery = time.Minute
)

// watchServers notes when a server of the bus goes away, or this process is cut off from the others: beats are lost
// then that no disconnect of this process shows. It blocks until ctx is done. A server of the bus that comes and goes
// counts for a bounded time. A bus that does not answer counts as long as that lasts: nothing can be recorded then, and
// the first beats after it may come later than an answer.
func (p *Watch) watchServers(ctx context.Context) {
	var known presence.Servers
	var blame presence.Blame
	warned := false
	every := serversEvery
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(every):
		}
		once, cancel := context.WithTimeout(ctx, serversAnswer)
		q, err := p.conn.Quorum(once, topology.Ledger, topology.ServerOfBusSilent)
		cancel()
		lost := err != nil && known.Several()
		if err == nil {
			if known, lost = known.Next(q.Leader, q.Others, q.Silent); lost {
				blame, lost = blame.Next(p.records.Now(), p.Interval, p.Returns)
			}
		}
		if lost && ctx.Err() == nil {
			p.interrupted()
			level := zerolog.InfoLevel
			if warned { // once until it was heard again
				level = zerolog.DebugLevel
			}
			p.log.WithLevel(level).Err(err).Str("leader", q.Leader).Strs("silent", q.Silent).
				Msg("a server of the bus went away; servers may connect to another one before they count as silent")
		}
		warned = lost
		if every = serversEvery; known.Known() && !known.Several() {
			every = aloneEvery
		}
	}
}
