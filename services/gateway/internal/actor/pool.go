// Package actor keeps a connection to the bus for each actor that asks over HTTP.
//
// Guarantees:
//
//  1. An actor acts with its own credentials only: a connection is found by the digest of the whole bearer token, so
//     that two tokens never share one.
//  2. What an actor may do is decided by the bus alone. A token that the bus refuses is refused for a few seconds
//     without asking again.
//  3. Connections, requests of one token and logins within a second have bounds. A token that was not signed with the
//     key in it costs no login; tokens of unknown issuers share a small allowance, so that forged tokens
//     take no login of a user.
package actor

import (
	"context"
	"crypto/sha256"
	"sync"
	"time"

	"github.com/garrison-fleet/garrison/pkg/client"
	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/pace"
	"github.com/garrison-fleet/garrison/pkg/trust"
)

const (
	// mostTokens bounds the connections; a connection costs about 100 KB.
	mostTokens = 1000
	// mostAtOnce bounds the requests and streams of one token.
	mostAtOnce = 64
	// loginsASecond bounds the logins of all tokens.
	loginsASecond = 50
	// strangersASecond bounds the logins with tokens of issuers of whom none was accepted.
	strangersASecond = 5
	// mostIssuers bounds the issuers that are remembered: one signs the users of a role.
	mostIssuers = 64
	// idleFor is how long a connection that is not used stays open.
	idleFor = time.Minute
	// refusedFor is how long a refusal of the bus is repeated.
	refusedFor = 5 * time.Second
	// loginWithin bounds a login.
	loginWithin = 15 * time.Second
)

// Connect connects with the credentials of a person.
type Connect func(ctx context.Context, who trust.Context) (*client.Client, error)

// Pool keeps the connections. It is safe for concurrent use.
type Pool struct {
	connect Connect
	now     func() time.Time
	logins  *pace.Pace
	unknown *pace.Pace // logins of unknown issuers

	mu      sync.Mutex
	open    map[[sha256.Size]byte]*session
	issuers map[string]bool // of tokens that the bus accepted
}

// session is the connection of a token, or why the token has no connection.
type session struct {
	ready chan struct{} // closed once client or err is set

	client *client.Client
	err    error

	users int
	until time.Time // when it ends unless it is used; of a refusal, when the bus is asked again
}

// NewPool returns a Pool without connections. Issuers are those that are known beforehand.
func NewPool(connect Connect, issuers []string, now func() time.Time) *Pool {
	p := &Pool{
		connect: connect, now: now, logins: pace.New(loginsASecond, time.Second),
		unknown: pace.New(strangersASecond, time.Second),
		open:    map[[sha256.Size]byte]*session{}, issuers: map[string]bool{},
	}
	for _, issuer := range issuers {
		p.issuers[issuer] = true
	}
	return p
}

// Take returns the connection of a bearer token. The caller calls done when it needs it no longer. An error is Denied
// for a token that is refused, and Unavailable while too much is under way.
func (p *Pool) Take(ctx context.Context, token string) (c *client.Client, done func(), err error) {
	s, err := p.session(token)
	if err != nil {
		return nil, nil, err
	}
	select {
	case <-s.ready:
	case <-ctx.Done():
		p.leave(s)
		return nil, nil, context.Cause(ctx)
	}
	if s.err != nil {
		p.leave(s)
		return nil, nil, s.err
	}
	return s.client, func() { p.leave(s) }, nil
}

// session returns the session of a token with one more user, and begins one.
func (p *Pool) session(token string) (*session, error) {
	key := sha256.Sum256([]byte(token))
	if s, err := p.join(key); s != nil || err != nil {
		return s, err
	}
	who, err := trust.ParseBearer(token, p.now())
	if err != nil {
		return nil, fault.Refusef(fault.Denied, code.LoginRefused, "%v", err).Try("garrison context token")
	}
	return p.begin(key, who)
}

// join returns the session of a token with one more user; nil without one.
func (p *Pool) join(key [sha256.Size]byte) (*session, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.open[key]
	switch {
	case s == nil:
	case p.over(s):
		p.end(key)
	case s.users >= mostAtOnce:
		return nil, busy("%d requests with this token are under way", s.users)
	default:
		s.users++
		return s, nil
	}
	return nil, nil
}

// begin returns a new session of a token.
func (p *Pool) begin(key [sha256.Size]byte, who trust.Context) (*session, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if s := p.open[key]; s != nil { // another request was faster
		s.users++
		return s, nil
	}
	if len(p.open) >= mostTokens && !p.makeRoom() {
		return nil, busy("%d tokens are in use", len(p.open))
	}
	pace := p.unknown
	if p.issuers[trust.IssuerOf(who.JWT)] {
		pace = p.logins
	}
	if _, ok := pace.Take(""); !ok {
		return nil, busy("too many tokens are new within this second")
	}
	s := &session{ready: make(chan struct{}), users: 1, until: p.now().Add(loginWithin + idleFor)}
	p.open[key] = s
	go p.login(s, who)
	return s, nil
}

// over reports whether a session is not to be used again.
func (p *Pool) over(s *session) bool { return s.users == 0 && !p.now().Before(s.until) }

// login connects, also when its first request was given up.
func (p *Pool) login(s *session, who trust.Context) {
	ctx, cancel := context.WithTimeout(context.Background(), loginWithin)
	defer cancel()
	c, err := p.connect(ctx, who)
	p.mu.Lock()
	defer p.mu.Unlock()
	s.client, s.err, s.until = c, err, p.now().Add(idleFor)
	if err != nil {
		s.until = p.now().Add(refusedFor)
	} else if len(p.issuers) < mostIssuers {
		p.issuers[trust.IssuerOf(who.JWT)] = true
	}
	close(s.ready)
}

// leave notes that a user of a session is done. A session whose login the bus ended is refused for a while.
func (p *Pool) leave(s *session) {
	p.mu.Lock()
	defer p.mu.Unlock()
	s.users--
	if s.client == nil || s.err != nil {
		return
	}
	s.until = p.now().Add(idleFor)
	if s.err = client.LoggedOut(s.client); s.err != nil {
		s.until = p.now().Add(refusedFor)
	}
}

// makeRoom ends the session that was not used for the longest time, and reports whether there was one.
func (p *Pool) makeRoom() bool {
	var oldest [sha256.Size]byte
	var found *session
	for key, s := range p.open {
		if s.users == 0 && (found == nil || s.until.Before(found.until)) {
			oldest, found = key, s
		}
	}
	if found == nil {
		return false
	}
	p.end(oldest)
	return true
}

// Run ends sessions that are not used, and all of them when ctx is done.
func (p *Pool) Run(ctx context.Context) error {
	tick := time.NewTicker(refusedFor)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			p.prune(p.over)
		case <-ctx.Done():
			p.prune(func(*session) bool { return true })
			return nil
		}
	}
}

func (p *Pool) prune(ends func(*session) bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for key, s := range p.open {
		if ends(s) {
			p.end(key)
		}
	}
}

// end forgets a session, and closes its connection once the login has ended.
func (p *Pool) end(key [sha256.Size]byte) {
	s := p.open[key]
	delete(p.open, key)
	go func() {
		<-s.ready
		if s.client != nil {
			s.client.Close()
		}
	}()
}

// Len returns how many tokens have a session.
func (p *Pool) Len() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.open)
}

func busy(format string, args ...any) error {
	return fault.Refusef(fault.Unavailable, code.Busy, format, args...).After(time.Second)
}
