package trust

import (
	"strings"
	"time"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nkeys"

	"github.com/garrison-fleet/garrison/pkg/fault"
)

// Bearer returns the credentials of a context as one word, for the Authorization header of an HTTP request: the JWT and
// the seed, with a dot between them.
func (c Context) Bearer() string { return c.JWT + "." + c.Seed }

// ParseBearer returns the context of credentials that Bearer wrote, without an address. It proves that the caller holds
// the key that the JWT names; that the JWT is of this Garrison and not revoked is for the bus to say. An error is
// Denied, and does not show the credentials.
func ParseBearer(word string, at time.Time) (Context, error) {
	dot := strings.LastIndexByte(word, '.')
	if dot < 0 {
		return Context{}, fault.New(fault.Denied, "this is not a bearer token of a Garrison")
	}
	c := Context{JWT: word[:dot], Seed: word[dot+1:]}
	claims, err := jwt.DecodeUserClaims(c.JWT)
	if err != nil || !nkeys.IsValidPublicUserKey(claims.Subject) || claims.Subject != c.PublicKey() {
		return Context{}, fault.New(fault.Denied, "the bearer token is damaged; it is JWT.SEED of a user, whole")
	}
	if CheckPerson(claims.Name) != nil {
		return Context{}, fault.New(fault.Denied, "the bearer token is not of a user")
	}
	if _, until := Times(c.JWT); !until.IsZero() && !at.Before(until) {
		return Context{}, fault.New(fault.Denied, "the bearer token of %s expired at %s", claims.Name,
			until.Format(time.RFC3339))
	}
	c.Actor = claims.Name
	return c, nil
}
