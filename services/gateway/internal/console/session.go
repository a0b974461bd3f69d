package console

import (
	"crypto/rand"
	"crypto/sha256"
	"strings"
	"sync"
	"time"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/pace"
	"github.com/garrison-fleet/garrison/pkg/trust"
)

const (
	// sessionFor and idleFor bound a session.
	sessionFor, idleFor = 8 * time.Hour, time.Hour
	// codeFor is how long a code is valid.
	codeFor = 2 * time.Minute
	// mostSessions and mostCodes bound what is kept.
	mostSessions, mostCodes = 1000, 100
	// triesASecond bounds the codes that are tried, by all browsers together. A code has 50 bits.
	triesASecond = 5
)

// session is a browser that is signed in.
type session struct {
	token string // the bearer token of its user
	user  string
	until time.Time
	seen  time.Time
}

// pending is a code that was not used yet.
type pending struct {
	token, user, from string
	until             time.Time
}

type digest = [sha256.Size]byte

// sessions are the browsers that are signed in, and the codes with which others may. Both are kept by digest.
type sessions struct {
	now   func() time.Time
	tries *pace.Pace

	mu    sync.Mutex
	open  map[digest]*session
	codes map[digest]*pending
}

func newSessions(now func() time.Time) *sessions {
	return &sessions{
		now: now, tries: pace.New(triesASecond, time.Second),
		open: map[digest]*session{}, codes: map[digest]*pending{},
	}
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
	if len(s.codes) >= mostCodes {
		return "", until, fault.Refusef(fault.Unavailable, code.Busy, "%d codes wait for their browsers",
			len(s.codes)).After(codeFor)
	}
	word, until = newCode(), s.now().Add(codeFor)
	s.codes[digestOf(word)] = &pending{token, who.Actor, from, until}
	return word, until, nil
}

// look returns what a code is for, without using it.
func (s *sessions) look(word string) (pending, error) {
	if _, ok := s.tries.Take(""); !ok {
		return pending{}, fault.Refusef(fault.Unavailable, code.Busy, "too many codes were tried").After(time.Second)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.codes[digestOf(word)]
	if p == nil || !s.now().Before(p.until) {
		return pending{}, fault.Refusef(fault.Denied, code.LoginRefused,
			"the code is not known, was used, or is older than %s", codeFor).Try("garrison console")
	}
	return *p, nil
}

// begin uses a code, and returns the word by which the session is known.
func (s *sessions) begin(code string) (word string, err error) {
	p, err := s.look(code)
	if err != nil {
		return "", err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.codes[digestOf(code)] == nil {
		return "", fault.New(fault.Denied, "the code was used just now")
	}
	delete(s.codes, digestOf(code))
	s.prune()
	if len(s.open) >= mostSessions {
		return "", fault.New(fault.Unavailable, "%d browsers are signed in", len(s.open))
	}
	word = rand.Text()
	s.open[digestOf(word)] = &session{p.token, p.user, s.now().Add(sessionFor), s.now()}
	return word, nil
}

// find returns the session that a word is for.
func (s *sessions) find(word string) (found session, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	is := s.open[digestOf(word)]
	if is == nil || s.over(is) {
		return found, false
	}
	is.seen = s.now()
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

// newCode returns a code that a person can type: ten letters and digits in two groups.
func newCode() string {
	text := rand.Text()[:10]
	return text[:5] + "-" + text[5:]
}

// digestOf returns the digest of a word. Codes are compared without their dash, and in either case.
func digestOf(word string) digest {
	return sha256.Sum256([]byte(strings.ToUpper(strings.ReplaceAll(strings.TrimSpace(word), "-", ""))))
}
