package bus

import (
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
)

// Login is how the last try to be let in ended. Different causes stay apart here, so that
// nobody has to act on one word for all of them.
type Login uint8

// How a login ends.
const (
	LoginPending    Login = iota // no try has ended yet
	LoginIn                      // the bus let it in
	LoginAway                    // nobody answers there, or what answers breaks off
	LoginStarting                // the bus answers, and takes nobody for the moment: it starts, or has too many already
	LoginDenied                  // the bus does not take the credentials, and never says why: a wrong key, an unknown account or user, or what follows
	LoginExpired                 // the user's or the account's time is over
	LoginRevoked                 // the user was revoked
	LoginUnreadable              // the credentials cannot be read here, so nothing was tried
	LoginOther                   // the bus said something else
)

var loginNames = [...]string{"pending", "in", "away", "starting", "denied", "expired", "revoked", "unreadable", "other"}

// String gives the login in a word.
func (l Login) String() string { return loginNames[l] }

// Refused says whether somebody was there and did not let it in.
func (l Login) Refused() bool {
	return l == LoginDenied || l == LoginExpired || l == LoginRevoked
}

// Access is whether the bus lets a connection in, and since when.
type Access struct {
	Login   Login
	Reason  string    // as the bus or the client said it; empty while it is in
	Since   time.Time // when it began to be so
	NextTry time.Time // when the next try begins; zero while it is in
}

// errUnreadable is an error of the credentials themselves.
var errUnreadable = errors.New("the credentials cannot be read")

// said is what a nats-server may say to a client in an error, in lower case, up to where
// its text varies. A test compares it with the server's source.
var said = map[string]Login{
	nats.AUTHORIZATION_ERR:                  LoginDenied,
	"authentication timeout":                LoginStarting, // it was too busy to look, or was given nothing to look at
	nats.AUTHENTICATION_EXPIRED_ERR:         LoginExpired,
	nats.ACCOUNT_AUTHENTICATION_EXPIRED_ERR: LoginExpired,
	nats.AUTHENTICATION_REVOKED_ERR:         LoginRevoked,
	nats.MAX_CONNECTIONS_ERR:                LoginStarting,
	nats.MAX_ACCOUNT_CONNECTIONS_ERR:        LoginStarting,
	"connection throttling is active":       LoginStarting,
	"failed account registration":           LoginStarting,
	"secure connection - tls required":      LoginOther,
	"invalid client protocol":               LoginOther,
	"no responders requires headers":        LoginOther,
	"unknown protocol operation":            LoginOther,
	"maximum control line exceeded":         LoginOther,
	// These are said about single messages, after the login.
	"maximum subscriptions exceeded": LoginOther,
	"maximum payload":                LoginOther,
	"invalid publish subject":        LoginOther,
	"invalid subject":                LoginOther,
	nats.PERMISSIONS_ERR:             LoginOther,
}

// own are the errors of the client itself about a connection. Any other text of the client's form is the server's.
var own = []error{
	nats.ErrNoServers, nats.ErrTimeout, nats.ErrConnectionClosed, nats.ErrConnectionDraining, nats.ErrConnectionReconnecting,
	nats.ErrDrainTimeout, nats.ErrDisconnected, nats.ErrStaleConnection, nats.ErrSecureConnRequired, nats.ErrSecureConnWanted,
	nats.ErrNoInfoReceived, nats.ErrNoEchoNotSupported, nats.ErrClientIDNotSupported, nats.ErrReconnectBufExceeded,
	nats.ErrInvalidConnection, nats.ErrJsonParse, nats.ErrSlowConsumer, nats.ErrMaxPayload, nats.ErrHeadersNotSupported,
}

// LoginOf says how a try ended that ended with err. The first connect gives some refusals
// as the server's own text, and not as one of the client's errors. A text of the server that is not known is
// LoginOther: somebody is there, and does not let this one in.
func LoginOf(err error) Login {
	switch {
	case errors.Is(err, errUnreadable):
		return LoginUnreadable
	case errors.Is(err, nats.ErrAuthorization):
		return LoginDenied
	case errors.Is(err, nats.ErrAuthExpired), errors.Is(err, nats.ErrAccountAuthExpired):
		return LoginExpired
	case errors.Is(err, nats.ErrAuthRevoked):
		return LoginRevoked
	case errors.Is(err, nats.ErrMaxConnectionsExceeded), errors.Is(err, nats.ErrMaxAccountConnectionsExceeded):
		return LoginStarting
	}
	text := strings.ToLower(err.Error())
	if at := strings.LastIndex(text, "nats: "); at >= 0 {
		text = text[at+len("nats: "):]
	}
	text = strings.Trim(text, "'\"")
	for prefix, l := range said {
		if strings.HasPrefix(text, prefix) {
			return l
		}
	}
	isOwn := slices.ContainsFunc(own, func(e error) bool { return errors.Is(err, e) })
	if strings.HasPrefix(err.Error(), "nats: ") && !isOwn {
		return LoginOther
	}
	return LoginAway
}

// Access says whether the bus lets this connection in.
func (c *Conn) Access() Access {
	c.mu.Lock()
	a := c.access
	c.mu.Unlock()
	if a.Login != LoginIn && c.Connected() {
		return Access{Login: LoginIn, Since: time.Now()} // it will be told in a moment
	}
	return a
}

// refused notes that a try ended with an error. What the bus says to one that is in, such
// as that its time is over, tells more than its answer to the tries that follow.
func (c *Conn) refused(err error) {
	l := LoginOf(err)
	c.mu.Lock()
	defer c.mu.Unlock()
	if l == LoginDenied && c.access.Login.Refused() {
		l = c.access.Login
	}
	if l != c.access.Login {
		c.access.Login, c.access.Since = l, time.Now()
	}
	c.access.Reason = err.Error()
}

// heard hears an error that the client was told beside all calls. Some of them are the
// bus's last word before it ends the connection, or its answer to a try.
func (c *Conn) heard(err error) {
	if l := LoginOf(err); l.Refused() || l == LoginUnreadable || l == LoginStarting {
		c.refused(err)
	}
}

// lost notes that the connection ended. When the bus has said why, that stays.
func (c *Conn) lost(err error) {
	c.mu.Lock()
	known := c.access.Login.Refused()
	c.mu.Unlock()
	if !known || LoginOf(err).Refused() {
		c.refused(err)
	}
}

// letIn notes that the bus let this connection in.
func (c *Conn) letIn() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.access = Access{Login: LoginIn, Since: time.Now()}
}

// nextTry notes when the next try begins, and gives how long that is.
func (c *Conn) nextTry(attempt int, longest time.Duration) time.Duration {
	d := backoff(attempt, longest)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.access.NextTry = time.Now().Add(d)
	return d
}
