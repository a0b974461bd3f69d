package access

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/fold"
	"github.com/garrison-fleet/garrison/pkg/topology"

	"github.com/garrison-fleet/garrison/services/access/internal/view"
)

const (
	// sampleEvery is how often it is read how much the accounts have sent and, of those that sent much, their
	// connections.
	sampleEvery = time.Second
	// listEvery is how often the connections of every account are read. What one sent is counted from there, so that a
	// key that pauses between does not send more than it may either.
	listEvery = 10 * time.Second
	// sampled is how many connections of each account are read: those that have sent most, and as many again that were
	// active last.
	sampled = 1024
	// mostMessages and mostBytes are how much a server's key may send in a second. A server that was unreachable
	// for long has 64 reports of each kind to send, and a beat.
	mostMessages = 2_000
	mostBytes    = 32 << 20
	// mostOfPerson is how many messages a person's key may send in a second. An upload of images has few
	// messages and many bytes.
	mostOfPerson = 4_000
	// fleetShare is of how many connections one is expected to send a message in a second: a fleet of 10,000 that
	// beats every five seconds sends as much as one key may, and listing its connections each second costs more.
	fleetShare = 2
	// suspendFirst is how long a key is suspended that sends more; it doubles each time, up to
	// suspendMost, until the key has behaved for suspendMost.
	suspendFirst = time.Minute
	suspendMost  = time.Hour
)

// floods suspends the keys of servers, guests and people that send too much: nats-server bounds what waits
// for a client, and not what a client sends. The bus refuses a suspended key like one that is shut
// out, for a while. This process alone remembers that: no fact is written, and a restart lets
// the key in again.
type floods struct {
	cfg      Config
	view     *view.View
	follower *fold.Follower
	wake     func() // has the accounts pushed
	// userOf returns the key of a connection, or "" for one that was not announced yet
	userOf func(account, server string, id uint64) string

	totals map[string]amount // that the accounts had sent at the last sample

	mu        sync.Mutex
	listed    map[string]time.Time             // by account
	sent      map[string]map[connection]amount // by account, when it was listed
	suspended map[string]map[string]suspension // by account and key
}

type connection struct {
	server string
	id     uint64
}

type amount struct {
	messages, bytes uint64
	at              time.Time
}

type suspension struct {
	until time.Time
	next  time.Duration // the length of the next one
}

func newFloods(cfg Config, v *view.View, f *fold.Follower) *floods {
	s := &floods{cfg: cfg, view: v, follower: f, totals: map[string]amount{}}
	s.sent, s.listed = map[string]map[connection]amount{}, map[string]time.Time{}
	s.suspended = map[string]map[string]suspension{}
	for _, account := range watched {
		s.suspended[account] = map[string]suspension{}
	}
	return s
}

