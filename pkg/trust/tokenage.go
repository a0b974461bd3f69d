package trust

import (
	"time"

	"github.com/nats-io/jwt/v2"
)

// Times gives from when until when a user's JWT lets somebody in; zero where it does not
// say, or cannot be read. A bus whose clock is behind lets nobody in before the first.
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

// Expires gives when the bus lets nobody in with the token any more; zero when it cannot be told.
func (t Token) Expires() time.Time {
	_, until := Times(t.JWT)
	return until
}
