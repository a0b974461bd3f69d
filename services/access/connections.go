package access

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/fold"
	"github.com/garrison-fleet/garrison/pkg/logs"
	"github.com/garrison-fleet/garrison/pkg/topology"

	"github.com/garrison-fleet/garrison/services/access/internal/sessions"
	"github.com/garrison-fleet/garrison/services/access/internal/view"
)

const (
	// compareEvery is how often the number of connections is compared with that of the bus: announcements
	// may be lost.
	compareEvery = 30 * time.Second
	// differsAtMost is how often in a row it may differ before the connections are listed anew, which costs the bus
	// half a millisecond for each. While connections come and go, it differs for a moment.
	differsAtMost = 2
	// countWithin bounds such a list.
	countWithin = time.Minute
	// kicksAtOnce bounds the connections that wait to be ended. Beyond it they wait for the next count.
	kicksAtOnce = 4096
	// maxOwners bounds how many owners of ended connections are remembered.
	maxOwners = 10_000
)

// watched are the accounts whose connections are counted.
var watched = pushed

// mostConnections returns how many connections a key of an account may have.
func mostConnections(account string, uses func(key string) int) func(key string) int {
	return func(key string) int {
		switch account {
		case topology.AccountOps, topology.AccountAudit:
			return sessions.MostOfPerson
		case topology.AccountGuests:
			return max(sessions.Most, min(uses(key), sessions.MostOfToken))
		}
		return sessions.Most
	}
}

// connections counts the open connections of servers and of invited servers, and ends those of
// one server that are too many.
type connections struct {
	cfg      Config
	view     *view.View
	follower *fold.Follower
	kicks    chan bus.Client
	recount  chan struct{}

	mu      sync.Mutex
	books   map[string]*sessions.Book // by account
	ended   map[string]uint64         // by owner, how many connections were ended
	said    map[string]time.Time      // by owner, when that was logged
	dropped uint64                    // how many kicks found no room
	since   []change                  // what was announced since the present count began
	counts  bool                      // a count is under way
}

// change is the announcement of a connection that began or ended.
type change struct {
	account string
	sessions.Session
	ended bool
}

// apply applies an announcement. It returns the connections that are one too many now, and whether the last one of the
// key ended.
func (c *connections) apply(e change) (tooMany []sessions.Session, gone bool) {
	if e.ended {
		return nil, c.books[e.account].Close(e.Session)
	}
	return c.books[e.account].Open(e.Session), false
}

func newConnections(cfg Config, v *view.View, f *fold.Follower) *connections {
	c := &connections{
		cfg: cfg, view: v, follower: f, kicks: make(chan bus.Client, kicksAtOnce), recount: make(chan struct{}, 1),
		books: map[string]*sessions.Book{}, ended: map[string]uint64{}, said: map[string]time.Time{},
	}
	for _, account := range watched {
		c.books[account] = sessions.NewBook(mostConnections(account, c.usesOf))
	}
	cfg.System.OnBack(func() { ring(c.recount) })
	return c
}

// watch subscribes to the connects and disconnects of every watched account. stop ends what was subscribed to.
func (c *connections) watch() (stop func(), err error) {
	var stops []func()
	stop = func() {
		for _, s := range stops {
			s()
		}
	}
	for _, account := range watched {
		s, err := c.cfg.System.WatchClients(c.cfg.Issuer.AccountKey(account),
			func(o bus.Client) { c.opened(account, o) }, func(o bus.Client) { c.closed(account, o) })
		if err != nil {
			return stop, err
		}
		stops = append(stops, s)
	}
	return stop, nil
}

