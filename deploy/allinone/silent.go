package allinone

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/rs/zerolog"

	"github.com/garrison-fleet/garrison/pkg/logs"
)

const (
	// silentFor is how long a connection may take to log in before it counts as silent. Most logins take milliseconds;
	// one of a fleet that comes back at once may take until topology.LoginWithin.
	silentFor = 2 * time.Second
	// silentOfOne is how many silent connections one address may have. A fleet behind one address that is closed here
	// comes back with the pauses of its clients.
	silentOfOne = 256
	// silentLook is the pause between two looks, and silentMost is at how many connections one looks.
	silentLook = time.Second
	silentMost = 20_000
)

// closeSilent closes connections that do not log in when one address has many of them, until ctx is done. nats-server
// bounds only how long each may take, which is long, so that a whole fleet can log in at once.
func closeSilent(ctx context.Context, s *server.Server, log zerolog.Logger) error {
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(silentLook):
		}
		// Who has not logged in is in the global account, which has no users.
		waiting, err := s.LookupAccount(server.DEFAULT_GLOBAL_ACCOUNT)
		if err != nil || waiting.NumLocalConnections() <= silentOfOne {
			continue
		}
		is, err := s.Connz(&server.ConnzOptions{Account: server.DEFAULT_GLOBAL_ACCOUNT, Limit: silentMost})
		if err != nil {
			continue
		}
		for address, ids := range tooSilent(is.Conns, time.Now()) {
			log.Warn().Str("address", address).Int(logs.Count, len(ids)).
				Msg("too many connections of one address that do not log in; some are closed")
			for _, id := range ids {
				_ = s.DisconnectClientByID(id) // it may have closed meanwhile
			}
		}
	}
}

// tooSilent returns the ids of connections to close, by address: so many of those that are silent that silentOfOne are
// left. They are taken at random: the oldest are next to log in when a fleet comes back, and the newest may be servers
// that share the address of a client that stays silent.
func tooSilent(all []*server.ConnInfo, now time.Time) map[string][]uint64 {
	silent := map[string][]uint64{}
	for _, c := range all {
		if now.Sub(c.Start) > silentFor {
			silent[c.IP] = append(silent[c.IP], c.Cid)
		}
	}
	for address, ids := range silent {
		if len(ids) <= silentOfOne {
			delete(silent, address)
			continue
		}
		rand.Shuffle(len(ids), func(i, j int) { ids[i], ids[j] = ids[j], ids[i] })
		silent[address] = ids[silentOfOne:]
	}
	return silent
}
