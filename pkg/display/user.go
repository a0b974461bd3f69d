package display

import (
	"github.com/garrison-fleet/garrison/pkg/listing"
	userv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/user/v1"
)

// User is a user as access returns it.
type User = *userv1.User

// Users lists users.
var Users = listing.Listing[User]{
	Name: User.GetName,
	Columns: []listing.Column[User]{
		listing.Col("NAME", User.GetName),
		listing.Col("ROLE", func(u User) string { return listing.Word(u.GetRole()) }),
		listing.Col("STATE", func(u User) string { return listing.Word(u.GetState()) }),
		listing.Col("CREATED", func(u User) string { return listing.Stamp(u.GetCreatedAt()) }),
		listing.Col("EXPIRES", keyExpires),
		listing.Col("KEY", func(u User) string { return shortKey(newestKey(u)) }),
		listing.Wide("BY", User.GetCreatedBy),
		listing.Wide("RENEWED", func(u User) string { return listing.Stamp(u.GetRenewedAt()) }),
		listing.Wide("REVOKED", func(u User) string { return listing.Stamp(u.GetRevokedAt()) }),
		listing.Wide("REASON", User.GetReason),
	},
}

func newestKey(u User) *userv1.Key {
	keys := u.GetKeys()
	if len(keys) == 0 {
		return nil
	}
	return keys[len(keys)-1]
}

func keyExpires(u User) string {
	k := newestKey(u)
	if k != nil && k.GetExpiresAt() == nil {
		return "never"
	}
	return listing.Stamp(k.GetExpiresAt())
}

// shortKey returns enough of a public key to tell it from others.
func shortKey(k *userv1.Key) string {
	if len(k.GetPublicKey()) < 12 {
		return k.GetPublicKey()
	}
	return k.GetPublicKey()[:12]
}
