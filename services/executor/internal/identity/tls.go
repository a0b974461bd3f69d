package identity

import (
	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/services/executor/internal/layout"
)

// TLS returns how the server with an identity under root knows its bus. The CAs are read from the disk at each
// connect.
func (i Identity) TLS(root layout.Root) bus.TLS {
	return bus.TLS{
		CA: func() ([]byte, error) {
			now, err := Read(root)
			return []byte(now.BusCA), err
		},
		Source:     root.Identity(),
		Renew:      "garrison server revoke NAME, garrison server enroll NAME, then executor join --token-file FILE",
		AllowPlain: i.AllowPlain,
	}
}
