package trust

import (
	"time"

	"github.com/nats-io/jwt/v2"
)

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
