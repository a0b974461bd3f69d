package trust

import (
	"time"

	"github.com/nats-io/jwt/v2"
)

// Expires gives when the bus lets nobody in with the token any more; zero when it cannot be told.
func (t Token) Expires() time.Time {
	claims, err := jwt.DecodeUserClaims(t.JWT)
	if err != nil || claims.Expires == 0 {
		return time.Time{}
	}
	return time.Unix(claims.Expires, 0).UTC()
}
