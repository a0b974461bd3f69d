package inventory

import (
	"io"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/regular"
	"github.com/garrison-fleet/garrison/pkg/trust"
)

// maxToken bounds the file of a token, in bytes.
const maxToken = 64 << 10

// TokenIn returns the join token that a file holds. It refuses a file that holds none: no command overwrites it.
func TokenIn(file string) (trust.Token, error) {
	var token trust.Token
	f, err := regular.Open(file)
	if err == nil {
		defer func() { _ = f.Close() }()
		var data []byte
		if data, err = io.ReadAll(io.LimitReader(f, maxToken)); err == nil {
			token, err = trust.ParseToken(string(data))
		}
	}
	if err != nil {
		return token, fault.Refusef(fault.Conflict, code.Exists, "%s exists and is not a join token", file).
			Try("another --token-file")
	}
	return token, nil
}
