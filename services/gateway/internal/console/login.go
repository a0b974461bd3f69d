package console

import (
	"context"
	"encoding/json"
	"net"
	"net/http"
	"net/url"
	"path"
	"strings"
	"time"

	"github.com/garrison-fleet/garrison/pkg/client"
	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/logs"
	"github.com/garrison-fleet/garrison/pkg/topology"

	"github.com/garrison-fleet/garrison/services/gateway/internal/actor"
	"github.com/garrison-fleet/garrison/services/gateway/internal/failure"
)

// codeMade is the answer to POST /console/codes.
type codeMade struct {
	Code    string    `json:"code"`
	Path    string    `json:"path"` // of the page that asks for it
	Expires time.Time `json:"expires"`
}

// makeCode makes a code for the bearer of a token, once the bus let the token in.
func (c *Console) makeCode(w http.ResponseWriter, r *http.Request) {
	token, err := actor.TokenOf(r)
	if err == nil {
		var done func()
		if _, done, err = c.cfg.Actors.Take(r.Context(), token); err == nil {
			defer done()
			c.cfg.Known(r)
		}
	}
	var made codeMade
	if err == nil {
		from, _, _ := net.SplitHostPort(r.RemoteAddr)
		made.Code, made.Expires, err = c.sessions.offer(token, from)
	}
	if err != nil {
		failure.Write(w, r, err)
		return
	}
	made.Path = "/console/login"
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(made) // a client that is gone needs no answer
}

// entry is the page that asks for a code, and then whether its user is the right one.
type entry struct {
	To, Code   string
	User, From string // once the code is known
	Wrong      string // why the last try failed
}

func (c *Console) askCode(w http.ResponseWriter, r *http.Request) {
	render(w, http.StatusOK, "login.html", entry{To: within(r.URL.Query().Get("to"))})
}

// login shows whom a code is for, and signs in once the person confirms that.
func (c *Console) login(w http.ResponseWriter, r *http.Request) {
	e := entry{To: within(r.PostFormValue("to")), Code: r.PostFormValue("code")}
	if r.PostFormValue("confirmed") == "" {
		p, err := c.sessions.look(e.Code)
		if err != nil {
			c.askAgain(w, e, err)
			return
		}
		e.User, e.From = p.user, p.from
		render(w, http.StatusOK, "login.html", e)
		return
	}
	word, err := c.sessions.begin(e.Code)
	if err != nil {
		c.askAgain(w, e, err)
		return
	}
	c.sessions.end(secretOf(r)) // the one before
	c.cfg.Log.Info().Str(logs.Actor, c.userOf(word)).Str("from", r.RemoteAddr).Msg("signed in to the console")
	setWord(w, r, word, int(sessionFor/time.Second))
	http.Redirect(w, r, e.To, http.StatusSeeOther)
}

func (c *Console) askAgain(w http.ResponseWriter, e entry, err error) {
	e.Code, e.Wrong = "", err.Error()
	render(w, failure.Status(err), "login.html", e)
}

func (c *Console) logout(w http.ResponseWriter, r *http.Request) {
	if word := secretOf(r); word != "" {
		c.cfg.Log.Info().Str(logs.Actor, c.userOf(word)).Msg("signed out of the console")
		c.sessions.end(word)
	}
	setWord(w, r, "", -1)
	http.Redirect(w, r, "/console/login", http.StatusSeeOther)
}

func (c *Console) userOf(word string) string {
	is, _ := c.sessions.find(word, false)
	return is.user
}

// within returns a path of the console to go to, and the first page for anything else.
func within(to string) string {
	u, err := url.Parse(to)
	if err != nil || u.Scheme != "" || u.Host != "" || !strings.HasPrefix(path.Clean(u.Path)+"/", "/console/") ||
		path.Clean(u.Path) == "/console/login" || path.Clean(u.Path) == "/console" {
		return "/console/"
	}
	return (&url.URL{Path: path.Clean(u.Path), RawQuery: u.RawQuery}).String()
}

// visit is a request of a user who is signed in.
type visit struct {
	*http.Request
	w      http.ResponseWriter
	client *client.Client
	user   string
	role   topology.Role
	at     time.Time
	names  map[string]string // of the servers of a page, by id
}

// signedIn runs a handler as the user of the request's session, and sends others to sign in.
func (c *Console) signedIn(next func(*visit)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		is, ok := c.sessionOf(r, r.Header.Get("X-Refresh") == "" && r.URL.Path != "/console/live")
		if !ok {
			c.refuseStranger(w, r)
			return
		}
		ctx := r.Context()
		bus, done, err := c.cfg.Actors.Take(ctx, is.token)
		if err != nil {
			if refused := fault.RefusalOf(err).GetCode(); refused == code.LoginRefused || refused == code.LoginOver {
				c.sessions.end(secretOf(r)) // revoked, or expired
			}
			showError(&visit{Request: r, w: w, user: is.user, role: is.role, at: c.cfg.Now()}, err)
			return
		}
		defer done()
		c.cfg.Known(r)
		next(&visit{Request: r, w: w, client: bus, user: is.user, role: is.role, at: c.cfg.Now()})
	})
}

// sessionOf returns the session of a request. Used says that a person asked, and not the page by itself.
func (c *Console) sessionOf(r *http.Request, used bool) (session, bool) {
	return c.sessions.find(secretOf(r), used)
}

// refuseStranger sends a browser to sign in and back again; a script learns that it must.
func (c *Console) refuseStranger(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet || strings.HasSuffix(r.URL.Path, "/live") {
		http.Error(w, "the session is over", http.StatusUnauthorized)
		return
	}
	to := url.Values{"to": {r.URL.RequestURI()}}
	http.Redirect(w, r, "/console/login?"+to.Encode(), http.StatusSeeOther)
}

// bounded returns the context in which a page is made.
func (v *visit) bounded() (context.Context, context.CancelFunc) {
	return context.WithTimeout(v.Context(), answerWithin)
}
