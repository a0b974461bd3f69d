// Package console serves pages of the control plane to a browser. It says what the CLI says, in the same words, and
// acts on the bus as the user who signed in.
//
//	GET  /console/           the fleet; the other pages are below it
//	POST /console/codes      a one-time code for the bearer of a token
//	GET  /console/login      asks for the code; POST signs in, and /console/logout ends the session
//	GET  /console/live       server-sent events: something was recorded
//
// Guarantees:
//
//  1. A page is made from what the bus answers to its user. The console keeps no answers, and no rights.
//  2. A session is known by a random word in a cookie that no script reads. It ends after eight hours, after an hour
//     in which its person asked for nothing, with the user's credentials, and with the gateway. Until then the token
//     of its user is in the memory of this process.
//  3. A code is used once, within two minutes, and is in no address and no log.
//  4. What changes something is a POST from a page of the console. A change of servers shows its plan first, and does
//     what the plan showed or is refused.
//  5. Nothing in a page is loaded from elsewhere, and no text of others is markup or script.
package console

import (
	"embed"
	"io/fs"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/rs/zerolog"

	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/fault"

	"github.com/garrison-fleet/garrison/services/gateway/internal/actor"
)

//go:embed assets
var assets embed.FS

const (
	// answerWithin bounds the time in which a page is made.
	answerWithin = 15 * time.Second
	// mostForm bounds the body of a form.
	mostForm = 256 << 10
)

// Config is what the console needs.
type Config struct {
	Actors *actor.Pool
	Local  bool // only this host reaches the listener, without TLS
	Log    zerolog.Logger
	Now    func() time.Time    // the clock
	Known  func(*http.Request) // called for each request of a session
}

// Console serves pages. It is safe for concurrent use.
type Console struct {
	cfg      Config
	sessions *sessions
}

// New returns a Console without sessions.
func New(cfg Config) *Console { return &Console{cfg: cfg, sessions: newSessions(cfg.Now)} }

// Handler returns the handler of everything below /console/. Streams end when the handler that untilStop returns does.
func (c *Console) Handler(untilStop func(http.Handler) http.Handler) http.Handler {
	m := http.NewServeMux()
	files, _ := fs.Sub(assets, "assets")
	m.Handle("GET /console/assets/", http.StripPrefix("/console/assets/", cached(http.FileServerFS(files))))
	m.HandleFunc("POST /console/codes", c.makeCode)
	m.HandleFunc("GET /console/login", c.askCode)
	m.HandleFunc("POST /console/login", c.login)
	m.HandleFunc("POST /console/logout", c.logout)
	m.Handle("GET /console/live", untilStop(c.signedIn(c.live)))
	for path, p := range pages {
		m.Handle("GET /console"+path, c.signedIn(show(p)))
	}
	for path, change := range changes {
		m.Handle("POST /console"+path, c.signedIn(change))
	}
	m.Handle("GET /console/", c.signedIn(func(v *visit) {
		showError(v, fault.Refusef(fault.NotFound, code.NotFound, "the console has no page %.100q", v.URL.Path))
	}))
	return c.guarded(m)
}

// guarded refuses requests from pages of other sites, and addresses of others that lead to this host.
func (c *Console) guarded(next http.Handler) http.Handler {
	inner := http.NewCrossOriginProtection().Handler(next)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; "+
			"connect-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'")
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		h.Set("Cache-Control", "no-store")
		h.Set("Referrer-Policy", "same-origin")
		if c.cfg.Local && !loopback(r.Host) {
			http.Error(w, "this address is not one of this host", http.StatusMisdirectedRequest)
			return
		}
		r.Body = http.MaxBytesReader(w, r.Body, mostForm)
		inner.ServeHTTP(w, r)
	})
}

// loopback reports whether the host of a request names this machine.
func loopback(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	return bus.IsLoopback(strings.Trim(host, "[]"))
}

// cached lets browsers keep what changes only with the program.
func cached(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cache-Control", "private, max-age=300")
		next.ServeHTTP(w, r)
	})
}
