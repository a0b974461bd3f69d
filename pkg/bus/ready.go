package bus

import (
	"context"
	"errors"
	"slices"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/garrison-fleet/garrison/pkg/fault"
)

// notReady are errors of a bus whose servers have no leader, or which are not all there.
var notReady = []error{
	context.DeadlineExceeded, nats.ErrTimeout, nats.ErrNoResponders, jetstream.ErrJetStreamNotEnabled,
	jetstream.ErrJetStreamNotEnabledForAccount,
}

// codeNoPeers is nats-server's code for too few servers for a stream's replicas.
const codeNoPeers = 10005

// NotReady reports whether an error of the bus may go away by itself: its servers start, or elect a leader.
func NotReady(err error) bool {
	if slices.ContainsFunc(notReady, func(e error) bool { return errors.Is(err, e) }) {
		return true
	}
	var api *jetstream.APIError
	if errors.As(err, &api) {
		return api.Code == 503 || api.ErrorCode == codeNoPeers
	}
	return fault.Is(err, fault.Unavailable)
}