// run watches until ctx is done.
func (c *connections) run(ctx context.Context) error {
	stop, err := c.watch()
	defer stop()
	if err != nil {
		return err
	}
	done := make(chan struct{})
	go func() { defer close(done); c.kick(ctx) }()
	defer func() { <-done }()
	every := time.NewTicker(compareEvery)
	defer every.Stop()
	differs := differsAtMost // the first look counts
	for {
		if differs >= differsAtMost {
			if err := c.count(ctx); err != nil && ctx.Err() == nil {
				c.cfg.Log.Debug().Err(err).Msg("connections not counted")
			} else {
				differs = 0
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-c.recount:
			differs = differsAtMost
		case <-every.C:
			if c.differs(ctx) {
				differs++
			} else {
				differs = 0
			}
		}
	}
}

// usesOf returns how much the watched accounts use the servers of the bus, by their names.
func usesOf(ctx context.Context, cfg Config, servers int) (map[string]bus.AccountUse, error) {
	keys := make([]string, len(watched))
	for i, account := range watched {
		keys[i] = cfg.Issuer.AccountKey(account)
	}
	byKey, err := cfg.System.AccountUses(ctx, keys, servers)
	uses := map[string]bus.AccountUse{}
	for i, account := range watched {
		uses[account] = byKey[keys[i]]
	}
	return uses, err
}

// differs reports whether the bus has another number of connections than were announced.
func (c *connections) differs(ctx context.Context) bool {
	servers, err := c.cfg.System.Servers(ctx)
	if err != nil {
		return true
	}
	uses, err := usesOf(ctx, c.cfg, len(servers))
	if err != nil {
		return true
	}
	for _, account := range watched {
		c.mu.Lock()
		have, _ := c.books[account].Count()
		c.mu.Unlock()
		if uses[account].Connections != have {
			return true
		}
	}
	return false
}

func (c *connections) opened(account string, o bus.Client) {
	c.announced(change{account, session(o), false})
}

func (c *connections) closed(account string, o bus.Client) {
	c.announced(change{account, session(o), true})
}

func (c *connections) announced(e change) {
	c.mu.Lock()
	if c.counts {
		c.since = append(c.since, e)
	}
	tooMany, gone := c.apply(e)
	c.mu.Unlock()
	c.end(tooMany)
	if gone {
		c.sayGone(e.account, e.User)
	}
}

// sayGone announces to the registry which servers have no connection left. What is lost of that, the silence of the
// server shows later.
func (c *connections) sayGone(account string, keys ...string) {
	if account != topology.AccountNodes {
		return
	}
	var servers []string
	c.follower.Read(func() {
		for _, key := range keys {
			if id := c.view.OwnerOf(account, key); id != "" && c.view.KeyOfServer(id) == key {
				servers = append(servers, id)
			}
		}
	})
	for _, id := range servers {
		if err := c.cfg.Conn.Publish(topology.GoneSubject(id), nil); err != nil {
			c.cfg.Log.Debug().Err(err).Str(logs.Server, id).Msg("the end of a connection not announced")
		}
	}
}

// count asks every server of the bus for its connections. What is announced meanwhile is applied to
// the result: an answer may be older.
func (c *connections) count(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, countWithin)
	defer cancel()
	c.mu.Lock()
	c.counts, c.since = true, nil
	c.mu.Unlock()
	all, err := c.list(ctx)
	c.mu.Lock()
	since := c.since
	c.counts, c.since = false, nil
	if err != nil {
		c.mu.Unlock()
		return err
	}
	var tooMany []sessions.Session
	gone := map[string][]string{}
	for account, open := range all {
		surplus, ended := c.books[account].Replace(open)
		tooMany, gone[account] = append(tooMany, surplus...), ended
	}
	for _, e := range since {
		surplus, ended := c.apply(e)
		if tooMany = append(tooMany, surplus...); ended {
			gone[e.account] = append(gone[e.account], e.User)
		}
	}
	for account, keys := range gone { // some have connected again since
		gone[account] = slices.DeleteFunc(keys, c.books[account].Has)
	}
	c.mu.Unlock()
	c.end(tooMany)
	for account, keys := range gone {
		c.sayGone(account, keys...)
	}
	return nil
}

// list returns the connections to every server of the bus, by account.
func (c *connections) list(ctx context.Context) (map[string][]sessions.Session, error) {
	servers, err := c.cfg.System.Servers(ctx)
	if err != nil {
		return nil, err
	}
	all := map[string][]sessions.Session{}
	for _, account := range watched {
		all[account] = nil
		for _, s := range servers {
			clients, err := c.cfg.System.Clients(ctx, s, c.cfg.Issuer.AccountKey(account))
			if err != nil {
				return nil, err
			}
			for _, o := range clients {
				all[account] = append(all[account], session(o))
			}
		}
	}
	return all, nil
}

// end has connections ended, and logs that once for each owner and minute.
func (c *connections) end(tooMany []sessions.Session) {
	for _, s := range tooMany {
		select {
		case c.kicks <- bus.Client{Server: bus.Server{ID: s.Server, Name: s.Name}, ID: s.ID, User: s.User}:
		default:
			c.mu.Lock()
			c.dropped++
			c.mu.Unlock()
			continue
		}
		owner := c.ownerOf(s.User)
		c.mu.Lock()
		if len(c.ended) >= maxOwners {
			clear(c.ended)
			clear(c.said)
		}
		c.ended[owner]++
		count, silent := c.ended[owner], c.cfg.Now().Sub(c.said[owner]) < time.Minute
		if !silent {
			c.said[owner] = c.cfg.Now()
		}
		c.mu.Unlock()
		if !silent {
			c.cfg.Log.Warn().Str(logs.Server, owner).Uint64(logs.Count, count).Str("address", s.Address).
				Msg("a key has too many connections; the newest are ended")
		}
	}
}

// kick ends the connections that are too many, one after another.
func (c *connections) kick(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case o := <-c.kicks:
			if err := c.cfg.System.Kick(ctx, o); err != nil && ctx.Err() == nil {
				c.cfg.Log.Debug().Err(err).Msg("connection not ended")
			}
		}
	}
}

// ownerOf returns the server of a key, or the key itself for one that the ledger does not know.
func (c *connections) ownerOf(key string) (owner string) {
	c.follower.Read(func() {
		for _, account := range watched {
			owner = cmp.Or(owner, c.view.OwnerOf(account, key))
		}
	})
	return cmp.Or(owner, key)
}

// usesOf returns how many servers may join with the pooled token that has a key; 0 for any other key.
func (c *connections) usesOf(key string) (n int) {
	c.follower.Read(func() { n = c.view.UsesOf(key) })
	return n
}

// userOf returns the key of a connection, or "".
func (c *connections) userOf(account, server string, id uint64) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.books[account].UserOf(server, id)
}

// show returns what a debug socket shows.
func (c *connections) show() any {
	c.mu.Lock()
	defer c.mu.Unlock()
	out := map[string]any{"kicks_without_room": c.dropped}
	for account, b := range c.books {
		open, keys := b.Count()
		out[account] = map[string]int{"connections": open, "keys": keys, "keys_with_several": len(b.Several())}
	}
	return out
}

func session(o bus.Client) sessions.Session {
	return sessions.Session{
		Server: o.Server.ID, Name: o.Server.Name, ID: o.ID, User: o.User, Address: o.Address, Since: o.Since,
	}
}
