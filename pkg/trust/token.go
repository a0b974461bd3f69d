package trust

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/jwt/v2"

	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/format"
)

// Token is the invitation that an operator hands to a new server: the addresses of the bus, the identity of
// the server, the one-time secret, and credentials that permit only enrolment. A pooled token is for many
// servers; it has a name instead of a server's identity, and its format is 3.
type Token struct {
	URL      string `json:"url"`
	ServerID string `json:"server,omitempty"`
	Pool     string `json:"pool,omitempty"` // the name of a pooled token
	Cell     string `json:"cell"`
	Secret   string `json:"secret"`
	JWT      string `json:"jwt"`
	Seed     string `json:"seed"`
	// Pins are the SHA-256 of the CAs that may sign the bus's certificate; without them the bus is known by the
	// CAs of the operating system. Format 1 has none.
	Pins []string `json:"pins,omitempty"`
}

const (
	tokenPrefix  = "garrison-2."
	pooledPrefix = "garrison-3."
)

// Guest returns the name of the login in the token: that of the server, or of the pooled token.
func (t Token) Guest() string { return cmp.Or(t.ServerID, t.Pool) }

// String returns the token as one word.
func (t Token) String() string {
	data, _ := json.Marshal(t) // a struct of strings always encodes
	if t.Pool != "" {
		return pooledPrefix + base64.RawURLEncoding.EncodeToString(data)
	}
	return tokenPrefix + base64.RawURLEncoding.EncodeToString(data)
}

// ParseToken reads a token. An error is Invalid and does not show the token.
func ParseToken(s string) (Token, error) {
	var t Token
	word := strings.TrimSpace(s)
	var number uint32
	if n, _ := fmt.Sscanf(word, "garrison-%d.", &number); n == 1 {
		have := format.Stamp{Format: number, Floor: number}
		if err := tokenFormat.Check(fmt.Sprintf("garrison-%d.…", number), have); err != nil {
			return t, err
		}
	}
	head, rest, _ := strings.Cut(word, ".")
	if head != fmt.Sprintf("garrison-%d", number) {
		return t, fault.New(fault.Invalid,
			"this is not a join token (want %s…; make one with: garrison server enroll NAME)", tokenPrefix)
	}
	data, err := base64.RawURLEncoding.DecodeString(rest)
	if err == nil {
		err = json.Unmarshal(data, &t)
	}
	if err != nil || (t.ServerID == "") == (t.Pool == "") || t.Secret == "" || t.JWT == "" {
		return t, fault.New(fault.Invalid, "the join token is damaged: was all of it copied?")
	}
	return t, nil
}

// Times returns the validity period of a user's JWT; a time is zero when the JWT does not have
// it or cannot be read. A bus whose clock is behind rejects the JWT before from.
func Times(userJWT string) (from, until time.Time) {
	claims, err := jwt.DecodeUserClaims(userJWT)
	if err != nil {
		return from, until
	}
	if from = time.Unix(claims.IssuedAt, 0).UTC(); claims.NotBefore > claims.IssuedAt {
		from = time.Unix(claims.NotBefore, 0).UTC()
	}
	if claims.Expires != 0 {
		until = time.Unix(claims.Expires, 0).UTC()
	}
	return from, until
}

// Expires returns the time from which the bus rejects the token; zero when it is unknown.
func (t Token) Expires() time.Time {
	_, until := Times(t.JWT)
	return until
}