// run watches until ctx is done. What cannot be read now is read the next time.
func (s *floods) run(ctx context.Context) error {
	tick := time.NewTicker(sampleEvery)
	defer tick.Stop()
	for {
		if err := s.sample(ctx); err != nil && ctx.Err() == nil {
			s.cfg.Log.Debug().Err(err).Msg("what connections send was not read")
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// sample reads how much was sent, and suspends the keys that sent too much since the last time.
func (s *floods) sample(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 5*sampleEvery)
	defer cancel()
	servers, err := s.cfg.System.Servers(ctx)
	if err != nil {
		return err
	}
	uses, err := usesOf(ctx, s.cfg, len(servers))
	if err != nil {
		return err
	}
	for _, account := range s.due(uses, time.Now()) {
		if err := s.list(ctx, servers, account); err != nil {
			return err
		}
	}
	return nil
}

// list reads what the connections of an account have sent, and suspends the keys that sent too much since the last
// list.
func (s *floods) list(ctx context.Context, servers []bus.Server, account string) error {
	seen, byKey := map[connection]amount{}, map[string]amount{}
	for _, server := range servers {
		clients, err := s.cfg.System.Senders(ctx, server, s.cfg.Issuer.AccountKey(account), sampled)
		if err != nil {
			return err
		}
		for _, c := range clients {
			at := connection{server.ID, c.ID}
			seen[at] = amount{c.Messages, c.Bytes, c.At}
			if user := s.userOf(account, server.ID, c.ID); user != "" {
				byKey[user] = byKey[user].plus(s.since(account, at, c))
			}
		}
	}
	s.judge(account, byKey)
	s.keep(account, seen, time.Now())
	return nil
}

// keep keeps what the connections of an account had sent when they were listed.
func (s *floods) keep(account string, seen map[connection]amount, at time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sent[account], s.listed[account] = seen, at
}

// due returns the accounts whose connections are to be listed: those that are busy, and those of which the last list is
// old. Without it a key that sends for a second and pauses for the next would be compared with all the time that it
// was connected.
func (s *floods) due(uses map[string]bus.AccountUse, at time.Time) (accounts []string) {
	busy := s.busy(uses, at)
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, account := range watched {
		if slices.Contains(busy, account) || at.Sub(s.listed[account]) >= listEvery {
			accounts = append(accounts, account)
		}
	}
	return accounts
}

// busy returns the accounts whose clients together sent more since the last sample than one key may, besides what the
// account's connections send of themselves. No key of another account can have sent much too much since then, so that
// its connections, which may be many, need no list before listEvery.
func (s *floods) busy(uses map[string]bus.AccountUse, at time.Time) (accounts []string) {
	for _, account := range watched {
		now := amount{uses[account].Messages, uses[account].Bytes, at}
		sent := now.since(s.totals[account])
		if account == topology.AccountNodes { // no other account has clients that beat
			sent.messages -= min(sent.messages, uint64(uses[account].Connections)/fleetShare)
		}
		if tooMuch(account, sent) {
			accounts = append(accounts, account)
		}
		s.totals[account] = now
	}
	return accounts
}

// since returns what a connection sends in a second: since the last list, or since it was opened.
func (s *floods) since(account string, at connection, c bus.Sender) amount {
	s.mu.Lock()
	before, known := s.sent[account][at]
	s.mu.Unlock()
	if !known {
		before.at = c.Since
	}
	return amount{c.Messages, c.Bytes, c.At}.since(before) // by the bus's clock: an answer may wait for this process
}

// since returns how much was sent in a second since another time.
func (a amount) since(before amount) amount {
	seconds := max(a.at.Sub(before.at).Seconds(), 1)
	return amount{
		messages: uint64(float64(a.messages-min(a.messages, before.messages)) / seconds),
		bytes:    uint64(float64(a.bytes-min(a.bytes, before.bytes)) / seconds),
	}
}

func (a amount) plus(b amount) amount {
	return amount{messages: a.messages + b.messages, bytes: a.bytes + b.bytes}
}

// tooMuch reports whether a key of an account may not send that much in a second.
func tooMuch(account string, sent amount) bool {
	if slices.Contains(topology.PeopleAccounts, account) {
		return sent.messages > mostOfPerson
	}
	return sent.messages > mostMessages || sent.bytes > mostBytes
}

// judge suspends the keys of an account that sent too much.
func (s *floods) judge(account string, byKey map[string]amount) {
	for key, sent := range byKey {
		if !tooMuch(account, sent) {
			continue
		}
		length := s.suspend(account, key)
		if length == 0 {
			continue
		}
		owner := key
		s.follower.Read(func() {
			if of := s.view.OwnerOf(account, key); of != "" {
				owner = of
			}
		})
		s.cfg.Log.Warn().Str("owner", owner).Uint64("messages", sent.messages).Uint64("bytes", sent.bytes).
			Dur("for", length).Msg("too much was sent in a second; the key is suspended")
		s.wake()
	}
}

// suspend returns for how long a key is suspended now, or 0 when it is suspended already.
func (s *floods) suspend(account, key string) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	now, of := s.cfg.Now(), s.suspended[account]
	is, again := of[key]
	if now.Before(is.until) {
		return 0
	}
	length := suspendFirst
	if again {
		length = is.next
	}
	of[key] = suspension{until: now.Add(length), next: min(2*length, suspendMost)}
	return length
}

// add adds the keys that are suspended now to those that the accounts refuse, and moves next forward
// to when that changes.
func (s *floods) add(want map[string]view.Revoked, next time.Time) time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.cfg.Now()
	for account, keys := range s.suspended {
		refused := want[account]
		refused.Keys = slices.Clone(refused.Keys) // the view keeps its own
		for key, is := range keys {
			switch {
			case now.Before(is.until):
				refused.Keys = append(refused.Keys, key)
				if next.IsZero() || is.until.Before(next) {
					next = is.until
				}
			case now.Sub(is.until) > suspendMost:
				delete(keys, key)
			}
		}
		slices.Sort(refused.Keys)
		refused.Keys = slices.Compact(refused.Keys)
		want[account] = refused
	}
	return next
}

// show returns what a debug socket shows.
func (s *floods) show() any {
	s.mu.Lock()
	defer s.mu.Unlock()
	until, connections := map[string]time.Time{}, 0
	for _, keys := range s.suspended {
		for key, is := range keys {
			until[key] = is.until
		}
	}
	for _, of := range s.sent {
		connections += len(of)
	}
	return map[string]any{"suspended_until": until, "connections": connections}
}
