package bus

import (
	"context"
	"encoding/json"
	"net/netip"

	"github.com/nats-io/nats.go"
)

// requestInfo is the header in which the bus describes the client of a request that comes from another account. The bus
// replaces what a client wrote there itself. It has an address only where the import shares it (topology.Export.Share).
const requestInfo = "Nats-Request-Info"

type (
	addressKey struct{}
	senderKey  struct{} // the address as the bus wrote it
)

// AddressOf returns the address from which the request came that a handler of Answer answers, as the bus saw it. It is
// the zero Addr when the bus does not tell it, as for a client in its own process.
func AddressOf(ctx context.Context) netip.Addr {
	a, _ := ctx.Value(addressKey{}).(netip.Addr)
	return a
}

func withAddress(ctx context.Context, h nats.Header) context.Context {
	ctx = context.WithValue(ctx, senderKey{}, addressIn(h))
	a, err := netip.ParseAddr(addressIn(h))
	if err != nil {
		return ctx
	}
	return context.WithValue(ctx, addressKey{}, a.Unmap().WithZone(""))
}

// addressIn returns the address in a header, or "". Several such headers are none: only one is of the bus.
func addressIn(h nats.Header) string {
	if len(h[requestInfo]) != 1 {
		return ""
	}
	var info struct {
		Host string `json:"host"`
	}
	_ = json.Unmarshal([]byte(h.Get(requestInfo)), &info)
	return info.Host
}
