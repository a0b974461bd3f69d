package trust

import "github.com/nats-io/jwt/v2"

// UserOf returns the public key and the name of the user whom a JWT admits; both are empty when it
// cannot be read.
func UserOf(userJWT string) (publicKey, name string) {
	claims, err := jwt.DecodeUserClaims(userJWT)
	if err != nil {
		return "", ""
	}
	return claims.Subject, claims.Name
}
