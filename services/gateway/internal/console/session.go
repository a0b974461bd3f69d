package console

import (
	"crypto/rand"
	"crypto/sha256"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/topology"
	"github.com/garrison-fleet/garrison/pkg/trust"
)

const (
	// sessionFor and idleFor bound a session.
	sessionFor, idleFor = 8 * time.Hour, time.Hour
	// codeFor is how long a code is valid.
	codeFor = 2 * time.Minute
	// mostSessions and mostCodes bound what is kept, and mostOfOne those of one user, of which the oldest ends.
	mostSessions, mostCodes, mostOfOne = 1000, 1000, 10
)

// session is a browser that is signed in.
type session struct {
	token string // the bearer token of its user
	user  string
	role  topology.Role
	until time.Time
	seen  time.Time
}

// pending is a code that was not used yet.
type pending struct {
	token, user, from string
	role              topology.Role
	until             time.Time
}

type digest = [sha256.Size]byte

// sessions are the browsers that are signed in, and the codes with which others may. Both are kept by digest.
type sessions struct {
	now func() time.Time

	mu    sync.Mutex
	open  map[digest]*session
	codes map[digest]*pending
}

func newSessions(now func() time.Time) *sessions {
	return &sessions{now: now, open: map[digest]*session{}, codes: map[digest]*pending{}}
}

// offer returns a code for the bearer of a token, who asks from an address.
func (s *sessions) offer(token, from string) (word string, until time.Time, err error) {
	who, err := trust.ParseBearer(token, s.now())
	if err != nil {
		return "", until, fault.Refusef(fault.Denied, code.LoginRefused, "%v", err).Try("garrison console")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.prune()
	makeRoom(s.codes, func(p *pending) (string, time.Time) { return p.user, p.until }, who.Actor)
	if len(s.codes) >= mostCodes {
		return "", until, fault.Refusef(fault.Unavailable, code.Busy, "%d codes wait for their browsers",
			len(s.codes)).After(codeFor)
	}
	word, until = newCode(), s.now().Add(codeFor)
	s.codes[digestOf(word)] = &pending{token, who.Actor, from, trust.RoleOf(who.JWT), until}
	return word, until, nil
}

// look returns what a code is for, without using it. A code cannot be guessed: it has 50 bits, for two minutes.
func (s *sessions) look(word string) (pending, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.codes[digestOf(word)]
	if p == nil || !s.now().Before(p.until) {
		return pending{}, fault.Refusef(fault.Denied, code.LoginRefused,
			"the code is not known, was used, or is older than two minutes").Try("garrison console")
	}
	return *p, nil
}

// begin uses a code, and returns the word by which the session is known.
func (s *sessions) begin(once string) (word string, err error) {
	p, err := s.look(once)
	if err != nil {
		return "", err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.codes[digestOf(once)] == nil {
		return "", fault.Refusef(fault.Denied, code.LoginRefused, "the code was used just now").Try("garrison console")
	}
	delete(s.codes, digestOf(once))
	s.prune()
	makeRoom(s.open, func(is *session) (string, time.Time) { return is.user, is.seen }, p.user)
	if len(s.open) >= mostSessions {
		return "", fault.Refusef(fault.Unavailable, code.Busy, "%d browsers are signed in", len(s.open)).After(idleFor)
	}
	word = rand.Text()
	s.open[digestOf(word)] = &session{p.token, p.user, p.role, s.now().Add(sessionFor), s.now()}
	return word, nil
}

// find returns the session that a word is for. Used says that a person asked, which keeps the session open.
func (s *sessions) find(word string, used bool) (found session, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	is := s.open[digestOf(word)]
	if is == nil || s.over(is) {
		return found, false
	}
	if used {
		is.seen = s.now()
	}
	return *is, true
}

func (s *sessions) over(is *session) bool {
	return !s.now().Before(is.until) || s.now().Sub(is.seen) >= idleFor
}

// end forgets a session.
func (s *sessions) end(word string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.open, digestOf(word))
}

// prune forgets what is over.
func (s *sessions) prune() {
	for key, is := range s.open {
		if s.over(is) {
			delete(s.open, key)
		}
	}
	for key, p := range s.codes {
		if !s.now().Before(p.until) {
			delete(s.codes, key)
		}
	}
}

// makeRoom forgets the oldest of a user when there are as many as one user may have.
func makeRoom[T any](all map[digest]T, of func(T) (user string, at time.Time), user string) {
	var oldest digest
	var since time.Time
	n := 0
	for key, is := range all {
		who, at := of(is)
		if who != user {
			continue
		}
		if n++; n == 1 || at.Before(since) {
			oldest, since = key, at
		}
	}
	if n >= mostOfOne {
		delete(all, oldest)
	}
}

// newCode returns a code that a person can type: ten letters and digits in two groups.
func newCode() string {
	text := rand.Text()[:10]
	return text[:5] + "-" + text[5:]
}

// digestOf returns the digest of a word. Codes are compared without their dash, and in either case.
func digestOf(word string) digest {
	return sha256.Sum256([]byte(strings.ToUpper(strings.ReplaceAll(strings.TrimSpace(word), "-", ""))))
}

// cookieName is the name of the session's cookie. Its prefix has browsers bind it to this host and to encryption; they
// take a loopback address for encrypted. They send it to every port of the host, so the name has the port.
const cookieName = "__Host-garrison"

// nameOf returns the name of the cookie at the address to which a request was sent.
func nameOf(r *http.Request) string {
	if _, port, err := net.SplitHostPort(r.Host); err == nil {
		return cookieName + "-" + port
	}
	return cookieName
}

// secretOf returns the word by which a browser says that it has a session; empty without one.
func secretOf(r *http.Request) string {
	is, err := r.Cookie(nameOf(r))
	if err != nil {
		return ""
	}
	return is.Value
}

// setWord has a browser keep a word for some seconds; -1 has it forget the one that it has.
func setWord(w http.ResponseWriter, r *http.Request, word string, seconds int) {
	http.SetCookie(w, &http.Cookie{
		Name: nameOf(r), Value: word, Path: "/", MaxAge: seconds, Secure: true, HttpOnly: true,
		SameSite: http.SameSiteLaxMode,
	})
}
