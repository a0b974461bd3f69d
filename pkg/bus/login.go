package bus

import (
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
)

// Login is the result of the last login. Each cause of a failure has a value of its own, because
// callers act on them differently.
type Login uint8

// The results of a login.
const (
	LoginPending  Login = iota // no try has ended yet
	LoginIn                    // the bus accepted the login
	LoginAway                  // unreachable, or the connection breaks
	LoginStarting              // up but not accepting logins yet: starting, or at its connection limit
	// the bus rejects the credentials without a reason: a wrong key, an unknown account or user, or
	// one of the following
	LoginDenied
	LoginExpired    // the user's or the account's credentials have expired
	LoginRevoked    // the user was revoked
	LoginUnreadable // the credentials cannot be read, so no login was tried
	LoginOther      // another refusal
	LoginUntrusted  // the other side did not prove to be the bus, so no login was tried
)

var loginNames = [...]string{"pending", "in", "away", "starting", "denied", "expired", "revoked", "unreadable", "other",
	"untrusted"}

// String returns the login in a word.
func (l Login) String() string { return loginNames[l] }

// Refused reports whether the bus was reached and rejected the credentials.
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
	nats.ErrNoServers, nats.ErrTimeout, nats.ErrConnectionClosed, nats.ErrConnectionDraining,
	nats.ErrConnectionReconnecting, nats.ErrDrainTimeout, nats.ErrDisconnected, nats.ErrStaleConnection,
	nats.ErrSecureConnRequired, nats.ErrSecureConnWanted,
	nats.ErrNoInfoReceived, nats.ErrNoEchoNotSupported, nats.ErrClientIDNotSupported, nats.ErrReconnectBufExceeded,
	nats.ErrInvalidConnection, nats.ErrJsonParse, nats.ErrSlowConsumer, nats.ErrMaxPayload, nats.ErrHeadersNotSupported,
}

// LoginOf returns the result of a login that failed with err. The first connect returns some
// refusals as the server's own text and not as one of the client's errors. An unknown text of the
// server is LoginOther.
func LoginOf(err error) Login {
	switch {
	case errors.Is(err, errUnreadable):
		return LoginUnreadable
	case untrusted(err):
		return LoginUntrusted
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

// Access reports whether the bus lets this connection in.
func (c *session) Access() Access {
	c.mu.Lock()
	a := c.access
	c.mu.Unlock()
	if a.Login != LoginIn && c.Connected() {
		return Access{Login: LoginIn, Since: time.Now()} // the callback has not run yet
	}
	return a
}

// refused records a failed login. The reason for which the bus ended a connection, such as an
// expiry, is more precise than its answer to the logins that follow, so it is kept.
func (c *session) refused(err error) {
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

// onError handles an asynchronous error of the client. Some are the reason for which the bus
// ends the connection, or its answer to a login.
func (c *session) onError(err error) {
	if l := LoginOf(err); l.Refused() || l == LoginUnreadable || l == LoginStarting {
		c.refused(err)
	}
}

// lost notes that the connection ended. When the bus has said why, that stays.
func (c *session) lost(err error) {
	c.mu.Lock()
	known := c.access.Login.Refused()
	c.mu.Unlock()
	if !known || LoginOf(err).Refused() {
		c.refused(err)
	}
}

// letIn notes that the bus let this connection in.
func (c *session) letIn() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.access = Access{Login: LoginIn, Since: time.Now()}
}

// nextTry notes that the next try begins after d, and returns d.
func (c *session) nextTry(d time.Duration) time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.access.NextTry = time.Now().Add(d)
	return d
}
